#include "graph/run_plan.h"

#include <ATen/core/enum_tag.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "graph/fake.h"
#include "graph/memory_plan.h"
#include "graph/operator_of.h"

namespace strata::graph {
namespace {

using Kind = Operand::Kind;

/// Larger results have memory of their own in each run: it costs nothing beside what is computed, and
/// is free between runs.
constexpr int64_t kMaxBytes = 1 << 20;

int64_t bytes_of(const Value& value) {
  return extent(value.sizes, value.strides) * static_cast<int64_t>(c10::elementSize(value.dtype));
}

/// The operator that computes what `op` does into tensors that it is given behind op's arguments, in a
/// device's own kernel: one that is made of others copies, and takes longer.
std::optional<c10::OperatorHandle> form_into(const c10::OperatorHandle& op, c10::Device device) {
  const c10::OperatorName& name = op.operator_name();
  const std::string overload = name.overload_name.empty() || name.overload_name == "Tensor"
                                   ? "out"
                                   : name.overload_name + "_out";
  const auto into = c10::Dispatcher::singleton().findSchema({name.name, overload});
  if (!into) return std::nullopt;
  const auto& arguments = op.schema().arguments();
  const auto& all = into->schema().arguments();
  const size_t results = op.schema().returns().size();
  if (all.size() != arguments.size() + results) return std::nullopt;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i >= arguments.size() ? !all[i].is_out() : all[i].name() != arguments[i].name()) {
      return std::nullopt;
    }
  }
  const c10::DispatchKey key = c10::computeDispatchKey(at::kFloat, at::kStrided, device);
  return into->hasKernelForDispatchKey(key) ? into : std::nullopt;
}

class Planner {
 public:
  Planner(const Trace& trace, const std::vector<bool>& no_direct)
      : trace_(trace),
        graph_(trace.graph),
        no_direct_(no_direct),
        escapes_(graph_.values.size(), false),
        last_(graph_.values.size(), -1) {}

  RunPlan plan() {
    find_escapes();
    RunPlan plan{.steps = std::vector<RunPlan::Step>(graph_.nodes.size()),
                 .places = std::vector<int64_t>(graph_.values.size(), -1),
                 .blocks = {}};
    for (size_t n = 0; n < graph_.nodes.size(); ++n) plan.steps[n] = step_of(n);
    find_places(plan);
    return plan;
  }

 private:
  const Value& value(ValueId id) const { return graph_.values[static_cast<size_t>(id)]; }
  size_t memory(ValueId id) const { return static_cast<size_t>(value(id).memory); }
  bool makes(size_t n, ValueId id) const { return value(id).node == static_cast<int32_t>(n); }

  void escape(ValueId id) {
    if (id != kNoValue) escapes_[memory(id)] = true;
  }
  /// Which memories others may hold after a run, and when each is used for the last time.
  void find_escapes() {
    for (const ValueId id : graph_.outputs) escape(id);
    for (const GradientEffect& effect : trace_.effects) {
      for (const ValueId id : effect.gradients) escape(id);
    }
    const auto end = static_cast<int32_t>(graph_.nodes.size());
    for (int32_t n = 0; n < end; ++n) {
      const Node& node = graph_.nodes[static_cast<size_t>(n)];
      const auto use = [&](const std::vector<Operand>& operands) {
        for (const Operand& operand : operands) {
          for (const ValueId id : operand.values) {
            if (id == kNoValue) continue;
            // A host function may hold an argument to the end of the run: gradients are collected.
            last_[memory(id)] = node.host ? end : std::max(last_[memory(id)], n);
            if (node.host && node.keeps_arguments) escape(id);
          }
        }
      };
      use(node.arguments);
      use(node.results);
    }
  }

  RunPlan::Step step_of(size_t n) const {
    const Node& node = graph_.nodes[n];
    if (node.host) return {.way = Way::kHost};
    if (is_view(n)) return {.way = Way::kView};
    if (const auto device = gpu_of(n)) return into_step_of(n, *device);
    if (!no_direct_.empty() && no_direct_[n]) return {};
    const DirectKernel kernel = direct_kernel(node.name);
    if (kernel == nullptr || !lies_for_kernel(n)) return {};
    return {.way = Way::kDirect, .kernel = kernel};
  }

  /// Of the first tensor that the node makes or writes; none: the CPU, which has direct kernels.
  std::optional<c10::Device> gpu_of(size_t n) const {
    const Node& node = graph_.nodes[n];
    const auto device_of = [&](const std::vector<Operand>& operands) -> std::optional<c10::Device> {
      for (const Operand& operand : operands) {
        for (const ValueId id : operand.values) {
          if (id != kNoValue && !value(id).device.is_cpu()) return value(id).device;
        }
      }
      return std::nullopt;
    };
    const auto of_results = device_of(node.results);
    return of_results ? of_results : device_of(node.arguments);
  }

  RunPlan::Step into_step_of(size_t n, c10::Device device) const {
    const Node& node = graph_.nodes[n];
    if (!node.written.empty() || !lies_for_kernel(n)) return {};
    for (const Operand& result : node.results) {
      const ValueId id = result.values[0];
      if (id == kNoValue || value(id).device != device || escapes_[memory(id)]) return {};
    }
    const c10::OperatorHandle op = operator_of(node);
    if (op.hasTag(at::Tag::nondeterministic_seeded)) return {};
    const auto into = form_into(op, device);
    if (!into) return {};
    return {.way = Way::kInto, .into = into};
  }

  /// All results are parts of the first argument, as they lie there.
  bool is_view(size_t n) const {
    const Node& node = graph_.nodes[n];
    if (!node.written.empty() || node.arguments.empty() || node.results.empty()) return false;
    const Operand& base = node.arguments[0];
    if (base.kind != Kind::kValue || base.values[0] == kNoValue) return false;
    if (node.name == "aten::_neg_view" || node.name == "aten::_conj") return false;
    const Value& whole = value(base.values[0]);
    return !c10::isComplexType(whole.dtype) &&
           std::ranges::all_of(node.results, [&](const Operand& result) {
             return std::ranges::all_of(result.values, [&](ValueId id) {
               return id != kNoValue && value(id).memory == whole.memory &&
                      value(id).dtype == whole.dtype;
             });
           });
  }

  /// Arguments are tensors and numbers; results are new tensors, or, of an operator that writes, none.
  bool lies_for_kernel(size_t n) const {
    const Node& node = graph_.nodes[n];
    const auto is_list = [](const Operand& operand) { return operand.kind == Kind::kValues; };
    if (std::ranges::any_of(node.arguments, is_list)) return false;
    std::vector<ValueId> seen;
    for (const Operand& result : node.results) {
      if (result.kind != Kind::kValue) return false;
      const ValueId id = result.values[0];
      if (!node.written.empty()) {
        if (id != kNoValue && makes(n, id)) return false;
        continue;
      }
      if (id == kNoValue) continue;
      const bool whole = makes(n, id) && value(id).memory == id && value(id).offset == 0;
      if (!whole || bytes_of(value(id)) > kMaxBytes || std::ranges::find(seen, id) != seen.end()) {
        return false;
      }
      seen.push_back(id);
    }
    return true;
  }

  void find_places(RunPlan& plan) const {
    std::vector<c10::Device> devices;
    for (const Value& each : graph_.values) {
      if (std::ranges::find(devices, each.device) == devices.end()) devices.push_back(each.device);
    }
    for (const c10::Device device : devices) find_places(plan, device);
  }

  void find_places(RunPlan& plan, c10::Device device) const {
    std::vector<Lifetime> lifetimes;
    std::vector<ValueId> ids;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Way way = plan.steps[n].way;
      if (way != Way::kDirect && way != Way::kInto) continue;
      if (!graph_.nodes[n].written.empty()) continue;
      for (const Operand& result : graph_.nodes[n].results) {
        const ValueId id = result.values[0];
        if (id == kNoValue || escapes_[memory(id)] || value(id).device != device) continue;
        ids.push_back(id);
        lifetimes.push_back({.bytes = bytes_of(value(id)),
                             .first = static_cast<int32_t>(n),
                             .last = last_[memory(id)]});
      }
    }
    if (ids.empty()) return;
    const MemoryPlan memory =
        plan_memory(lifetimes, device.is_cpu() ? kCacheLine : kDeviceAlignment);
    for (size_t i = 0; i < ids.size(); ++i) {
      plan.places[static_cast<size_t>(ids[i])] = memory.offsets[i];
    }
    plan.blocks.push_back({.device = device, .bytes = memory.bytes});
  }

  const Trace& trace_;
  const Graph& graph_;
  const std::vector<bool>& no_direct_;
  std::vector<bool> escapes_;  // by the first value of a memory
  std::vector<int32_t> last_;  // node, by the first value of a memory
};

}  // namespace

RunPlan plan_run(const Trace& trace, const std::vector<bool>& no_direct) {
  return Planner(trace, no_direct).plan();
}

}  // namespace strata::graph
