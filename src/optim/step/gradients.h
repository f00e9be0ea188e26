#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "optim/step/backward.h"
#include "runtime/replica_group.h"
#include "strata/runtime/per_replica.h"
#include "strata/runtime/replica_context.h"
#include "strata/runtime/variable.h"

/// What every optimizer does around its rule, strata's own and libtorch's. `optimizer` is its name,
/// for messages.
namespace strata::optimizers {

/// @throws Error  kInvalidArgument: none, one twice, not floating. kFailedPrecondition: of several
///                strategies, or called by a replica function.
void check_variables(std::string_view optimizer, const std::vector<Variable>& variables);

/// The calling replica.
/// @throws Error  kFailedPrecondition: no variables; cross-replica context; variables of another
///                strategy.
const ReplicaContext& replica_of(std::string_view optimizer, std::string_view call,
                                 const std::vector<Variable>& variables);

/// @throws Error  kInvalidArgument: negative.
void check_weight(std::string_view optimizer, double weight);

/// Runs backward from `loss` to `variables` alone and takes their gradients away, together with
/// what `.grad` held before. By the replica of this process with local number `replica`.
/// @param on_gradient  Called for variables by index, where that is possible while backward runs;
///                     it need not be called for all, or for any.
/// @param more  Other leaves. Their gradients stand behind the variables' in what is returned.
/// @throws Error  kInvalidArgument: not a scalar, does not need gradients. kFailedPrecondition: a
///                variable was changed in place.
std::vector<at::Tensor> backward_to(std::string_view optimizer, const at::Tensor& loss,
                                    const std::vector<Variable>& variables, int replica,
                                    const OnGradient& on_gradient = {},
                                    const std::vector<at::Tensor>& more = {});

/// Sums dense gradients over the replicas through the strategy's CrossDeviceOps, all in one batch.
/// @param gradients  For each of `variables` one a replica; undefined ones count as zero.
/// @return For each variable one a replica, on its device.
std::vector<PerReplica<at::Tensor>> reduce_by_ops(ReplicaGroup& group,
                                                  const std::vector<Variable>& variables,
                                                  std::vector<std::vector<at::Tensor>> gradients);

}  // namespace strata::optimizers
