// Every function of strata/keras/ops computes the same on tensors as as a node of a model.

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "strata/keras/layer_registry.h"
#include "strata/keras/model.h"
#include "strata/keras/ops.h"
#include "strata/keras/saving.h"
#include "support/expect_error.h"

namespace strata::keras {
namespace {

std::vector<SymbolicTensor> all_of(const SymbolicTensor& y) { return {y}; }
std::vector<SymbolicTensor> all_of(const std::vector<SymbolicTensor>& ys) { return ys; }
Tensors all_of(const at::Tensor& y) { return {y}; }
Tensors all_of(const Tensors& ys) { return ys; }

SymbolicTensor input_like(const at::Tensor& x) {
  const Shape shape = x.sizes().vec();
  return Input(Shape(shape.begin() + 1, shape.end()),
               {.batch_size = shape.at(0), .dtype = x.scalar_type()});
}

void expect_same(const Model& model, const Tensors& inputs, const Tensors& expected) {
  const Tensors got = model.call(inputs, {});
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].scalar_type(), expected[i].scalar_type());
    EXPECT_TRUE(at::allclose(got[i], expected[i], 0, 0, /*equal_nan=*/true)) << i;
    EXPECT_EQ(model.outputs()[i].dtype(), expected[i].scalar_type()) << i;
    EXPECT_EQ(model.outputs()[i].shape().size(), static_cast<size_t>(expected[i].dim())) << i;
  }
}

/// Calls `function` with tensors and with symbolic ones.
template <typename Function>
void same(const Function& function, const at::Tensor& x) {
  const SymbolicTensor a = input_like(x);
  expect_same(Model(std::vector{a}, all_of(function(a))), {x}, all_of(function(x)));
}
template <typename Function>
void same(const Function& function, const at::Tensor& x, const at::Tensor& y) {
  const SymbolicTensor a = input_like(x), b = input_like(y);
  expect_same(Model({a, b}, all_of(function(a, b))), {x, y}, all_of(function(x, y)));
}
template <typename Function>
void same(const Function& function, const at::Tensor& x, const at::Tensor& y, const at::Tensor& z) {
  const SymbolicTensor a = input_like(x), b = input_like(y), c = input_like(z);
  expect_same(Model({a, b, c}, all_of(function(a, b, c))), {x, y, z}, all_of(function(x, y, z)));
}

at::Tensor numbers(const Shape& shape) { return at::rand(shape, at::kDouble) * 0.8 + 0.1; }
at::Tensor whole(const Shape& shape, int64_t below) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(count, at::kInt).remainder(below).reshape(shape);
}

#define EACH(...) [](const auto& x) { return ops::__VA_ARGS__; }
#define PAIR(...) [](const auto& x, const auto& y) { return ops::__VA_ARGS__; }
#define THREE(...) [](const auto& x, const auto& y, const auto& z) { return ops::__VA_ARGS__; }

TEST(OperationsTest, OfEachElement) {
  const at::Tensor x = numbers({3, 4}), n = whole({3, 4}, 7);
  same(EACH(abs(x)), x);
  same(EACH(absolute(x)), x);
  same(EACH(angle(x)), x);
  same(EACH(arccos(x)), x);
  same(EACH(arcsin(x)), x);
  same(EACH(arcsinh(x)), x);
  same(EACH(arctan(x)), x);
  same(EACH(arctanh(x)), x);
  same(EACH(bitwise_invert(x)), n);
  same(EACH(bitwise_not(x)), n);
  same(EACH(cbrt(x)), x);
  same(EACH(ceil(x)), x);
  same(EACH(conj(x)), x);
  same(EACH(conjugate(x)), x);
  same(EACH(copy(x)), x);
  same(EACH(cos(x)), x);
  same(EACH(cosh(x)), x);
  same(EACH(deg2rad(x)), x);
  same(EACH(exp(x)), x);
  same(EACH(exp2(x)), x);
  same(EACH(expm1(x)), x);
  same(EACH(fabs(x)), x);
  same(EACH(floor(x)), x);
  same(EACH(i0(x)), x);
  same(EACH(imag(x)), x);
  same(EACH(isfinite(x)), x);
  same(EACH(isinf(x)), x);
  same(EACH(isnan(x)), x);
  same(EACH(isneginf(x)), x);
  same(EACH(isposinf(x)), x);
  same(EACH(isreal(x)), x);
  same(EACH(log(x)), x);
  same(EACH(log10(x)), x);
  same(EACH(log1p(x)), x);
  same(EACH(log2(x)), x);
  same(EACH(logical_not(x)), x);
  same(EACH(negative(x)), x);
  same(EACH(rad2deg(x)), x);
  same(EACH(real(x)), x);
  same(EACH(reciprocal(x)), x);
  same(EACH(sign(x)), x);
  same(EACH(signbit(x)), x);
  same(EACH(sin(x)), x);
  same(EACH(sinc(x)), x);
  same(EACH(sinh(x)), x);
  same(EACH(sqrt(x)), x);
  same(EACH(square(x)), x);
  same(EACH(tan(x)), x);
  same(EACH(tanh(x)), x);
  same(EACH(trunc(x)), x);
  same(EACH(arccosh(ops::add(x, 1.5))), x);
  same(EACH(nan_to_num(x, 1)), x);
  same(EACH(round(x, 1)), x);
  same(EACH(clip(x, 0.2, 0.6)), x);
  same(EACH(array(x, at::kFloat)), x);
  same(EACH(view(x, at::kLong)), x);
  same(EACH(cast(x, at::kInt)), x);
  same(EACH(saturate_cast(x, at::kByte)), x);
  same(EACH(convert_to_tensor(x)), x);
  same(EACH(stop_gradient(x)), x);
  same(EACH(get_item(x, {ops::Ellipsis{}, 1})), x);
}

TEST(OperationsTest, OfTwoTensors) {
  const at::Tensor x = numbers({3, 4}), y = numbers({3, 4});
  const at::Tensor m = whole({3, 4}, 7), n = whole({3, 4}, 5);
  same(PAIR(add(x, y)), x, y);
  same(PAIR(subtract(x, y)), x, y);
  same(PAIR(multiply(x, y)), x, y);
  same(PAIR(divide(x, y)), x, y);
  same(PAIR(true_divide(x, y)), x, y);
  same(PAIR(floor_divide(x, y)), x, y);
  same(PAIR(mod(x, y)), x, y);
  same(PAIR(fmod(x, y)), x, y);
  same(PAIR(power(x, y)), x, y);
  same(PAIR(maximum(x, y)), x, y);
  same(PAIR(minimum(x, y)), x, y);
  same(PAIR(fmax(x, y)), x, y);
  same(PAIR(fmin(x, y)), x, y);
  same(PAIR(arctan2(x, y)), x, y);
  same(PAIR(hypot(x, y)), x, y);
  same(PAIR(heaviside(x, y)), x, y);
  same(PAIR(ldexp(x, y)), x, y);
  same(PAIR(logaddexp(x, y)), x, y);
  same(PAIR(logaddexp2(x, y)), x, y);
  same(PAIR(nextafter(x, y)), x, y);
  same(PAIR(divide_no_nan(x, y)), x, y);
  same(PAIR(gcd(x, y)), m, n);
  same(PAIR(lcm(x, y)), m, n);
  same(PAIR(equal(x, y)), x, y);
  same(PAIR(not_equal(x, y)), x, y);
  same(PAIR(greater(x, y)), x, y);
  same(PAIR(greater_equal(x, y)), x, y);
  same(PAIR(less(x, y)), x, y);
  same(PAIR(less_equal(x, y)), x, y);
  same(PAIR(logical_and(x, y)), m, n);
  same(PAIR(logical_or(x, y)), m, n);
  same(PAIR(logical_xor(x, y)), m, n);
  same(PAIR(bitwise_and(x, y)), m, n);
  same(PAIR(bitwise_or(x, y)), m, n);
  same(PAIR(bitwise_xor(x, y)), m, n);
  same(PAIR(bitwise_left_shift(x, y)), m, n);
  same(PAIR(bitwise_right_shift(x, y)), m, n);
  same(PAIR(left_shift(x, y)), m, n);
  same(PAIR(right_shift(x, y)), m, n);
  same(PAIR(isclose(x, y)), x, y);
  same(PAIR(allclose(x, y)), x, y);
}

TEST(OperationsTest, Statistics) {
  const at::Tensor x = numbers({2, 3, 4});
  same(EACH(all(x)), x);
  same(EACH(all(x, {0, 2})), x);
  same(EACH(amax(x)), x);
  same(EACH(amax(x, {0, 2})), x);
  same(EACH(amin(x)), x);
  same(EACH(amin(x, {0, 2})), x);
  same(EACH(any(x)), x);
  same(EACH(any(x, {0, 2})), x);
  same(EACH(argmax(x)), x);
  same(EACH(argmax(x, 1)), x);
  same(EACH(argmin(x)), x);
  same(EACH(argmin(x, 1)), x);
  same(EACH(mean(x)), x);
  same(EACH(mean(x, {0, 2})), x);
  same(EACH(median(x)), x);
  same(EACH(median(x, {0, 2})), x);
  same(EACH(nanargmax(x)), x);
  same(EACH(nanargmax(x, 1)), x);
  same(EACH(nanargmin(x)), x);
  same(EACH(nanargmin(x, 1)), x);
  same(EACH(nanmax(x)), x);
  same(EACH(nanmax(x, {0, 2})), x);
  same(EACH(nanmean(x)), x);
  same(EACH(nanmean(x, {0, 2})), x);
  same(EACH(nanmedian(x)), x);
  same(EACH(nanmedian(x, {0, 2})), x);
  same(EACH(nanmin(x)), x);
  same(EACH(nanmin(x, {0, 2})), x);
  same(EACH(nanprod(x)), x);
  same(EACH(nanprod(x, {0, 2})), x);
  same(EACH(nanstd(x)), x);
  same(EACH(nanstd(x, {0, 2})), x);
  same(EACH(nansum(x)), x);
  same(EACH(nansum(x, {0, 2})), x);
  same(EACH(nanvar(x)), x);
  same(EACH(nanvar(x, {0, 2})), x);
  same(EACH(ptp(x)), x);
  same(EACH(ptp(x, {0, 2})), x);
  same(EACH(std(x)), x);
  same(EACH(std(x, {0, 2})), x);
  same(EACH(sum(x)), x);
  same(EACH(sum(x, {0, 2})), x);
  same(EACH(var(x)), x);
  same(EACH(var(x, {0, 2})), x);
  same(EACH(logsumexp(x)), x);
  same(EACH(logsumexp(x, {0, 2})), x);
  same(EACH(max(x)), x);
  same(EACH(max(x, {0, 2})), x);
  same(EACH(min(x)), x);
  same(EACH(min(x, {0, 2})), x);
  same(EACH(prod(x)), x);
  same(EACH(cumsum(x)), x);
  same(EACH(cumsum(x, 1)), x);
  same(EACH(cumprod(x)), x);
  same(EACH(cumprod(x, 1)), x);
  same(EACH(nancumsum(x)), x);
  same(EACH(nancumsum(x, 1)), x);
  same(EACH(nancumprod(x)), x);
  same(EACH(nancumprod(x, 1)), x);
  same(EACH(count_nonzero(x)), x);
  same(EACH(count_nonzero(x, {0, 2})), x);
  same(EACH(average(x)), x);
  same(EACH(average(x, {0, 2})), x);
  same(EACH(max(x, 1, true, 0.5)), x);
  same(EACH(prod(x, 1, false, at::kFloat)), x);
  same(PAIR(average(x, 1, y)), x, numbers({2, 3, 4}));
  same(EACH(quantile(x, 0.5, 1)), x);
  same(EACH(quantile(x, std::vector{0.2, 0.7}, {1}, "lower", true)), x);
  same(EACH(percentile(x, 0.5, 1)), x);
  same(EACH(percentile(x, std::vector{0.2, 0.7}, {1}, "lower", true)), x);
  same(EACH(nanquantile(x, 0.5, 1)), x);
  same(EACH(nanquantile(x, std::vector{0.2, 0.7}, {1}, "lower", true)), x);
  same(EACH(nanpercentile(x, 0.5, 1)), x);
  same(EACH(nanpercentile(x, std::vector{0.2, 0.7}, {1}, "lower", true)), x);
  same(EACH(moments(x, {0, 1})), x);
  same(EACH(trapezoid(x, 0.5)), x);
  same(EACH(diff(x)), x);
  same(EACH(corrcoef(x)), numbers({3, 4}));
  same(PAIR(correlate(x, y, "full")), numbers({5}), numbers({3}));
  same(EACH(bincount(x, 8)), whole({3, 4}, 5));
  same(EACH(histogram(x, 4)), x);
  same(EACH(histogram(x, 4, std::pair(0.0, 1.0))), x);
}

TEST(OperationsTest, Arrays) {
  const at::Tensor x = numbers({2, 3, 4}), m = numbers({4, 4});
  same(PAIR(concatenate({x, y}, 1)), x, x);
  same(PAIR(stack({x, y}, 1)), x, x);
  same(PAIR(hstack({x, y})), m, m);
  same(PAIR(vstack({x, y})), m, m);
  same(PAIR(dstack({x, y})), m, m);
  same(PAIR(meshgrid({x, y})), numbers({3}), numbers({2}));
  same(PAIR(append(x, y, 0)), m, m);
  same(PAIR(append(x, y)), m, m);
  same(EACH(array_split(x, 3, 2)), x);
  same(EACH(split(x, 2, 2)), x);
  same(EACH(split(x, {1, 3}, 2)), x);
  same(EACH(hsplit(x, 3)), x);
  same(EACH(vsplit(x, 2)), x);
  same(EACH(dsplit(x, 2)), x);
  same(EACH(unstack(x, {}, 1)), x);
  same(EACH(reshape(x, {-1, 6})), x);
  same(EACH(ravel(x)), x);
  same(EACH(transpose(x, {1, 0, 2})), x);
  same(EACH(swapaxes(x, 0, 1)), x);
  same(EACH(moveaxis(x, 0, 2)), x);
  same(EACH(moveaxis(x, {0, 1}, {1, 2})), x);
  same(EACH(expand_dims(x, 1)), x);
  same(EACH(squeeze(ops::expand_dims(x, 1), 1)), x);
  same(EACH(broadcast_to(x, {5, 2, 3, 4})), x);
  same(EACH(rearrange(x, "a b (c d) -> c (b a) d", {{"c", 2}})), x);
  same(EACH(rearrange(x, "a ... -> ... a")), x);
  same(EACH(tile(x, {1, 2, 1})), x);
  same(EACH(repeat(x, 2, 1)), x);
  same(EACH(repeat(x, {1, 0, 2}, 1)), x);
  same(EACH(repeat(x, 2)), x);
  same(EACH(flip(x, {0, 2})), x);
  same(EACH(flip(x)), x);
  same(EACH(fliplr(x)), x);
  same(EACH(flipud(x)), x);
  same(EACH(roll(x, 1)), x);
  same(EACH(roll(x, {1, 2}, {0, 2})), x);
  same(EACH(rot90(x, 1, {1, 2})), x);
  same(EACH(pad(x, {{0, 0}, {1, 2}, {0, 1}}, "reflect")), x);
  same(EACH(pad(x, {{0, 0}, {1, 2}, {0, 1}}, "constant", 2)), x);
  same(EACH(diag(x, 1)), m);
  same(EACH(diagflat(x)), m);
  same(EACH(diagonal(x, 0, 1, 2)), x);
  same(EACH(trace(x, 0, 1, 2)), x);
  same(EACH(tril(x)), x);
  same(EACH(triu(x, 1)), x);
  same(EACH(zeros_like(x)), x);
  same(EACH(ones_like(x, at::kInt)), x);
  same(EACH(empty_like(x)), x);
  same(EACH(full_like(x, 3)), x);
  same(EACH(vander(x, 3)), numbers({4}));
}

TEST(OperationsTest, Places) {
  const at::Tensor x = numbers({3, 4}), n = whole({3, 4}, 3);
  same(PAIR(take(x, y, 1)), x, n);
  same(EACH(take(x, {0, -1}, 1)), x);
  same(PAIR(take_along_axis(x, y, 1)), x, n);
  same(THREE(where(x, y, z)), n, x, x);
  same(PAIR(select({ops::greater(x, 1)}, {y}, 2)), n, x);
  same(PAIR(scatter(x, y, {5, 4})), at::tensor({4, 0, 4}, at::kInt).view({3, 1}), x);
  same(THREE(scatter_update(x, y, z, "max")), x, at::tensor({2, 0}, at::kInt).view({2, 1}),
       numbers({2, 4}));
  same(THREE(scatter_update(x, y, z)), x, at::tensor({2, 0}, at::kInt).view({2, 1}),
       numbers({2, 4}));
  same(EACH(slice(x, {1, 0}, {2, 3})), x);
  same(PAIR(slice(x, y, {2, 3})), x, at::tensor({1, 1}, at::kInt));
  same(PAIR(slice_update(x, {1, 1}, y)), x, numbers({2, 2}));
  same(PAIR(segment_sum(x, y, 4)), x, at::tensor({0, 2, 0}, at::kInt));
  same(PAIR(segment_max(x, y, 4)), x, at::tensor({0, 2, 0}, at::kInt));
  same(PAIR(segment_min(x, y, 4)), x, at::tensor({0, 2, 0}, at::kInt));
  same(PAIR(segment_prod(x, y, 4)), x, at::tensor({0, 2, 0}, at::kInt));
  same(EACH(nonzero(x)), n);
  same(EACH(unravel_index(x, {2, 2})), n);
  same(EACH(unique(x)), n);
  same(EACH(unique(x, {.return_index = true, .return_inverse = true, .return_counts = true})), n);
  same(EACH(unique(x, {.size = 5, .fill_value = 7})), n);
  same(EACH(sort(x)), x);
  same(EACH(sort(x, std::nullopt)), x);
  same(EACH(argsort(x, 0)), x);
  same(EACH(argpartition(x, 2)), x);
  same(EACH(top_k(x, 2)), x);
  same(PAIR(in_top_k(x, y, 2)), at::tensor({1, 0, 3}, at::kInt), x);
  same(PAIR(searchsorted(x, y)), at::tensor({0.2, 0.4, 0.6}), x.flatten());
  same(EACH(digitize(x, {0.2, 0.5})), x);
  same(PAIR(isin(x, y)), n, at::tensor({1, 2}, at::kInt));
  same(EACH(one_hot(x, 3)), n);
  same(EACH(multi_hot(x, 3)), n);
}

TEST(OperationsTest, LinearAlgebra) {
  const at::Tensor x = numbers({3, 4}), s = numbers({2, 3, 3}) + at::eye(3, at::kDouble) * 2;
  const at::Tensor p = s.matmul(s.mT());
  same(PAIR(matmul(x, y)), x, numbers({4, 2}));
  same(PAIR(dot(x, y)), x, numbers({4, 2}));
  same(PAIR(inner(x, y)), x, x);
  same(PAIR(outer(x, y)), x, x);
  same(PAIR(vdot(x, y)), x, x);
  same(PAIR(kron(x, y)), x, x);
  same(PAIR(tensordot(x, y, 1)), x, numbers({4, 2}));
  same(PAIR(tensordot(x, y, {0, 1}, {0, 1})), x, x);
  same(PAIR(einsum("ij,kj->ik", {x, y})), x, x);
  same(PAIR(cross(x, y)), numbers({4, 3}), numbers({4, 3}));
  same(PAIR(cdist(x, y)), x, x);
  same(EACH(cholesky(x)), p);
  same(EACH(cholesky_inverse(x)), numbers({3, 3}).tril() + at::eye(3, at::kDouble));
  same(EACH(det(x)), s);
  same(EACH(inv(x)), s);
  same(EACH(logdet(x)), s);
  same(EACH(eigh(x)), p);
  same(EACH(lu_factor(x)), s);
  same(EACH(slogdet(x)), s);
  same(EACH(qr(x)), s);
  same(EACH(svd(x)), s);
  same(EACH(pinv(x)), s);
  same(EACH(matrix_rank(x)), s);
  same(EACH(norm(x)), s);
  same(EACH(view_as_real(ops::eig(x)[0])), s);
  same(EACH(norm(x, 1, {1}, true)), x);
  same(EACH(norm(x, "fro")), x);
  same(PAIR(solve(x, y)), s, numbers({2, 3, 2}));
  same(PAIR(solve_triangular(x, y, true)), s, numbers({2, 3, 2}));
  same(PAIR(lstsq(x, y)), numbers({5, 3}), numbers({5, 2}));
}

TEST(OperationsTest, Signals) {
  const at::Tensor x = numbers({3, 4}), wave = numbers({2, 12});
  same(EACH(erf(x)), x);
  same(EACH(erfc(x)), x);
  same(EACH(erfinv(x)), x);
  same(EACH(rsqrt(x)), x);
  same(PAIR(fft(x, y)), x, x);
  same(PAIR(fft2(x, y)), x, x);
  same(PAIR(ifft2(x, y)), x, x);
  same(EACH(rfft(x, 3)), x);
  same(PAIR(irfft(x, y)), x, x);
  same(EACH(stft(x, 4, 2, 4)), wave);
  same(EACH(stft(x, 4, 2, 4, "", false)), wave);
  same(PAIR(istft(x, y, 4, 2, 4)), numbers({2, 7, 3}), numbers({2, 7, 3}));
  same(EACH(extract_sequences(x, 4, 2)), wave);
  same(EACH(view_as_real(ops::view_as_complex(x))), numbers({3, 2}));
  same(PAIR(view_as_real(ops::polar(x, y))), x, x);
}

TEST(OperationsTest, Networks) {
  const at::Tensor x = numbers({3, 4}), w = numbers({4});
  same(EACH(hard_sigmoid(x)), x);
  same(EACH(hard_silu(x)), x);
  same(EACH(hard_tanh(x)), x);
  same(EACH(log_sigmoid(x)), x);
  same(EACH(relu(x)), x);
  same(EACH(relu6(x)), x);
  same(EACH(selu(x)), x);
  same(EACH(sigmoid(x)), x);
  same(EACH(silu(x)), x);
  same(EACH(softplus(x)), x);
  same(EACH(softsign(x)), x);
  same(EACH(sparse_plus(x)), x);
  same(EACH(sparse_sigmoid(x)), x);
  same(EACH(tanh_shrink(x)), x);
  same(EACH(swish(x)), x);
  same(EACH(hard_swish(x)), x);
  same(EACH(celu(x)), x);
  same(EACH(elu(x)), x);
  same(EACH(leaky_relu(x)), x);
  same(EACH(hard_shrink(x)), x);
  same(EACH(soft_shrink(x)), x);
  same(EACH(squareplus(x)), x);
  same(EACH(gelu(x)), x);
  same(EACH(glu(x)), x);
  same(EACH(softmax(x)), x);
  same(EACH(log_softmax(x)), x);
  same(EACH(sparsemax(x)), x);
  same(EACH(normalize(x)), x);
  same(EACH(layer_normalization(x)), x);
  same(EACH(rms_normalization(x)), x);
  same(EACH(softmax(x, {0, 1})), x);
  same(EACH(threshold(x, 0.3, 0.1)), x);
  same(THREE(layer_normalization(x, y, z)), x, w, w);
  same(PAIR(rms_normalization(x, y)), x, w);
  same(THREE(batch_normalization(x, y, z, -1)), x, w, w);
  same(PAIR(binary_crossentropy(x, y)), x, x);
  same(PAIR(categorical_crossentropy(x, y)), x, x);
  same(PAIR(sparse_categorical_crossentropy(x, y, true)), at::tensor({0, 3, 1}, at::kInt), x);
  same(PAIR(psnr(x, y, 1)), x, numbers({3, 4}));
  same(PAIR(ctc_decode(x, y)), numbers({2, 6, 4}), at::tensor({6, 4}, at::kInt));
  same(PAIR(ctc_decode(x, y, {.strategy = "beam_search", .beam_width = 4})), numbers({2, 6, 4}),
       at::tensor({6, 4}, at::kInt));
  same(THREE(ctc_loss(x, y, z, ops::full_like(z, 6))),
       at::tensor({1, 2, 3, 1}, at::kInt).view({2, 2}), numbers({2, 6, 4}),
       at::tensor({2, 1}, at::kInt));
  same(THREE(dot_product_attention(x, y, z, {.is_causal = true})), numbers({2, 3, 2, 4}),
       numbers({2, 3, 2, 4}), numbers({2, 3, 2, 4}));
}

TEST(OperationsTest, Windows) {
  const at::Tensor x = numbers({2, 6, 5, 2});
  same(PAIR(conv(x, y, 2, "same")), x, numbers({3, 3, 2, 4}));
  same(PAIR(depthwise_conv(x, y)), x, numbers({3, 3, 2, 2}));
  same(THREE(separable_conv(x, y, z)), x, numbers({3, 3, 2, 2}), numbers({1, 1, 4, 3}));
  same(PAIR(conv_transpose(x, y, {2, 1}, "same")), x, numbers({3, 3, 4, 2}));
  same(EACH(max_pool(x, 2)), x);
  same(EACH(max_pool(x, {2, 3}, {1, 2}, "same")), x);
  same(EACH(average_pool(x, 2, std::nullopt, "same")), x);
  same(EACH(adaptive_max_pool(x, {2, 3})), x);
  same(EACH(adaptive_average_pool(x, 2)), x);
  same(EACH(depth_to_space(x, 2)), numbers({2, 2, 3, 8}));
  same(EACH(space_to_depth(x, 2)), numbers({2, 4, 2, 3}));
  same(EACH(unfold(x, 2)), x);
  same(EACH(fold(x, {4, 6}, 2, 1, 0, 2)), numbers({2, 12, 6}));
}

TEST(OperationsTest, Images) {
  const at::Tensor x = numbers({2, 6, 5, 3});
  same(EACH(image::rgb_to_grayscale(x)), x);
  same(EACH(image::rgb_to_hsv(x)), x);
  same(EACH(image::hsv_to_rgb(x)), x);
  same(EACH(image::sobel_edges(x)), x);
  same(EACH(image::gaussian_blur(x)), x);
  same(EACH(image::resize(x, {3, 7})), x);
  same(EACH(image::resize(x, {3, 7}, {.interpolation = "nearest", .pad_to_aspect_ratio = true})),
       x);
  same(PAIR(image::affine_transform(x, y, {.fill_mode = "wrap"})), x, numbers({2, 8}));
  same(THREE(image::perspective_transform(x, y, z)), x, numbers({2, 4, 2}), numbers({2, 4, 2}) * 3);
  same(PAIR(image::map_coordinates(x, y, 1, "reflect")), numbers({3, 4}), numbers({2, 5}) * 3);
  same(THREE(image::scale_and_translate(x, {2, 3, 7, 3}, y, z, {1, 2}, "cubic")), x,
       at::tensor({0.5, 1.4}), at::tensor({0.1, 0.2}));
  same(PAIR(image::ssim(x, y, {.filter_size = 3})), x, numbers({2, 6, 5, 3}));
  same(EACH(image::crop_images(
           x, {.top_cropping = 1, .left_cropping = 2, .target_height = 3, .target_width = 2})),
       x);
  same(EACH(image::pad_images(
           x, {.top_padding = 1, .left_padding = 2, .bottom_padding = 0, .right_padding = 1})),
       x);
  same(EACH(image::extract_patches(x, {2, 2})), x);
  same(EACH(image::extract_patches_3d(x, {2, 2, 2}, 1)), numbers({1, 3, 4, 4, 2}));
}

TEST(OperationsTest, MakeAModel) {
  // Quoted in docs/keras.md.
  const SymbolicTensor x = Input({8, 16});
  const SymbolicTensor alike = ops::einsum("bij,bkj->bik", {x, x});
  const SymbolicTensor best = ops::top_k(ops::max(alike - 1.0, 2), 3)[0];
  const Model model(x, best);
  EXPECT_EQ(best.shape(), (Shape{kNone, 3}));
  const at::Tensor values = at::rand({5, 8, 16});
  const at::Tensor expected = values.matmul(values.mT()).sub(1).amax(2);
  EXPECT_TRUE(at::allclose(model.call({values}, {})[0], std::get<0>(expected.topk(3)), 1e-5));
}

TEST(OperationsTest, NumbersStandOnEitherSide) {
  const at::Tensor x = numbers({2, 3});
  same(EACH(maximum(x, 0.5)), x);
  same(EACH(power(2.0, x)), x);
  same(EACH(where(ops::greater(x, 0.5), x, 0.0)), x);
  EXPECT_TRUE(ops::add(x, 1).equal(x + 1));
}

TEST(OperationsTest, NewTensorsHaveTheNumbersOfNumPy) {
  EXPECT_TRUE(ops::arange(4).equal(at::tensor({0, 1, 2, 3}, at::kInt)));
  EXPECT_TRUE(ops::arange(1, 6, 2).equal(at::tensor({1, 3, 5}, at::kInt)));
  EXPECT_TRUE(ops::arange(0.0, 1.0, 0.25).equal(at::tensor({0.0f, 0.25f, 0.5f, 0.75f})));
  EXPECT_TRUE(ops::linspace(0, 1, 5).equal(at::tensor({0.0f, 0.25f, 0.5f, 0.75f, 1.0f})));
  EXPECT_TRUE(ops::linspace(0, 1, 4, false).equal(at::tensor({0.0f, 0.25f, 0.5f, 0.75f})));
  EXPECT_TRUE(at::allclose(ops::logspace(0, 2, 3), at::tensor({1.0f, 10.0f, 100.0f})));
  EXPECT_TRUE(at::allclose(ops::geomspace(1, 8, 4), at::tensor({1.0f, 2.0f, 4.0f, 8.0f})));
  EXPECT_TRUE(at::allclose(ops::geomspace(-1, -8, 4), at::tensor({-1.0f, -2.0f, -4.0f, -8.0f})));
  EXPECT_TRUE(
      ops::eye(2, 3, 1).equal(at::tensor({0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 1.0f}).view({2, 3})));
  EXPECT_TRUE(ops::identity(2).equal(at::eye(2)));
  EXPECT_TRUE(ops::tri(2, 3).equal(at::tensor({1.0f, 0.0f, 0.0f, 1.0f, 1.0f, 0.0f}).view({2, 3})));
  EXPECT_TRUE(ops::full({2}, 3, at::kInt).equal(at::tensor({3, 3}, at::kInt)));
  EXPECT_TRUE(ops::zeros({2}).equal(ops::empty({2})));
  EXPECT_TRUE(ops::ones({2}).equal(ops::full({2}, 1)));
  // numpy.bartlett(5), blackman(5), hamming(5), hanning(5), kaiser(5, 2).
  EXPECT_TRUE(at::allclose(ops::bartlett(5), at::tensor({0.0f, 0.5f, 1.0f, 0.5f, 0.0f})));
  EXPECT_TRUE(
      at::allclose(ops::blackman(5), at::tensor({0.0f, 0.34f, 1.0f, 0.34f, 0.0f}), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(ops::hamming(5), at::tensor({0.08f, 0.54f, 1.0f, 0.54f, 0.08f})));
  EXPECT_TRUE(
      at::allclose(ops::hanning(5), at::tensor({0.0f, 0.5f, 1.0f, 0.5f, 0.0f}), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(ops::kaiser(5, 2),
                           at::tensor({0.43868f, 0.83475f, 1.0f, 0.83475f, 0.43868f}), 1e-4));
  EXPECT_EQ(ops::shape(ops::ones({2, 3})), (Shape{2, 3}));
  EXPECT_EQ(ops::ndim(Input({3})), 2);
  EXPECT_EQ(ops::size(ops::ones({2, 3})), 6);
  EXPECT_EQ(ops::dtype(Input({3})), at::kFloat);
}

TEST(OperationsTest, WhatDependsOnValuesHasSizesOfItsOwn) {
  const at::Tensor x = at::tensor({3, 1, 3, 7, 1, 3});
  const Tensors all =
      ops::unique(x, {.return_index = true, .return_inverse = true, .return_counts = true});
  EXPECT_TRUE(all[0].equal(at::tensor({1, 3, 7})));
  EXPECT_TRUE(all[1].equal(at::tensor({1, 0, 3}, at::kInt)));
  EXPECT_TRUE(all[2].equal(at::tensor({1, 0, 1, 2, 0, 1}, at::kInt)));
  EXPECT_TRUE(all[3].equal(at::tensor({2, 3, 1}, at::kInt)));
  EXPECT_TRUE(ops::unique(x, {.size = 2})[0].equal(at::tensor({1, 3})));
  EXPECT_TRUE(ops::unique(x, {.size = 4})[0].equal(at::tensor({1, 3, 7, 1})));
  EXPECT_TRUE(ops::unique(x, {.size = 4, .fill_value = 9})[0].equal(at::tensor({1, 3, 7, 9})));
  const at::Tensor rows = at::tensor({1, 2, 0, 5, 1, 2}).view({3, 2});
  EXPECT_TRUE(ops::unique(rows, {.axis = 0})[0].equal(at::tensor({0, 5, 1, 2}).view({2, 2})));
  const Tensors places = ops::nonzero(at::tensor({0, 4, 5, 0}).view({2, 2}));
  EXPECT_TRUE(places[0].equal(at::tensor({0, 1}, at::kInt)));
  EXPECT_TRUE(places[1].equal(at::tensor({1, 0}, at::kInt)));
  const SymbolicTensor input = Input({3}, {.dtype = at::kInt});
  EXPECT_EQ(ops::unique(input)[0].shape(), Shape{kNone});
  EXPECT_EQ(ops::nonzero(input).size(), 2U);
}

TEST(OperationsTest, EigenvectorsSolveTheirEquation) {
  const at::Tensor x = numbers({3, 3});
  const Tensors found = ops::eig(x);
  EXPECT_TRUE(at::allclose(x.to(at::kComplexDouble).matmul(found[1]), found[1] * found[0], 1e-9));
}

TEST(OperationsTest, ElasticTransformMovesPixels) {
  at::manual_seed(3);
  const at::Tensor x = numbers({2, 12, 12, 1});
  const at::Tensor y = ops::image::elastic_transform(x, 20, 2);
  EXPECT_EQ(y.sizes(), x.sizes());
  EXPECT_FALSE(y.equal(x));
  EXPECT_TRUE((y <= x.max()).logical_and(y >= x.min()).all().item<bool>());
  EXPECT_TRUE(at::allclose(ops::image::elastic_transform(x, 0, 2), x));
  EXPECT_EQ(ops::image::elastic_transform(Input({12, 12, 1}), 20, 2).shape(),
            (Shape{kNone, 12, 12, 1}));
}

TEST(OperationsTest, LoopsRunTheFunctionsThatTheyAreGiven) {
  const at::Tensor x = numbers({4, 3}).set_requires_grad(true);
  EXPECT_TRUE(ops::map([](const at::Tensor& row) { return row * 2; }, x).equal(x * 2));
  EXPECT_TRUE(
      ops::vectorized_map([](const at::Tensor& row) { return row.sum(); }, x).equal(x.sum(1)));
  const auto sum = [](const at::Tensor& state, const at::Tensor& row) {
    return std::pair(state + row, state + row);
  };
  const auto [last, all] = ops::scan(sum, ops::zeros({3}, at::kDouble), x);
  EXPECT_TRUE(all.equal(x.cumsum(0)));
  EXPECT_TRUE(last.equal(x.cumsum(0)[3]));
  EXPECT_TRUE(at::allclose(ops::scan(sum, ops::zeros({3}, at::kDouble), x, true).second,
                           x.flip(0).cumsum(0).flip(0)));
  const auto times = [](const at::Tensor& a, const at::Tensor& b) { return a * b; };
  EXPECT_TRUE(ops::associative_scan(times, x).equal(x.cumprod(0)));
  EXPECT_TRUE(ops::associative_scan(times, x, false, 1).equal(x.cumprod(1)));
  const Tensors counted =
      ops::while_loop([](const Tensors& v) { return v[0] < 5; },
                      [](const Tensors& v) { return Tensors{v[0] + 1}; }, {at::tensor(0)});
  EXPECT_EQ(counted[0].item<int64_t>(), 5);
  EXPECT_EQ(
      ops::while_loop([](const Tensors& v) { return v[0] < 5; },
                      [](const Tensors& v) { return Tensors{v[0] + 1}; }, {at::tensor(0)}, 2)[0]
          .item<int64_t>(),
      2);
  EXPECT_EQ(ops::fori_loop(1, 4, [](int64_t i, const Tensors& v) { return Tensors{v[0] + i}; },
                           {at::tensor(0)})[0]
                .item<int64_t>(),
            6);
  const auto one = [&] { return Tensors{x}; };
  const auto two = [&] { return Tensors{x * 2}; };
  EXPECT_TRUE(ops::cond(at::scalar_tensor(false, at::kBool), one, two)[0].equal(x * 2));
  const auto plus = [](const Tensors& v) { return Tensors{v[0] + 1}; };
  const auto same_again = [](const Tensors& v) { return v; };
  EXPECT_TRUE(ops::switch_(at::tensor(7), {plus, same_again}, {x})[0].equal(x));
}

TEST(OperationsTest, OnesOfYourOwnAreFunctionsOfTensorsToo) {
  register_operation("test>Twice", [](const Tensors& x, const OperationArguments& arguments) {
    return Tensors{x[0] * 2 + arguments.config.at("plus").as_double()};
  });
  const at::Tensor x = numbers({2, 3});
  EXPECT_TRUE(ops::invoke("test>Twice", {x}, {{"plus", 1.0}})[0].equal(x * 2 + 1));
}

TEST(OperationsTest, WhatDoesNotFitIsSaid) {
  const at::Tensor x = numbers({3, 4});
  expect_error_containing([&] { ops::invoke("Fancy", {x}); }, ErrorCode::kUnimplemented,
                          "is operation Fancy, which is unknown to strata");
  expect_error_containing(
      [&] {
        ops::invoke("Sort", {x}, {{"order", "up"}});
      },
      ErrorCode::kUnimplemented, "got option 'order' = \"up\"");
  expect_error_containing([&] { ops::split(x, 3, 1); }, ErrorCode::kInvalidArgument,
                          "got an axis of size 4 for 3 sections; expected a multiple");
  expect_error_containing([&] { ops::ptp(x, {5}); }, ErrorCode::kInvalidArgument,
                          "got axis 5; expected one of 2 dimensions");
  expect_error_containing(
      [&] {
        ops::pad(x, {{1, 1}, {1, 1}}, "spiral");
      },
      ErrorCode::kInvalidArgument, "got mode 'spiral'; expected 'constant'");
  expect_error_containing([&] { ops::rearrange(x, "a b c -> a"); }, ErrorCode::kInvalidArgument,
                          "got pattern 'a b c -> a' for 2 dimensions");
  expect_error_containing([&] { ops::rearrange(x, "(a b) c -> a b c"); },
                          ErrorCode::kInvalidArgument,
                          "the lengths of a and b are not known; pass one");
  expect_error_containing([&] { ops::rearrange(x, "a b -> a"); }, ErrorCode::kInvalidArgument,
                          "whose right side lacks 'b'");
  expect_error_containing([&] { ops::image::rgb_to_hsv(x); }, ErrorCode::kInvalidArgument,
                          "got 2 dimensions; expected 3 (one image) or 4 (a batch)");
  expect_error_containing([&] { ops::stft(x, 4, 2, 2); }, ErrorCode::kInvalidArgument,
                          "got fft_length = 2 and sequence_length = 4");
  expect_error_containing(
      [&] {
        ops::image::map_coordinates(x, numbers({2, 5}), 3);
      },
      ErrorCode::kInvalidArgument, "got order 3; expected 0 or 1");
}

}  // namespace
}  // namespace strata::keras
