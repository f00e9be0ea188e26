#include "keras/layers/random_shares.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

namespace strata::layers {
namespace {

at::Tensor uniform_draws(const std::vector<int64_t>& sizes, const at::Tensor& like) {
  // Away from 0, whose logarithm is infinite.
  return at::empty(sizes, like.options().dtype(at::kFloat)).uniform_(0, 1).clamp_min(1e-37);
}

}  // namespace

at::Tensor log_gamma_draws(const std::vector<int64_t>& sizes, const at::Tensor& alpha) {
  constexpr int64_t kTrials = 12;
  std::vector<int64_t> trials = {kTrials};
  trials.insert(trials.end(), sizes.begin(), sizes.end());
  const at::Tensor shape = alpha.to(at::kFloat);
  // Of alpha + 1, where trials are seldom refused; a power of a uniform number leads back to alpha.
  const at::Tensor d = shape + 2.0 / 3, c = (9 * d).rsqrt();
  const at::Tensor normal = at::empty(trials, shape.options()).normal_();
  const at::Tensor base = 1 + c * normal;
  const at::Tensor v = base.clamp_min(1e-6).pow(3);
  const at::Tensor bound = 0.5 * normal.square() + d - d * v + d * v.log();
  const at::Tensor accepted =
      (base > 0).logical_and(uniform_draws(trials, shape).log() < bound).to(at::kLong);
  const at::Tensor is_first = (accepted.cumsum(0) == 1).logical_and(accepted == 1);
  const at::Tensor found = at::where(is_first, v, at::zeros_like(v)).sum(0);
  return (d * found.clamp_min(1e-6)).log() + uniform_draws(sizes, shape).log() / shape;
}

at::Tensor beta_draws(const std::vector<int64_t>& sizes, const at::Tensor& alpha) {
  const at::Tensor a = log_gamma_draws(sizes, alpha), b = log_gamma_draws(sizes, alpha);
  return (a - b).sigmoid();
}

at::Tensor random_order(int64_t count, const at::Tensor& like) {
  return uniform_draws({count}, like).argsort();
}

}  // namespace strata::layers
