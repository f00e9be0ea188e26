#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>

#include "strata/core/export.h"
#include "strata/keras/shape.h"

/// Random numbers, on the CPU. Without a `seed` they are drawn from libtorch's generator, inside
/// `run` from the replica's stream; with one, equal calls give equal numbers. Other numbers than
/// Keras's, of the same distributions.
/// Threads: any.
/// Source: keras.random 3.15.
namespace strata::keras::random {

struct RandomOptions {
  at::ScalarType dtype = at::kFloat;
  std::optional<int64_t> seed = {};
};

STRATA_API at::Tensor normal(const Shape& shape, double mean = 0, double stddev = 1,
                             const RandomOptions& options = {});
/// From `minval` on, below `maxval`.
STRATA_API at::Tensor uniform(const Shape& shape, double minval = 0, double maxval = 1,
                              const RandomOptions& options = {});
/// Normal, drawn again where it is further than two deviations from the mean.
STRATA_API at::Tensor truncated_normal(const Shape& shape, double mean = 0, double stddev = 1,
                                       const RandomOptions& options = {});
/// Whole numbers from `minval` on, below `maxval`. `options.dtype` is taken if it is a whole number's.
STRATA_API at::Tensor randint(const Shape& shape, int64_t minval, int64_t maxval,
                              const RandomOptions& options = {.dtype = at::kInt});
/// How many of `counts` tries succeed. @param counts, probabilities  Broadcast to `shape`.
STRATA_API at::Tensor binomial(const Shape& shape, const at::Tensor& counts,
                               const at::Tensor& probabilities, const RandomOptions& options = {});
STRATA_API at::Tensor beta(const Shape& shape, double alpha, double beta,
                           const RandomOptions& options = {});
STRATA_API at::Tensor gamma(const Shape& shape, double alpha, const RandomOptions& options = {});
/// @param logits  `[batch, classes]`. @return `[batch, num_samples]` classes, int32.
STRATA_API at::Tensor categorical(const at::Tensor& logits, int64_t num_samples,
                                  std::optional<int64_t> seed = {});
/// Zeros with probability `rate`; the others are divided by 1 - rate.
STRATA_API at::Tensor dropout(const at::Tensor& inputs, double rate,
                              std::optional<int64_t> seed = {});
/// The parts along `axis` in another order.
STRATA_API at::Tensor shuffle(const at::Tensor& x, int64_t axis = 0,
                              std::optional<int64_t> seed = {});

}  // namespace strata::keras::random
