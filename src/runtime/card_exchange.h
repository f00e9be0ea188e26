#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "strata/collective/reduce_op.h"

namespace strata {
class ReplicaContext;
class ReplicaGroup;
}  // namespace strata

/// Values that replicas with a GPU each bring together in the middle of a step, on the cards: nothing
/// passes through the host, which waits for nothing, wherever the other replicas are. Every replica makes
/// the same calls in the same order, with equal dtypes and sizes. In one process others are an error
/// that names two replicas; between processes what NCCL makes of them, or the end of the time.
namespace strata::detail {

/// Whether cards are for a replica's value: it is dense, on its card, and of a dtype that all transports
/// have. @param local  Among the replicas of this process.
bool has_cards_for(const ReplicaGroup& group, int local, const at::Tensor& value);

/// The tree's sum over all replicas, `[*shape]`, this replica's own. The mean of integers is in float64.
/// @throws Error  kInvalidArgument: replicas disagree. As CardCommunicator's calls.
at::Tensor all_reduce_on_cards(const ReplicaContext& context, ReduceOp op, const at::Tensor& value);

/// `[replicas, n]`, by replica id. @param value  `[n]`. @param call  For messages.
at::Tensor all_gather_on_cards(const ReplicaContext& context, const at::Tensor& value,
                               std::string_view call);

/// The sum over all replicas, on the first one's card. By each process, outside `run`, with the values of
/// its replicas. Whether it has come about the group's cards know once it has been read (`status`).
at::Tensor reduce_on_cards(const ReplicaGroup& group, const std::vector<at::Tensor>& own,
                           ReduceOp op, const std::string& what);

}  // namespace strata::detail
