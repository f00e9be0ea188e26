#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "strata/core/json.h"
#include "strata/keras/config.h"

// Random tensors on the CPU, as initializers want them.
namespace strata::initializers {

/// What is drawn, and from what.
struct Draw {
  std::string_view owner;  ///< for messages: "HeNormal"
  at::IntArrayRef shape;
  at::ScalarType dtype;         ///< floating; 16-bit values are drawn as float32
  std::optional<int64_t> seed;  ///< none: libtorch's global generator
};

/// @throws Error kInvalidArgument: the dtype is not floating.
at::Tensor draw_normal(const Draw& draw, double mean, double stddev);
/// Cut at two `stddev`.
at::Tensor draw_truncated_normal(const Draw& draw, double mean, double stddev);
at::Tensor draw_uniform(const Draw& draw, double low, double high);
/// `[shape[0] * ... , shape[-1]]` with orthonormal columns or rows, in that shape.
at::Tensor draw_orthogonal(const Draw& draw);

/// A seed in a config: a number, null, or a SeedGenerator's object.
struct SeedConfig {
  std::optional<int64_t>& seed;
};
inline Json to_config(const SeedConfig& config) { return keras::to_config(config.seed); }
void from_config(const Json& json, SeedConfig& config);

template <typename Config>
void visit_seed(Config& config, std::optional<int64_t>& seed) {
  SeedConfig value{seed};
  config("seed", value);
}

}  // namespace strata::initializers
