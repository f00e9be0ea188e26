#include "runtime/coalesced_read.h"

#include <ATen/ops/cat.h>

#include <utility>

#include "runtime/group_exchange.h"
#include "runtime/replica_group.h"

namespace strata::detail {
namespace {

thread_local CoalescedRead* innermost = nullptr;

}  // namespace

CoalescedRead::CoalescedRead(const std::vector<Variable>& variables) : outer_(innermost) {
  // Sums of a kind travel as one tensor.
  std::map<std::pair<VariableAggregation, at::ScalarType>, std::vector<const VariableState*>> kinds;
  for (const Variable& variable : variables) {
    const VariableState& state = *variable.state();
    const VariableAggregation how = state.options().aggregation;
    const bool added = how == VariableAggregation::kSum || how == VariableAggregation::kMean;
    if (state.group()->communicator() != nullptr && state.on_read() && added) {
      kinds[{how, variable.dtype()}].push_back(&state);
    }
  }
  for (const auto& [kind, states] : kinds) {
    const ReplicaGroup& group = *states[0]->group();
    std::vector<at::Tensor> flat;
    for (int local = 0; local < group.num_local_replicas(); ++local) {
      std::vector<at::Tensor> parts;
      for (const VariableState* state : states) {
        parts.push_back(state->replicas()[static_cast<size_t>(local)].detach().reshape({-1}));
      }
      flat.push_back(at::cat(parts));
    }
    const at::Tensor all = reduce_over_group(
        group, flat, kind.first == VariableAggregation::kSum ? ReduceOp::kSum : ReduceOp::kMean,
        "values of variables");
    int64_t begin = 0;
    for (const VariableState* state : states) {
      const at::Tensor& like = state->replicas()[0];
      values_[state] = all.narrow(0, begin, like.numel()).view(like.sizes());
      begin += like.numel();
    }
  }
  innermost = this;  // last: where a process is lost, this throws, and has no end
}

CoalescedRead::~CoalescedRead() { innermost = outer_; }

const at::Tensor* CoalescedRead::value_of(const VariableState& variable) {
  for (const CoalescedRead* each = innermost; each != nullptr; each = each->outer_) {
    const auto found = each->values_.find(&variable);
    if (found != each->values_.end()) return &found->second;
  }
  return nullptr;
}

}  // namespace strata::detail
