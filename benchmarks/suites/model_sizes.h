#pragma once

#include <cstdint>

/// Sizes that suite step's models of Keras's layers and of torch::nn's modules share.
namespace strata::bench {

constexpr int64_t kTransformerWidth = 256;
constexpr int64_t kHeads = 4;
constexpr int kTransformerDepth = 4;
constexpr double kNormEpsilon = 1e-5;

}  // namespace strata::bench
