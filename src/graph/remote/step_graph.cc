// A step as bytes and back.
#include "graph/remote/step_graph.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/checked_size.h"
#include "core/proto_message.h"
#include "graph/describe_node.h"
#include "graph/saved/saved_parts.h"
#include "strata/core/error.h"

namespace strata::graph::remote {
namespace {

using saved::SavedOperand;
using saved::wide_ids;

constexpr detail::WireText kStepText{.call = "[standalone] step", .expected = "a step"};

class StepEncoding {
 public:
  StepEncoding(const Graph& graph, const std::function<StatePlace(const Value&)>& place,
               const std::function<int64_t(const Node&)>& update)
      : graph_(graph), place_(place), update_(update) {
    for (size_t i = 0; i < graph_.values.size(); ++i) find_memory(i);
  }

  std::string bytes() const {
    StepGraph message{.version = kStepVersion,
                      .name = graph_.name,
                      .inputs = wide_ids(graph_.inputs),
                      .outputs = wide_ids(graph_.outputs)};
    for (size_t i = 0; i < graph_.values.size(); ++i) message.values.push_back(value(i));
    for (size_t n = 0; n < graph_.nodes.size(); ++n) message.nodes.push_back(node(n));
    std::string out;
    detail::write_message(message, out);
    return out;
  }

 private:
  /// A value's memory is a tensor of the session, where the program may have had several in one, and
  /// offsets count from its begin.
  void find_memory(size_t i) {
    const Value& value = graph_.values[i];
    Place& place = places_.emplace_back();
    place.memory = static_cast<ValueId>(i);
    if (value.tensor.defined()) {
      const StatePlace found = place_(value);
      place.state = found.state;
      place.shift = value.offset - found.offset;
      place.memory = first_of_.emplace(found.state, place.memory).first->second;
    } else if (value.memory != static_cast<ValueId>(i)) {
      const Place& viewed = places_[static_cast<size_t>(viewed_by(value))];
      place.shift = viewed.shift;
      place.memory = viewed.memory;
    }
  }

  /// The value that a result is a view of: its node's first tensor, which is before it.
  ValueId viewed_by(const Value& value) const {
    for (const Operand& each : graph_.nodes[static_cast<size_t>(value.node)].arguments) {
      if (!each.values.empty()) return each.values[0];
    }
    return value.memory;
  }

  StepValue value(size_t i) const {
    const Value& value = graph_.values[i];
    const Place& place = places_[i];
    StepValue made{.value = {.kind = static_cast<uint64_t>(value.kind),
                             .dtype = static_cast<uint64_t>(value.dtype),
                             .sizes = value.sizes,
                             .strides = value.strides,
                             .offset = value.offset - place.shift,
                             .memory = place.memory,
                             .node = value.node},
                   .state = place.state};
    if (value.tensor.defined()) {
      made.number = value.tensor.unsafeGetTensorImpl()->is_wrapped_number();
    }
    return made;
  }

  StepNode node(size_t n) const {
    const Node& node = graph_.nodes[n];
    StepNode made{.node = {.name = node.name, .written = wide_ids(node.written)},
                  .work = static_cast<uint64_t>(work_of(node))};
    for (const Operand& each : node.results) made.node.results.push_back(operand(each, n));
    if (!node.host) {
      for (const Operand& each : node.arguments) made.node.arguments.push_back(operand(each, n));
      return made;
    }
    made.node.arguments.push_back(operand(node.arguments[0], n));
    made.numbers = node.arguments[1].number.toDoubleVector();
    if (work_of(node) == Work::kUpdate) made.update = update_(node);
    if (node.arguments.size() > 2) made.sparse = node.arguments[2].number.toIntVector();
    return made;
  }

  SavedOperand operand(const Operand& operand, size_t n) const {
    const auto made = saved::save_operand(operand);
    STRATA_CHECK(made, kUnimplemented, "[standalone] ", graph_.name, ": ", describe_node(graph_, n),
                 " has an argument of ", operand.number.tagKind(),
                 ", which cannot be sent to a server; write this part of the step otherwise");
    return *made;
  }

  struct Place {
    int64_t state = 0;
    ValueId memory = kNoValue;
    int64_t shift = 0;  // of its offset
  };

  const Graph& graph_;
  std::vector<Place> places_;            // by value
  std::map<int64_t, ValueId> first_of_;  // by tensor of the session
  const std::function<StatePlace(const Value&)>& place_;
  const std::function<int64_t(const Node&)>& update_;
};

class StepDecoding {
 public:
  explicit StepDecoding(std::string_view bytes)
      : message_(read(bytes)), parts_(message_.values.size(), require) {}

  RemoteStep step() const {
    RemoteStep made;
    made.graph.name = message_.name;
    for (size_t i = 0; i < message_.values.size(); ++i) {
      made.graph.values.push_back(value(i));
      const bool held = is_held(made.graph.values.back().kind);
      require(!held || message_.values[i].state >= 0, "a negative number of a tensor");
      made.states.push_back(held ? message_.values[i].state : -1);
      made.numbers.push_back(message_.values[i].number);
    }
    for (const StepNode& each : message_.nodes) {
      made.graph.nodes.push_back(parts_.node(each.node));
      made.work.push_back(host_work(each));
    }
    made.graph.inputs = parts_.ids(message_.inputs);
    made.graph.outputs = parts_.ids(message_.outputs);
    return made;
  }

 private:
  static StepGraph read(std::string_view bytes) {
    StepGraph message;
    detail::WireReader reader(bytes, bytes, kStepText);
    read_message(message, reader);
    STRATA_CHECK(message.version == kStepVersion, kUnimplemented, "[standalone] step: got version ",
                 message.version, "; expected ", kStepVersion,
                 ": use one strata on clients and servers");
    return message;
  }
  static void require(bool holds, std::string_view what) {
    STRATA_CHECK(holds, kDataLoss, "[standalone] step: got ", what,
                 "; expected a step that a client of this version made");
  }
  static bool is_held(ValueKind kind) {
    return kind == ValueKind::kCapture || kind == ValueKind::kState || kind == ValueKind::kConstant;
  }

  Value value(size_t i) const {
    const saved::SavedValue& saved = message_.values[i].value;
    const std::string where = str_cat("value ", i, " with ");
    require(saved.kind <= static_cast<uint64_t>(ValueKind::kResult), where + "an unknown kind");
    require(saved::is_known_dtype(saved.dtype), where + "an unknown dtype");
    require(saved.sizes.size() == saved.strides.size() &&
                static_cast<int64_t>(saved.sizes.size()) <= saved::kMostDimensions,
            where + "unequal numbers of sizes and strides, or too many");
    require(std::ranges::all_of(saved.strides, [](int64_t each) { return each >= 0; }) &&
                saved.offset >= 0,
            where + "a negative stride or offset");
    const ValueId memory = parts_.id(saved.memory);
    require(memory != kNoValue && memory <= static_cast<int64_t>(i) &&
                message_.values[static_cast<size_t>(memory)].value.memory == memory,
            where + "a memory that is none");
    const auto kind = static_cast<ValueKind>(saved.kind);
    require(saved.node < static_cast<int64_t>(message_.nodes.size()) &&
                (kind == ValueKind::kResult ? saved.node >= 0 : saved.node == -1) && !saved.stored,
            where + "a node that is not its own");
    return {.kind = kind,
            .dtype = static_cast<at::ScalarType>(saved.dtype),
            .sizes = saved.sizes,
            .strides = saved.strides,
            .offset = saved.offset,
            .memory = memory,
            .node = static_cast<int32_t>(saved.node)};
  }

  HostWork host_work(const StepNode& node) const {
    require(node.work <= static_cast<uint64_t>(kLastWork) && node.update >= 0,
            "a node of unknown work");
    return {.work = static_cast<Work>(node.work),
            .numbers = node.numbers,
            .update = static_cast<size_t>(node.update),
            .sparse = node.sparse};
  }

  StepGraph message_;
  saved::PartsReader parts_;
};

}  // namespace

Work work_of(const Node& node) {
  if (!node.host) return Work::kOperator;
  static const std::map<std::string_view, Work> names = {
      {"strata::all_gather", Work::kAllGather},
      {"strata::all_reduce", Work::kAllReduce},
      {"strata::masked_steps", Work::kMaskedSteps},
      {"strata::masked_steps_backward", Work::kMaskedStepsBackward},
      {"strata::merge_moments", Work::kMergeMoments},
      {"strata::set_variable", Work::kAssign}};
  const auto found = names.find(node.name);
  return found == names.end() ? Work::kUpdate : found->second;
}

std::string encode_step(const Trace& trace, const std::function<StatePlace(const Value&)>& place,
                        const std::function<int64_t(const Node&)>& update) {
  return StepEncoding(trace.graph, place, update).bytes();
}

RemoteStep decode_step(std::string_view bytes) { return StepDecoding(bytes).step(); }

}  // namespace strata::graph::remote
