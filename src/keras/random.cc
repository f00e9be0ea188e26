#include "strata/keras/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_standard_gamma.h>
#include <ATen/ops/binomial.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/where.h>

#include "strata/core/error.h"

namespace strata::keras::random {
namespace {

using Generator = std::optional<at::Generator>;

Generator generator_of(std::optional<int64_t> seed) {
  if (!seed) return std::nullopt;
  return at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(*seed));
}

at::Tensor drawn(const Shape& shape, at::ScalarType dtype) { return at::empty(shape, dtype); }

at::Tensor gammas(const Shape& shape, double alpha, const Generator& generator) {
  return at::_standard_gamma(at::full(shape, alpha, at::kDouble), generator);
}

}  // namespace

at::Tensor normal(const Shape& shape, double mean, double stddev, const RandomOptions& options) {
  return drawn(shape, options.dtype).normal_(mean, stddev, generator_of(options.seed));
}

at::Tensor uniform(const Shape& shape, double minval, double maxval, const RandomOptions& options) {
  STRATA_CHECK(minval <= maxval, kInvalidArgument, "[keras] random::uniform: got minval ", minval,
               " and maxval ", maxval, "; expected the first to be no larger");
  return drawn(shape, options.dtype).uniform_(minval, maxval, generator_of(options.seed));
}

at::Tensor truncated_normal(const Shape& shape, double mean, double stddev,
                            const RandomOptions& options) {
  // By the inverse of the distribution function: one draw each.
  const double edge = 0.9544997361036416;  // erf(sqrt(2)): two deviations
  at::Tensor y = drawn(shape, at::kDouble).uniform_(-edge, edge, generator_of(options.seed));
  return (y.erfinv() * 1.4142135623730951 * stddev + mean).to(options.dtype);
}

at::Tensor randint(const Shape& shape, int64_t minval, int64_t maxval,
                   const RandomOptions& options) {
  STRATA_CHECK(minval < maxval, kInvalidArgument, "[keras] random::randint: got minval ", minval,
               " and maxval ", maxval, "; expected the first to be less");
  return drawn(shape, at::kLong)
      .random_(minval, maxval, generator_of(options.seed))
      .to(at::isIntegralType(options.dtype, false) ? options.dtype : at::kInt);
}

at::Tensor binomial(const Shape& shape, const at::Tensor& counts, const at::Tensor& probabilities,
                    const RandomOptions& options) {
  return at::binomial(counts.to(at::kDouble).expand(shape).contiguous(),
                      probabilities.to(at::kDouble).expand(shape).contiguous(),
                      generator_of(options.seed))
      .to(options.dtype);
}

at::Tensor beta(const Shape& shape, double alpha, double beta, const RandomOptions& options) {
  const Generator generator = generator_of(options.seed);
  const at::Tensor a = gammas(shape, alpha, generator), b = gammas(shape, beta, generator);
  return (a / (a + b)).to(options.dtype);
}

at::Tensor gamma(const Shape& shape, double alpha, const RandomOptions& options) {
  return gammas(shape, alpha, generator_of(options.seed)).to(options.dtype);
}

at::Tensor categorical(const at::Tensor& logits, int64_t num_samples, std::optional<int64_t> seed) {
  STRATA_CHECK(logits.dim() == 2, kInvalidArgument, "[keras] random::categorical: got ",
               logits.dim(), " dimensions; expected [batch, classes]");
  return at::multinomial(logits.softmax(-1), num_samples, /*replacement=*/true, generator_of(seed))
      .to(at::kInt);
}

at::Tensor dropout(const at::Tensor& inputs, double rate, std::optional<int64_t> seed) {
  STRATA_CHECK(rate >= 0 && rate < 1, kInvalidArgument, "[keras] random::dropout: got rate ", rate,
               "; expected 0 or more, and less than 1");
  const at::Tensor draws = at::empty(inputs.sizes(), inputs.options().dtype(at::kFloat))
                               .uniform_(0, 1, generator_of(seed));
  return at::where(draws >= rate, inputs / (1 - rate), 0.0).to(inputs.scalar_type());
}

at::Tensor shuffle(const at::Tensor& x, int64_t axis, std::optional<int64_t> seed) {
  const at::Tensor draws = drawn({x.size(axis)}, at::kDouble).uniform_(0, 1, generator_of(seed));
  return x.index_select(axis, draws.argsort().to(x.device()));
}

}  // namespace strata::keras::random
