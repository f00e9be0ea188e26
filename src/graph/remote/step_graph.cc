// A step as bytes and back.
#include "graph/remote/step_graph.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/checked_size.h"
#include "core/proto_message.h"
#include "strata/core/error.h"

namespace strata::graph::remote {
namespace {

using saved::SavedNumber;
using saved::SavedOperand;

constexpr detail::WireText kStepText{.call = "[standalone] step", .expected = "a step"};
constexpr int64_t kMostDimensions = 64;

std::vector<int64_t> wide_ids(const std::vector<ValueId>& ids) { return {ids.begin(), ids.end()}; }

Work work_of(const Node& node) {
  if (!node.host) return Work::kOperator;
  if (node.name == "strata::all_reduce") return Work::kAllReduce;
  if (node.name == "strata::all_gather") return Work::kAllGather;
  return Work::kUpdate;
}

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
    return made;
  }

  SavedOperand operand(const Operand& operand, size_t n) const {
    SavedOperand made{.kind = static_cast<uint64_t>(operand.kind),
                      .values = wide_ids(operand.values)};
    if (operand.kind == Operand::Kind::kNumber) made.number = number(operand.number, n);
    return made;
  }

  SavedNumber number(const c10::IValue& value, size_t n) const {
    SavedNumber made;
    if (value.isInt()) {
      made.integer = value.toInt();
    } else if (value.isDouble()) {
      made.real = value.toDouble();
    } else if (value.isBool()) {
      made.boolean = value.toBool();
    } else if (value.isString()) {
      made.text = value.toStringRef();
    } else if (value.isIntList()) {
      made.list = SavedNumber::kIntegers;
      made.integers = value.toIntVector();
    } else if (value.isDoubleList()) {
      made.list = SavedNumber::kReals;
      made.reals = value.toDoubleVector();
    } else if (value.isBoolList()) {
      made.list = SavedNumber::kBooleans;
      for (const bool each : value.toBoolList()) made.integers.push_back(each ? 1 : 0);
    } else if (value.isDevice() && value.toDevice().is_cpu()) {
      made.cpu = true;
    } else {
      STRATA_CHECK(value.isNone(), kUnimplemented, "[standalone] ", graph_.name, ": node ", n, " (",
                   graph_.nodes[n].name, ") has an argument of ", value.tagKind(),
                   ", which cannot be sent to a server; write this part of the step otherwise");
    }
    return made;
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
  explicit StepDecoding(std::string_view bytes) {
    detail::WireReader reader(bytes, bytes, kStepText);
    read_message(message_, reader);
    STRATA_CHECK(message_.version == kStepVersion, kUnimplemented,
                 "[standalone] step: got version ", message_.version, "; expected ", kStepVersion,
                 ": use one strata on clients and servers");
  }

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
      made.graph.nodes.push_back(node(each));
      made.work.push_back(host_work(each));
    }
    made.graph.inputs = ids(message_.inputs);
    made.graph.outputs = ids(message_.outputs);
    return made;
  }

 private:
  static void require(bool holds, std::string_view what) {
    STRATA_CHECK(holds, kDataLoss, "[standalone] step: got ", what,
                 "; expected a step that a client of this version made");
  }
  static bool is_held(ValueKind kind) {
    return kind == ValueKind::kCapture || kind == ValueKind::kState || kind == ValueKind::kConstant;
  }

  ValueId value_id(int64_t id) const {
    require(id >= kNoValue && id < static_cast<int64_t>(message_.values.size()),
            "a value that does not exist");
    return static_cast<ValueId>(id);
  }
  std::vector<ValueId> ids(const std::vector<int64_t>& given) const {
    std::vector<ValueId> made;
    made.reserve(given.size());
    for (const int64_t each : given) made.push_back(value_id(each));
    return made;
  }

  static bool is_known_dtype(uint64_t dtype) {
    constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                          at::kBool,  at::kByte,   at::kChar, at::kShort,
                                          at::kInt,   at::kLong};
    return std::ranges::any_of(
        kDtypes, [&](at::ScalarType each) { return static_cast<uint64_t>(each) == dtype; });
  }

  Value value(size_t i) const {
    const saved::SavedValue& saved = message_.values[i].value;
    const std::string where = str_cat("value ", i, " with ");
    require(saved.kind <= static_cast<uint64_t>(ValueKind::kResult), where + "an unknown kind");
    require(is_known_dtype(saved.dtype), where + "an unknown dtype");
    require(saved.sizes.size() == saved.strides.size() &&
                static_cast<int64_t>(saved.sizes.size()) <= kMostDimensions,
            where + "unequal numbers of sizes and strides, or too many");
    require(std::ranges::all_of(saved.strides, [](int64_t each) { return each >= 0; }) &&
                saved.offset >= 0,
            where + "a negative stride or offset");
    const ValueId memory = value_id(saved.memory);
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
    require(node.work <= static_cast<uint64_t>(Work::kUpdate) && node.update >= 0,
            "a node of unknown work");
    return {.work = static_cast<Work>(node.work),
            .numbers = node.numbers,
            .update = static_cast<size_t>(node.update)};
  }

  Node node(const StepNode& from) const {
    Node made{.name = from.node.name, .written = ids(from.node.written)};
    for (const SavedOperand& each : from.node.arguments) made.arguments.push_back(operand(each));
    for (const SavedOperand& each : from.node.results) made.results.push_back(operand(each));
    return made;
  }

  Operand operand(const SavedOperand& saved) const {
    require(saved.kind <= static_cast<uint64_t>(Operand::Kind::kNumber),
            "an operand of an unknown kind");
    Operand made{.kind = static_cast<Operand::Kind>(saved.kind), .values = ids(saved.values)};
    require(made.kind != Operand::Kind::kValue || made.values.size() == 1,
            "an operand of one value with another number of them");
    if (made.kind == Operand::Kind::kNumber) {
      require(saved.number.has_value() && saved.values.empty(), "a number that is none");
      made.number = number(*saved.number);
    }
    return made;
  }

  static c10::IValue number(const SavedNumber& saved) {
    require(saved.list <= SavedNumber::kBooleans, "a list of an unknown kind");
    if (saved.list == SavedNumber::kIntegers) return saved.integers;
    if (saved.list == SavedNumber::kReals) return saved.reals;
    if (saved.list == SavedNumber::kBooleans) {
      c10::List<bool> list;
      for (const int64_t each : saved.integers) list.push_back(each != 0);
      return list;
    }
    if (saved.integer) return *saved.integer;
    if (saved.real) return *saved.real;
    if (saved.boolean) return *saved.boolean;
    if (saved.text) return *saved.text;
    if (saved.cpu) return c10::Device(c10::kCPU);
    return {};
  }

  StepGraph message_;
};

}  // namespace

std::string encode_step(const Trace& trace, const std::function<StatePlace(const Value&)>& place,
                        const std::function<int64_t(const Node&)>& update) {
  return StepEncoding(trace.graph, place, update).bytes();
}

RemoteStep decode_step(std::string_view bytes) { return StepDecoding(bytes).step(); }

}  // namespace strata::graph::remote
