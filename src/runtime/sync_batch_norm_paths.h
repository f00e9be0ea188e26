#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/batch_moments.h"

namespace strata {
class ReplicaContext;
}

namespace strata::detail {

struct SyncBatchNormResult {
  at::Tensor output;
  Moments moments;  ///< Of the global batch, the same on every replica.
};

/// The moments of the global batch. By all replicas together, each with those of its own values, on the
/// CPU.
/// @return tensors that all replicas share: they are not written to.
Moments merge_moments(const ReplicaContext* context, const Moments& local);

/// The better way of those below. What their backwards exchange differs, so all replicas of the
/// group take the same. `context` null: no other replicas.
SyncBatchNormResult sync_batch_norm(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias, double eps,
                                    const ReplicaContext* context);

/// CPU tensors, by fused loops.
SyncBatchNormResult sync_batch_norm_fused(const at::Tensor& x, const at::Tensor& weight,
                                          const at::Tensor& bias, double eps,
                                          const ReplicaContext* context);
/// Any device, by libtorch's operators. On GPUs moments cross replicas from card to card where gradients do
/// (ReplicaGroupOptions::cards), and the host waits for nothing, unless this replica has one value or none
/// a channel. Else they pass through the host.
SyncBatchNormResult sync_batch_norm_by_operators(const at::Tensor& x, const at::Tensor& weight,
                                                 const at::Tensor& bias, double eps,
                                                 const ReplicaContext* context);

}  // namespace strata::detail
