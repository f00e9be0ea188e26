#include "keras/initializers/random_fill.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/diagonal.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/sign.h>

#include <algorithm>
#include <limits>
#include <numbers>
#include <tuple>

#include "keras/initializers/orthonormal.h"
#include "kernels/portable/portable_random.h"
#include "runtime/replica_group.h"
#include "strata/core/error.h"
#include "strata/strategies/strategy.h"

namespace strata::initializers {
namespace {

using at::Tensor;

// Its own for each call with a seed, so that every call draws the same.
std::optional<at::Generator> generator(std::optional<int64_t> seed) {
  if (!seed) return std::nullopt;
  return at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(*seed));
}

Tensor empty(const Draw& draw, at::IntArrayRef shape) {
  STRATA_CHECK(at::isFloatingType(draw.dtype), kInvalidArgument, "[initializers] ", draw.owner,
               ": got dtype ", draw.dtype, "; expected a floating one for random values");
  return at::empty(shape, draw.dtype == at::kDouble ? at::kDouble : at::kFloat);
}

/// Whether the strategy of this thread's scope has the same bits on all processors.
bool wants_portable_values() {
  return has_strategy() && get_strategy().group().options().replicas.bits == Bits::kPortable;
}

Tensor portable_normal(const Draw& draw, double limit, double mean, double stddev) {
  Tensor values = empty(draw, draw.shape);
  kernels::portable::fill_normal(values, limit, generator(draw.seed));
  return values.mul_(stddev).add_(mean).to(draw.dtype);
}

}  // namespace

Tensor draw_normal(const Draw& draw, double mean, double stddev) {
  if (wants_portable_values()) {
    return portable_normal(draw, std::numeric_limits<double>::infinity(), mean, stddev);
  }
  return empty(draw, draw.shape).normal_(mean, stddev, generator(draw.seed)).to(draw.dtype);
}

Tensor draw_truncated_normal(const Draw& draw, double mean, double stddev) {
  // The inverse of the distribution function, between its values at -2 and 2.
  constexpr double kInside = 0.95449973610364158;  // erf(sqrt(2))
  if (wants_portable_values()) return portable_normal(draw, 2, mean, stddev);
  return empty(draw, draw.shape)
      .uniform_(-kInside, kInside, generator(draw.seed))
      .erfinv_()
      .mul_(stddev * std::numbers::sqrt2)
      .add_(mean)
      .clamp_(mean - 2 * stddev, mean + 2 * stddev)
      .to(draw.dtype);
}

Tensor draw_uniform(const Draw& draw, double low, double high) {
  if (wants_portable_values()) {
    Tensor values = empty(draw, draw.shape);
    kernels::portable::fill_uniform(values, low, high, generator(draw.seed));
    return values.to(draw.dtype);
  }
  return empty(draw, draw.shape).uniform_(low, high, generator(draw.seed)).to(draw.dtype);
}

Tensor draw_orthogonal(const Draw& draw) {
  STRATA_CHECK(draw.shape.size() >= 2, kInvalidArgument, "[initializers] ", draw.owner,
               ": got shape ", draw.shape, "; expected at least two dimensions");
  const int64_t columns = draw.shape.back();
  const int64_t rows = c10::multiply_integers(draw.shape.slice(0, draw.shape.size() - 1));
  const int64_t larger = std::max(rows, columns), smaller = std::min(rows, columns);
  Tensor normal = empty(draw, {larger, smaller});
  Tensor uniform;
  if (wants_portable_values()) {
    kernels::portable::fill_normal(normal, std::numeric_limits<double>::infinity(),
                                   generator(draw.seed));
    uniform = orthonormal_columns(normal);
  } else {
    const auto [q, r] = at::linalg_qr(normal.normal_(0, 1, generator(draw.seed)));
    // With the signs of r's diagonal every orthogonal matrix is equally likely.
    uniform = q * at::sign(at::diagonal(r));
  }
  return (rows < columns ? uniform.t() : uniform).reshape(draw.shape).to(draw.dtype);
}

void from_config(const Json& json, SeedConfig& config) {
  if (!json.is_object()) {
    keras::from_config(json, config.seed);
    return;
  }
  const keras::ObjectJson object = keras::parse_object(json, "a seed");
  STRATA_CHECK(object.class_name == "SeedGenerator", kUnimplemented, "got ", object.class_name,
               "; expected a number or a SeedGenerator");
  keras::from_config(object.config.at("seed"), config.seed);
}

}  // namespace strata::initializers
