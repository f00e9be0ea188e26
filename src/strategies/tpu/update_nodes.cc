#include "strategies/tpu/update_nodes.h"

#include <c10/util/strides.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "graph/fake.h"
#include "graph/places.h"
#include "strata/core/error.h"
#include "strata/core/json.h"

namespace strata::tpu {
namespace {

using graph::kNoValue;
using graph::Node;
using graph::Operand;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;
using optimizers::ShippedUpdate;

size_t place_of(ValueId id) { return static_cast<size_t>(id); }

std::vector<int64_t> contiguous(at::IntArrayRef sizes) {
  const auto strides = c10::contiguous_strides(sizes);
  return {strides.begin(), strides.end()};
}

Operand list_of(std::vector<ValueId> values) {
  return {.kind = Operand::Kind::kValues, .values = std::move(values)};
}
Operand number_of(c10::IValue number) {
  return {.kind = Operand::Kind::kNumber, .number = std::move(number)};
}

bool is_captured(const Value& value) {
  return value.kind == ValueKind::kCapture || value.kind == ValueKind::kState;
}

void refuse(const std::string& step, const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::kUnimplemented, str_cat("[tpu_strategy] ", step, ": ", what, "; ", hint));
}

class Rewriting {
 public:
  Rewriting(const graph::Trace& trace, int64_t num_replicas)
      : replicas_(num_replicas), trace_(std::make_shared<graph::Trace>(trace)) {}

  CompilableStep run() {
    std::vector<Node> before = std::exchange(graph().nodes, {});
    const size_t num_values = graph().values.size();
    std::vector<int32_t> now(before.size());
    for (size_t n = 0; n < before.size(); ++n) {
      auto update = std::dynamic_pointer_cast<ShippedUpdate>(before[n].subject.lock());
      if (before[n].host && update != nullptr) {
        add_update(before[n], std::move(update));
      } else {
        graph().nodes.push_back(std::move(before[n]));
      }
      now[n] = static_cast<int32_t>(graph().nodes.size()) - 1;
    }
    for (size_t i = 0; i < num_values; ++i) {
      int32_t& node = graph().values[i].node;
      if (node >= 0) node = now[static_cast<size_t>(node)];
    }
    split_memories();
    for (const auto& [id, variable] : variables_)
      step_.variables.emplace(value(id).memory, variable);
    step_.trace = std::move(trace_);
    return std::move(step_);
  }

 private:
  graph::Graph& graph() { return trace_->graph; }
  Value& value(ValueId id) { return graph().values[place_of(id)]; }

  ValueId add_value(Value value) {
    const auto id = static_cast<ValueId>(graph().values.size());
    if (value.memory == kNoValue) value.memory = id;
    graph().values.push_back(std::move(value));
    return id;
  }

  void add_update(const Node& node, std::shared_ptr<ShippedUpdate> update) {
    const Json options = update->shipped_options();
    if (const std::string why = update->why_not_shipped(); !why.empty()) {
      refuse(graph().name, str_cat("got ", node.name, graph::describe_place(node), ", and ", why),
             "leave that out, or train with MirroredStrategy");
    }
    if (options.at("rule").at("rule").as_string() == "muon") {
      refuse(graph().name,
             str_cat("got ", node.name, graph::describe_place(node),
                     ", whose variables have not all the same slots"),
             "take another optimizer, or train with MirroredStrategy");
    }
    const std::vector<Variable>& variables = update->shipped_variables();
    const std::vector<ValueId>& given = node.arguments[0].values;
    if (given.size() != variables.size()) {
      refuse(graph().name,
             str_cat("got a sparse gradient for ", node.name, graph::describe_place(node)),
             "make it dense, or train with MirroredStrategy");
    }
    const double weight = node.arguments[1].number.toDoubleVector().at(0);
    const Json& common = options.at("common");
    std::vector<double> settings = {
        weight > 0 ? 1 / (weight * static_cast<double>(replicas_)) : 1,
        common.at("clipnorm").as_double(),
        common.at("global_clipnorm").as_double(),
        common.at("clipvalue").as_double(),
        common.at("use_ema").as_bool() ? 1.0 : 0.0,
        static_cast<double>(common.at("gradient_accumulation_steps").as_int())};
    std::vector<double> left_out;  // by variable: 1 or 0
    for (const Variable& variable : variables) {
      left_out.push_back(names_contain(options.at("left_out"), variable) ? 1 : 0);
    }
    const auto slots = update->shipped_slots();
    const size_t per_variable = slots.size() / variables.size();
    std::vector<ValueId> parameters, gradients, states;
    for (size_t i = 0; i < variables.size(); ++i) {
      parameters.push_back(parameter(variables[i]));
      gradients.push_back(given[i] == kNoValue ? kNoValue : sum_over_replicas(given[i]));
      settings.push_back(left_out[i] > 0 ? common.at("left_out_weight_decay").as_double()
                                         : decay_of(variables[i], options));
      for (size_t s = 0; s < per_variable; ++s) {
        const size_t index = i * per_variable + s;
        states.push_back(slot(slots.at(index).second, index));
      }
    }
    settings.insert(settings.end(), left_out.begin(), left_out.end());
    graph().inputs.push_back(add_value({.kind = ValueKind::kInput,
                                        .dtype = at::kDouble,
                                        .sizes = {std::tuple_size_v<optimizers::StepNumbers>},
                                        .strides = {1}}));
    Node made{.name = "strata::update_step",
              .arguments = {{.kind = Operand::Kind::kValue, .values = {graph().inputs.back()}},
                            list_of(parameters),
                            list_of(gradients),
                            list_of(states),
                            number_of(options.at("rule").dump()),
                            number_of(settings)},
              .place = node.place};
    made.written = std::move(parameters);
    made.written.insert(made.written.end(), states.begin(), states.end());
    graph().nodes.push_back(std::move(made));
    step_.updates.push_back(std::move(update));
  }

  static bool names_contain(const Json& names, const Variable& variable) {
    return std::ranges::any_of(
        names.as_array(), [&](const Json& name) { return name.as_string() == variable.name(); });
  }

  static double decay_of(const Variable& variable, const Json& options) {
    for (const Json& part : options.at("undecayed").as_array()) {
      if (variable.name().find(part.as_string()) != std::string::npos) return 0;
    }
    return options.at("common").at("weight_decay").as_double();
  }

  /// The first replica's tensor of a variable, which the step may have read.
  ValueId parameter(const Variable& variable) {
    const at::Tensor tensor = variable.on_replica(0).detach();
    const void* const storage = tensor.storage().unsafeGetStorageImpl();
    ValueId memory = kNoValue, found = kNoValue;
    for (size_t i = 0; i < graph().values.size(); ++i) {
      Value& each = graph().values[i];
      if (!is_captured(each) || each.tensor.storage().unsafeGetStorageImpl() != storage) continue;
      memory = each.memory;
      each.kind = ValueKind::kState;
      if (each.offset == tensor.storage_offset() && at::IntArrayRef(each.sizes) == tensor.sizes() &&
          at::IntArrayRef(each.strides) == tensor.strides()) {
        found = static_cast<ValueId>(i);
      }
    }
    if (found == kNoValue) {
      found = add_value({.kind = ValueKind::kState,
                         .dtype = tensor.scalar_type(),
                         .sizes = tensor.sizes().vec(),
                         .strides = tensor.strides().vec(),
                         .offset = tensor.storage_offset(),
                         .memory = memory,
                         .tensor = tensor});
    }
    variables_.emplace_back(found, variable);
    return found;
  }

  ValueId slot(const at::Tensor& tensor, size_t index) {
    const ValueId id = add_value({.kind = ValueKind::kState,
                                  .dtype = tensor.scalar_type(),
                                  .sizes = tensor.sizes().vec(),
                                  .strides = contiguous(tensor.sizes()),
                                  .tensor = tensor});
    step_.slots[id] = {.update = step_.updates.size(), .index = index};
    return id;
  }

  ValueId sum_over_replicas(ValueId gradient) {
    if (replicas_ == 1) return gradient;
    const auto node = static_cast<int32_t>(graph().nodes.size());
    const ValueId sum = add_value({.dtype = value(gradient).dtype,
                                   .sizes = value(gradient).sizes,
                                   .strides = contiguous(value(gradient).sizes),
                                   .node = node});
    graph().nodes.push_back({.name = "strata::all_reduce",
                             .arguments = {list_of({gradient}), number_of(std::vector<double>{0})},
                             .results = {list_of({sum})}});
    return sum;
  }

  /// Variables are parts of few storages, and a program has an argument for each memory.
  void split_memories() {
    std::map<ValueId, std::vector<ValueId>> members;
    for (size_t i = 0; i < graph().values.size(); ++i) {
      const Value& root = value(graph().values[i].memory);
      if (is_captured(root)) {
        members[graph().values[i].memory].push_back(static_cast<ValueId>(i));
      }
    }
    for (auto& [root, ids] : members) {
      std::ranges::sort(ids, {}, [&](ValueId id) { return value(id).offset; });
      std::vector<ValueId> group;
      int64_t end = std::numeric_limits<int64_t>::min();
      for (const ValueId id : ids) {
        if (value(id).offset >= end) make_memory(std::exchange(group, {}));
        group.push_back(id);
        end = std::max(end, value(id).offset + graph::extent(value(id).sizes, value(id).strides));
      }
      make_memory(std::move(group));
    }
  }

  void make_memory(const std::vector<ValueId>& group) {
    ValueId root = kNoValue;
    for (const ValueId id : group) {
      if (is_captured(value(id)) && (root == kNoValue || id < root)) root = id;
    }
    for (const ValueId id : group) {
      if (root != kNoValue) value(id).memory = root;
    }
  }

  int64_t replicas_;
  std::shared_ptr<graph::Trace> trace_;
  CompilableStep step_;
  std::vector<std::pair<ValueId, Variable>> variables_;
};

}  // namespace

CompilableStep with_update_nodes(const graph::Trace& trace, int64_t num_replicas) {
  return Rewriting(trace, num_replicas).run();
}

}  // namespace strata::tpu
