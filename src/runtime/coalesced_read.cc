#include "runtime/coalesced_read.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <utility>

#include "runtime/card_exchange.h"
#include "runtime/group_exchange.h"
#include "runtime/replica_group.h"

namespace strata::detail {
namespace {

thread_local CoalescedRead* innermost = nullptr;

/// Those whose sums or means travel as one tensor.
using Kind = std::pair<VariableAggregation, at::ScalarType>;
using Kinds = std::map<Kind, std::vector<const VariableState*>>;

bool is_added(const VariableState& state) {
  const VariableAggregation how = state.options().aggregation;
  return how == VariableAggregation::kSum || how == VariableAggregation::kMean;
}

Kinds kinds_of(const std::vector<Variable>& variables) {
  Kinds kinds;
  for (const Variable& variable : variables) {
    const VariableState& state = *variable.state();
    if (state.group()->communicator() == nullptr || !state.on_read() || !is_added(state)) continue;
    kinds[{state.options().aggregation, variable.dtype()}].push_back(&state);
  }
  return kinds;
}

template <typename Reduce>
CoalescedRead::Values read(const Kinds& kinds, const Reduce& reduce) {
  CoalescedRead::Values values;
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
    const at::Tensor all = reduce(
        group, flat, kind.first == VariableAggregation::kSum ? ReduceOp::kSum : ReduceOp::kMean,
        "values of variables");
    int64_t begin = 0;
    for (const VariableState* state : states) {
      const at::Tensor& like = state->replicas()[0];
      values[state] = all.narrow(0, begin, like.numel()).view(like.sizes());
      begin += like.numel();
    }
  }
  return values;
}

bool are_on_cards(const VariableState& state) {
  const ReplicaGroup& group = *state.group();
  for (int local = 0; local < group.num_local_replicas(); ++local) {
    if (!has_cards_for(group, local, state.replicas()[static_cast<size_t>(local)])) return false;
  }
  return is_added(state);
}

}  // namespace

CoalescedRead::CoalescedRead(const std::vector<Variable>& variables)
    : values_(read(kinds_of(variables), reduce_over_group)), outer_(innermost) {
  innermost = this;  // last: where a process is lost, the read throws
}

CoalescedRead::CoalescedRead(Values values) : values_(std::move(values)), outer_(innermost) {
  innermost = this;
}

std::optional<CoalescedRead::Values> CoalescedRead::begin_on_cards(
    const std::vector<Variable>& variables) {
  if (!variables.empty()) variables[0].group().mend();
  for (const Variable& variable : variables) {
    const VariableState& state = *variable.state();
    if (state.on_read() && !are_on_cards(state)) return std::nullopt;
  }
  const at::NoGradGuard no_grad;
  return read(kinds_of(variables), reduce_on_cards);
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
