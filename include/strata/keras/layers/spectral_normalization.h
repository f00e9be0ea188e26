#pragma once

#include <cstdint>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layer.h"

namespace strata::layers {

struct SpectralNormalizationOptions {
  int64_t power_iterations = 1;  ///< In each step of training.
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Divides the kernel (or the embeddings) of `layer` by its largest singular value before each call
/// in training, so that the layer's Lipschitz constant stays at 1. The kernel itself is changed,
/// and an estimate of the singular vector is kept beside it.
/// @throws Error kInvalidArgument, when built: the layer has neither kernel nor embeddings.
class STRATA_API SpectralNormalization : public keras::Layer {
 public:
  explicit SpectralNormalization(const keras::Layer& layer,
                                 const SpectralNormalizationOptions& options = {});
};

}  // namespace strata::layers
