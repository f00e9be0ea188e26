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

/// The moments of the global batch. By all replicas together, each with those of its own values.
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
/// Any device, by libtorch's operators. Between replicas that have a GPU each, moments stay on the
/// cards. Else what crosses replicas passes through the host, which waits for it: two logical GPUs
/// of one card share autograd's device thread, so that backward waits on the replica's own.
SyncBatchNormResult sync_batch_norm_by_operators(const at::Tensor& x, const at::Tensor& weight,
                                                 const at::Tensor& bias, double eps,
                                                 const ReplicaContext* context);

}  // namespace strata::detail
