#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

/// Draws that libtorch makes by rejection, as many steps as they need; these take a fixed number of
/// uniform and normal numbers, so that a replica's draws are keyed and a step can be recorded.
namespace strata::layers {

/// Logarithms of draws of a gamma distribution with scale 1: sums and quotients of small ones have no
/// underflow. float32, on `like`'s device.
/// @param alpha  A number above 0, or one for each draw.
/// Source: Marsaglia & Tsang 2000; of 12 trials the first that is accepted counts, and each one is with
/// a probability above 0.95.
at::Tensor log_gamma_draws(const std::vector<int64_t>& sizes, const at::Tensor& alpha);

/// Draws of a beta distribution with both parameters alpha.
at::Tensor beta_draws(const std::vector<int64_t>& sizes, const at::Tensor& alpha);

/// The numbers below `count` in random order.
at::Tensor random_order(int64_t count, const at::Tensor& like);

}  // namespace strata::layers
