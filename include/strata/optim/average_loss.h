#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "strata/core/export.h"

namespace strata {

struct AverageLossOptions {
  /// Weights of the loss's terms; broadcastable to the loss.
  at::Tensor sample_weight = {};
  /// Default: local length times the number of replicas.
  std::optional<int64_t> global_batch_size = {};
};

/// Returns this replica's share of the mean loss: sum(per_example * sample_weight) / global batch
/// size. The sum of the shares over all replicas, and the sum of their gradients, are those of one
/// device on the whole batch, if `global_batch_size` is the replicas' total; the default is right
/// only for equal parts. (MinimizeOptions::weight counts by itself instead.)
///
/// @param per_example  `[local batch, ...]`; 0 rows give 0.
/// @throws Error  kInvalidArgument: a scalar, or a negative global_batch_size.
///                kFailedPrecondition: cross-replica context.
/// Source: tf.nn.compute_average_loss.
STRATA_API at::Tensor compute_average_loss(const at::Tensor& per_example,
                                           const AverageLossOptions& options = {});
inline at::Tensor compute_average_loss(const at::Tensor& per_example, int64_t global_batch_size) {
  return compute_average_loss(per_example,
                              {.sample_weight = {}, .global_batch_size = global_batch_size});
}

/// Returns sum(loss) / number of replicas: every replica has the same regularization loss, which
/// must count once.
/// @throws Error  kFailedPrecondition: cross-replica context.
/// Source: tf.nn.scale_regularization_loss.
STRATA_API at::Tensor scale_regularization_loss(const at::Tensor& loss);

}  // namespace strata
