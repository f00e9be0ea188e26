#include "strata/keras/ops/creation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bartlett_window.h>
#include <ATen/ops/blackman_window.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/hamming_window.h>
#include <ATen/ops/hann_window.h>
#include <ATen/ops/kaiser_window.h>
#include <ATen/ops/zeros.h>

#include <cmath>

namespace strata::keras::ops {
namespace {

at::ScalarType or_float(Dtype dtype) { return dtype.value_or(at::kFloat); }

/// In double, so that the last number is the right one.
at::Tensor steps(double start, double stop, int64_t num, bool endpoint) {
  const auto count = static_cast<double>(endpoint ? num - 1 : num);
  at::Tensor y = at::arange(num, at::kDouble) * (count > 0 ? (stop - start) / count : 0) + start;
  if (endpoint && num > 1) y.select(0, num - 1).fill_(stop);
  return y;
}

}  // namespace

at::Tensor zeros(const Shape& shape, Dtype dtype) { return at::zeros(shape, or_float(dtype)); }
at::Tensor ones(const Shape& shape, Dtype dtype) { return at::full(shape, 1, or_float(dtype)); }
at::Tensor empty(const Shape& shape, Dtype dtype) { return at::zeros(shape, or_float(dtype)); }
at::Tensor full(const Shape& shape, double fill_value, Dtype dtype) {
  return at::full(shape, fill_value, or_float(dtype));
}
at::Tensor eye(int64_t N, std::optional<int64_t> M, int64_t k, Dtype dtype) {
  const at::Tensor rows = at::arange(N, at::kLong).unsqueeze(1);
  return (at::arange(M.value_or(N), at::kLong) - rows == k).to(or_float(dtype));
}
at::Tensor identity(int64_t n, Dtype dtype) { return at::eye(n, or_float(dtype)); }
at::Tensor tri(int64_t N, std::optional<int64_t> M, int64_t k, Dtype dtype) {
  return at::full({N, M.value_or(N)}, 1, or_float(dtype)).tril(k);
}

at::Tensor arange(int64_t stop) { return at::arange(stop, at::kInt); }
at::Tensor arange_of_integers(int64_t start, int64_t stop, int64_t step) {
  return at::arange(start, stop, step, at::kInt);
}
at::Tensor arange(double start, double stop, double step, Dtype dtype) {
  return at::arange(start, stop, step, or_float(dtype));
}
at::Tensor linspace(double start, double stop, int64_t num, bool endpoint, Dtype dtype) {
  return steps(start, stop, num, endpoint).to(or_float(dtype));
}
at::Tensor logspace(double start, double stop, int64_t num, bool endpoint, double base,
                    Dtype dtype) {
  return (steps(start, stop, num, endpoint) * std::log(base)).exp().to(or_float(dtype));
}
at::Tensor geomspace(double start, double stop, int64_t num, bool endpoint, Dtype dtype) {
  const double sign = start < 0 ? -1 : 1;
  return (sign * steps(std::log(sign * start), std::log(sign * stop), num, endpoint).exp())
      .to(or_float(dtype));
}

at::Tensor bartlett(int64_t x) { return at::bartlett_window(x, false, at::kFloat); }
at::Tensor blackman(int64_t x) { return at::blackman_window(x, false, at::kFloat); }
at::Tensor hamming(int64_t x) { return at::hamming_window(x, false, at::kFloat); }
at::Tensor hanning(int64_t x) { return at::hann_window(x, false, at::kFloat); }
at::Tensor kaiser(int64_t x, double beta) { return at::kaiser_window(x, false, beta, at::kFloat); }

}  // namespace strata::keras::ops
