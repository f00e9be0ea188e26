#pragma once

#include <torch/nn/modules/batchnorm.h>

#include "strata/core/export.h"

namespace strata {

/// The options of torch::nn::BatchNorm2dOptions: num_features, eps 1e-5, momentum 0.1, affine,
/// track_running_stats.
using SyncBatchNormOptions = torch::nn::BatchNormOptions;

/// torch::nn::BatchNorm for `[N, C, ...]` of any rank >= 2, with the statistics of the whole global
/// batch: while it trains, every replica normalises with the mean and variance of all replicas'
/// rows, and gradients flow accordingly. Outputs, gradients and running statistics equal those of
/// one device on that batch. Parameters and buffers have torch::nn::BatchNorm's names.
///
/// Each replica's count, mean and squared deviations are merged pairwise (Chan) in the fixed tree
/// order, in float64, so the bits do not depend on placement and large means do not cancel. A
/// replica with 0 rows does not count: it gets no NaN, and the running statistics, which are equal
/// on all replicas, move as if it did not exist. `running_var` is unbiased (n / (n - 1)), like
/// libtorch's; Keras's synchronized one is not.
///
/// Every replica must call it, in the same order. Forward is one barrier of the replicas, backward
/// another. On the CPU it has no second derivative (kUnimplemented). With one replica, outside
/// `run` and in evaluation it does not communicate.
///
/// @throws Error  kInvalidArgument: rank < 2, another number of channels, not floating, or (as
///                libtorch) a single value a channel in all while training.
/// Source: keras.layers.BatchNormalization(synchronized=True), torch.nn.SyncBatchNorm.
class STRATA_API SyncBatchNormImpl
    : public torch::nn::NormImplBase<0, SyncBatchNormImpl, SyncBatchNormOptions> {
 public:
  explicit SyncBatchNormImpl(const SyncBatchNormOptions& options) : NormImplBase(options) {}

  /// @param input  `[N, C, ...]`, N may be 0. @return the same shape, dtype and memory format.
  at::Tensor forward(const at::Tensor& input);

  void pretty_print(std::ostream& stream) const override;

 private:
  void _check_input_dim(const at::Tensor& input) override;  // NOLINT: libtorch's name
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace strata
