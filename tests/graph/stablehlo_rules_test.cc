// What each rule of the lowering to StableHLO computes, forward and backward, against libtorch in float64: a
// difference of two correct programs is rounding, so 1e-12 is enough to see any mistake.
#include "graph/stablehlo/rules.h"

#include <torch/torch.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "graph/stablehlo/compiled_graph.h"
#include "graph/stablehlo/trace_to_compile.h"
#include "strata/core/str_cat.h"
#include "support/expect_error.h"
#include "support/pjrt_plugin.h"

namespace strata::graph::stablehlo {
namespace {

using at::Tensor;
using torch::indexing::Slice;
using Tensors = std::vector<Tensor>;
namespace F = torch::nn::functional;

constexpr double kTolerance = 1e-12;

struct Case {
  std::string name;
  std::function<Tensors(const Tensors&)> function;
  Tensors inputs;  // those of float64 get gradients
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

Tensor numbers(at::IntArrayRef sizes) { return torch::randn(sizes, torch::kDouble); }
Tensor integers(int64_t high, at::IntArrayRef sizes) { return torch::randint(high, sizes); }

using OfOne = std::function<Tensor(const Tensor&)>;
using OfTwo = std::function<Tensor(const Tensor&, const Tensor&)>;
using OfThree = std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>;

Case of_one(std::string name, const OfOne& function, Tensor x = numbers({3, 4, 6})) {
  return {std::move(name),
          [function](const Tensors& x) { return Tensors{function(x[0])}; },
          {std::move(x)}};
}
Case of_two(std::string name, const OfTwo& function, Tensor a = numbers({3, 4, 6}),
            Tensor b = numbers({4, 1})) {
  return {std::move(name),
          [function](const Tensors& x) { return Tensors{function(x[0], x[1])}; },
          {std::move(a), std::move(b)}};
}
Case of_three(std::string name, const OfThree& function, Tensor a, Tensor b, Tensor c) {
  return {std::move(name),
          [function](const Tensors& x) { return Tensors{function(x[0], x[1], x[2])}; },
          {std::move(a), std::move(b), std::move(c)}};
}
/// Of an image.
Case of_image(std::string name, const OfOne& function) {
  return of_one(std::move(name), function, numbers({2, 3, 8, 7}));
}
Case of_volume(std::string name, const OfOne& function) {
  return of_one(std::move(name), function, numbers({2, 2, 5, 6, 7}));
}
c10::List<std::optional<Tensor>> optional_list(const Tensors& tensors) {
  c10::List<std::optional<Tensor>> list;
  for (const Tensor& each : tensors) list.push_back(each);
  return list;
}

std::vector<Case> elementwise_cases() {
  std::vector<Case> cases = {
      of_two("add_with_alpha", [](auto a, auto b) { return torch::add(a, b, 0.3) + 2; }),
      of_two("sub_and_rsub", [](auto a, auto b) { return torch::sub(a, b, 2) + (1 - a); }),
      of_two("mul_and_div", [](auto a, auto b) { return a * b / (b.abs() + 1) * 0.5 / 3; }),
      of_two("rounded_quotients",
             [](auto a, auto b) {
               return torch::div(a, b, "floor") + torch::div(a, b, "trunc") * 2 +
                      torch::floor_divide(a, b).detach() * 3;
             }),
      of_two("remainders",
             [](auto a, auto b) { return torch::remainder(a, b) + torch::fmod(a, b) * 2; }),
      of_two(
          "integers_divided",
          [](auto a, auto b) {
            return (torch::div(a - 5, b + 1, "floor") + torch::remainder(a - 5, b - 9) * 2 +
                    torch::div(a - 5, b + 1, "trunc") * 3 + torch::fmod(a - 5, b + 1))
                .to(torch::kDouble);
          },
          integers(10, {3, 4}), integers(8, {3, 4})),
      of_one(
          "integers_divided_are_real", [](auto x) { return (x + 1) / (x + 2); },
          integers(10, {3, 4})),
      of_two("powers_of_tensors", [](auto a, auto b) { return a.abs().pow(b) + torch::pow(2, a); }),
      of_one("roots_and_reciprocals",
             [](auto x) {
               const Tensor y = x.abs() + 0.1;
               return y.sqrt() + y.rsqrt() + y.reciprocal() + y.square() + x.pow(3) + x.pow(2) +
                      y.pow(0.5) + y.pow(-0.5) + y.pow(-1) + y.pow(-2) + y.pow(1.7);
             }),
      of_one("exponentials",
             [](auto x) { return x.exp() + x.exp2() + x.expm1() + x.tanh() + x.sigmoid(); }),
      of_one("logarithms",
             [](auto x) {
               const Tensor y = x.abs() + 0.5;
               return y.log() + y.log2() + y.log10() + y.log1p();
             }),
      of_one("angles",
             [](auto x) {
               const Tensor y = x.tanh() * 0.9;
               return y.sin() + y.cos() + y.tan() + y.asin() + y.acos() + y.atan() + y.sinh() +
                      y.cosh() + y.asinh() + (y.abs() + 1.5).acosh() + y.atanh();
             }),
      of_two("angles_of_two",
             [](auto a, auto b) { return torch::atan2(a, b) + torch::hypot(a, b); }),
      of_one("error_functions",
             [](auto x) { return x.erf() + x.erfc() + (x.tanh() * 0.9).erfinv(); }),
      of_one("gamma_functions",
             [](auto x) { return (x.abs() + 0.5).lgamma() + (x.abs() + 0.5).digamma().detach(); }),
      of_one("rounding",
             [](auto x) {
               return (x.floor() + x.ceil() * 2 + (x * 4).round() * 3 + x.trunc() * 4 + x.frac() +
                       x.sign() + x.sgn() + x.abs() - x.neg()) *
                      x;
             }),
      of_two("extremes",
             [](auto a, auto b) {
               return torch::maximum(a, b) + 2 * torch::minimum(a, b) + torch::max(a, b * 2) +
                      torch::min(a, b * 3);
             }),
      of_two("clamps",
             [](auto a, auto b) {
               return a.clamp(-0.5, 0.7) + a.clamp_min(-0.2) * 2 + a.clamp_max(0.3) * 3 +
                      torch::clamp(a, b, b + 1) + torch::clamp_min(a, b) + torch::clamp_max(a, b);
             }),
      of_two("comparisons",
             [](auto a, auto b) {
               const Tensor c = torch::logical_or(a > b, a < 0.1) & torch::logical_not(a >= 2) &
                                (a <= 3) & (a != b) & torch::logical_xor(a == b, b > 0.2);
               return torch::where(c, a, b * 2) + a.masked_fill(c, 0.25) +
                      torch::logical_and(a, c).to(torch::kDouble);
             }),
      of_two(
          "bits",
          [](auto a, auto b) {
            return ((a & b) + (a | b) * 2 + (a ^ b) * 3 + a.bitwise_not() * 4 + (a & 5))
                .to(torch::kDouble);
          },
          integers(64, {3, 4}), integers(64, {4})),
      of_one("nan_and_infinity",
             [](auto x) {
               const Tensor y = x.log().detach() / (x > 1.5).to(torch::kDouble);
               return y.nan_to_num(0.5) + y.nan_to_num(0, 1, 2) + y.isnan() + y.isinf() * 2 +
                      y.isfinite() * 3 + x * 0;
             }),
      of_three(
          "addcmul_and_addcdiv",
          [](auto a, auto b, auto c) {
            return torch::addcmul(a, b, c, 0.3) + torch::addcdiv(a, b, c.abs() + 1, 0.2) +
                   torch::lerp(a, b, 0.2) + torch::lerp(a, b, 0.9) + torch::lerp(a, b, c.sigmoid());
          },
          numbers({3, 4}), numbers({3, 4}), numbers({3, 4})),
      of_two("xlogy", [](auto a, auto b) { return torch::xlogy(a * (a > 0), b.abs() + 0.1); }),
      of_one("dtypes",
             [](auto x) {
               return (x * 3).to(torch::kLong).to(torch::kDouble) + (x > 0).to(torch::kDouble) +
                      (x * 3).to(torch::kInt).sum().to(torch::kDouble) + x.clone() * 2;
             }),
      of_two(
          "in_place",
          [](auto a, auto b) {
            Tensor y = a.detach() * 1;
            y.add_(b.detach()).mul_(2).sub_(y * 2, 0.3).relu_().clamp_(0, 3).sigmoid_();
            y.tanh_().addcmul_(y, y, 0.1);
            return y + (a * 1).add_(b);
          },
          numbers({3, 4}), numbers({4})),
  };
  return cases;
}

std::vector<Case> activation_cases() {
  return {
      of_one("relu", [](auto x) { return torch::relu(x) + torch::threshold(x, 0.1, 0.2); }),
      of_one("gelu", [](auto x) { return torch::gelu(x) + torch::gelu(x, "tanh") * 2; }),
      of_one("silu_and_mish", [](auto x) { return torch::silu(x) + torch::mish(x) * 2; }),
      of_one("softplus", [](auto x) { return F::softplus(x * 9) + torch::log_sigmoid(x) * 2; }),
      of_one("leaky_relu", [](auto x) { return torch::leaky_relu(x, 0.2); }),
      of_one("elu",
             [](auto x) {
               Tensor y = x * 1;
               torch::elu_(y, 0.7);  // whose gradient is of its result
               return y + torch::elu(x, 1.3) + torch::selu(x) + torch::celu(x, 0.5);
             }),
      of_one("hard_ones",
             [](auto x) {
               const Tensor y = x * 3;
               return torch::hardtanh(x, -0.5, 0.8) + torch::hardsigmoid(y) + torch::hardswish(y) +
                      torch::relu6(y);
             }),
      of_two(
          "prelu", [](auto x, auto w) { return torch::prelu(x, w); }, numbers({2, 4, 3}),
          numbers({4})),
  };
}

std::vector<Case> shape_cases() {
  return {
      of_one("views",
             [](auto x) {
               return x.view({12, 6}).reshape({6, 12}).unsqueeze(1).squeeze(1).t().contiguous() +
                      x.permute({2, 0, 1}).reshape({12, 6}) +
                      x.transpose(0, 2).flatten(0).view({12, 6}) + torch::alias(x).reshape({12, 6});
             }),
      of_one("expand",
             [](auto x) {
               return x.select(1, 2).unsqueeze(1).expand({3, 5, 6}) * 2;
             }),
      of_one("slices",
             [](auto x) {
               return x.slice(1, 1, 4, 2) + x.slice(2, -5, -3).sum(2, true).narrow(1, 0, 2) +
                      x.narrow(1, 0, 2);
             }),
      of_one("selects", [](auto x) { return x.select(0, 1) + x[2] * 2 + x.select(0, -3); }),
      of_one("splits",
             [](auto x) {
               const Tensors a = x.split(2, 1), b = x.unbind(0), c = x.chunk(3, 2),
                             d = x.split_with_sizes({1, 2, 1}, 1), e = torch::unsafe_split(x, 2, 1),
                             f = torch::unsafe_split_with_sizes(x, {1, 3}, 1);
               return a[0] * a[1] + (b[0] * b[2]).slice(0, 0, 2) + c[1].sum() + d[1] + e[1] +
                      f[1].slice(1, 0, 2);
             }),
      of_two(
          "cat_and_stack",
          [](auto a, auto b) {
            return torch::cat({a, b, a * 2}, 1).sum() + torch::stack({a, b}, 1).square().sum() +
                   torch::cat({a, b}, -1);
          },
          numbers({3, 4}), numbers({3, 4})),
      of_one("flip_roll_repeat",
             [](auto x) {
               return (x.flip({0, 2}) * x.roll({1, -2}, {0, 1}) + x.roll(5)).repeat({2, 1, 1, 2}) *
                      x.repeat({1, 1, 2});
             }),
      of_one("paddings",
             [](auto x) {
               return torch::constant_pad_nd(x, {1, 2, -1, 1}, 0.5) * 2;
             }),
      of_one("triangles", [](auto x) { return x.tril(1) + x.triu(-1) * 2; }),
      of_one("diagonal", [](auto x) { return x.diagonal(1, 1, 2) * 2; }),
      of_one("unfold", [](auto x) { return x.unfold(2, 3, 2) * 2; }),
      of_one("as_strided",
             [](auto x) {
               return x.as_strided({3, 4}, {5, 1}, 2) * 2;
             }),
      of_one("created",
             [](auto x) {
               const auto real = x.options();
               return x * torch::arange(6, real) + torch::arange(2, 8, real) +
                      torch::arange(1, 4, 0.5, real) + torch::ones({6}, real) +
                      torch::full({6}, 0.3, real) + torch::eye(4, 6, real) + torch::zeros_like(x) +
                      torch::ones_like(x) + torch::full_like(x, 2) + x.new_zeros({6}) +
                      x.new_ones({6}) + x.new_full({6}, 3) + torch::linspace(0, 1, 6, real) +
                      torch::empty({6}, real).fill_(2) + torch::empty_like(x).zero_() +
                      torch::scalar_tensor(2, real) +
                      torch::tensor({1., 2., 3., 4., 5., 6.}, real) + x.new_empty({6}).fill_(2) +
                      torch::empty_strided({6}, {1}, real).fill_(1) +
                      x.new_empty_strided({6}, {1}).fill_(1);
             }),
  };
}

std::vector<Case> write_cases() {
  const auto no_grad = [](const OfOne& function) {
    return [function](const Tensor& x) {
      const torch::NoGradGuard guard;
      return function(x.detach() * 1);
    };
  };
  return {
      of_one("writes_through_slices", no_grad([](auto x) {
               x.slice(1, 1, 3).mul_(2);
               x.slice(2, 0, 6, 2).add_(1);
               x.select(0, 1).select(0, 2).fill_(7);
               return x;
             })),
      of_one("writes_through_transposes", no_grad([](auto x) {
               x.permute({2, 0, 1}).select(0, 3).mul_(3);
               x.view({12, 6}).t().slice(0, 1, 4).sub_(1);
               return x;
             })),
      of_one("views_see_later_writes", no_grad([](auto x) {
               const Tensor row = x[1], column = x.transpose(0, 1)[2];
               x.add_(1);
               row.mul_(2);
               return x.sum() + row + column.sum() * 3;
             })),
      of_one("writes_by_strides", no_grad([](auto x) {
               x.diagonal(0, 1, 2).mul_(5);
               x.split(2, 1)[1].add_(0.5);
               x.unbind(2)[4].zero_();
               x.as_strided({3}, {25}, 0).fill_(9);
               return x;
             })),
      of_one("buffers", no_grad([](auto x) {
               Tensor buffer = torch::empty({4, 6}, x.options());
               buffer.copy_(x[0]);
               buffer[1].copy_(x[1][1]);
               Tensor out = torch::empty({4, 6}, x.options());
               torch::add_out(out, buffer, x[2]);
               return out + buffer;
             })),
      of_one("differentiated_copies",
             [](auto x) {
               Tensor copy = x * 1;
               copy[1] = x[2] * 2;
               copy.tanh_();
               return copy;
             }),
  };
}

std::vector<Case> reduction_cases() {
  return {
      of_one("sums",
             [](auto x) {
               return x.sum() + x.sum({0, 2}) + x.sum(1, true).sum(2, true)[0];
             }),
      of_one("means",
             [](auto x) {
               return x.mean() + x.mean({0, 2}) + x.mean(1, true)[0].sum();
             }),
      of_one("products",
             [](auto x) {
               return (x.prod() + x.prod(1).sum() + x.prod(2, true)[0].sum()).detach() * x;
             }),
      of_one("extremes_of_axes",
             [](auto x) {
               return x.amax({1}) + x.amin({1}) * 2 + std::get<0>(x.max(1)) +
                      std::get<0>(x.min(1)) + x.max().detach() + x.min().detach();
             }),
      of_one("indices_of_extremes",
             [](auto x) {
               return (x.argmax(1) + x.argmin(1) * 2 + std::get<1>(x.max(1)) * 3 +
                       std::get<1>(x.min(1)) + x.argmax() + x.argmin(0, true)[0].sum())
                   .to(torch::kDouble);
             }),
      of_one(
          "ties_take_the_first",
          [](auto x) { return (x.argmax(1) + x.argmin(1) * 7).to(torch::kDouble); },
          integers(3, {5, 6}).to(torch::kDouble)),
      of_one("any_and_all",
             [](auto x) {
               return ((x > 1).any() + (x > -1).all(1) * 2 + (x > 1).any(1) * 3 + (x > -3).all())
                   .to(torch::kDouble);
             }),
      of_one("variances",
             [](auto x) {
               return x.var(1) + x.std(1, false) + x.var() + std::get<0>(torch::var_mean(x, 1)) +
                      std::get<1>(torch::std_mean(x, 1)) + x.std(2, true, true).sum();
             }),
      of_one("norms",
             [](auto x) {
               return x.norm() + x.norm(2, 1) + x.norm(1, 1) + x.norm(3, 1) +
                      torch::linalg_vector_norm(x, INFINITY, 1) +
                      torch::linalg_vector_norm(x, 0, 1) +
                      torch::linalg_vector_norm(x, -INFINITY, 1) + torch::norm(x, 2);
             }),
      of_one("logsumexp", [](auto x) { return torch::logsumexp(x * 50, 1); }),
      of_one("softmax",
             [](auto x) { return torch::softmax(x, 1) * x + torch::log_softmax(x, -1) * 2; }),
      of_one("cumulated", [](auto x) { return x.cumsum(1) + x.cumprod(2).detach(); }),
      of_one("sorted_nan",  // of either sign
             [](auto x) {
               const Tensor y = torch::cat({x.log().detach(), -x.log().detach()}, 1);
               return torch::stack({std::get<0>(y.sort(1)), std::get<0>(y.sort(1, true)),
                                    std::get<1>(y.sort(/*stable=*/true, 1, true)).to(y.dtype())});
             }),
      of_one("sorted",
             [](auto x) {
               const auto [values, order] = x.sort(1);
               const auto [most, where] = x.topk(2, 2);
               return values * 2 + std::get<0>(x.sort(1, true)) +
                      x.gather(1, torch::argsort(x, int64_t{1}, false)) +
                      std::get<0>(x.sort(/*stable=*/true, 1, true)) +
                      x.argsort(/*stable=*/true, 1, false) + order + most.sum() + where.sum();
             }),
  };
}

std::vector<Case> product_cases() {
  return {
      of_two(
          "mm", [](auto a, auto b) { return a.mm(b) * 2; }, numbers({3, 4}), numbers({4, 5})),
      of_two(
          "vectors",
          [](auto a, auto b) { return a.mv(b).sum() * 2 + b.dot(b) + torch::outer(b, b); },
          numbers({3, 4}), numbers({4})),
      of_three(
          "addmm",
          [](auto bias, auto a, auto b) {
            return torch::addmm(bias, a, b) + torch::addmm(bias, a, b, 0.5, 2) +
                   torch::addmm(bias, a, b, 0, 1) + F::linear(a, b.t(), bias);
          },
          numbers({5}), numbers({3, 4}), numbers({4, 5})),
      of_three(
          "bmm",
          [](auto bias, auto a, auto b) {
            return a.bmm(b) + torch::baddbmm(bias, a, b, 0.5, 3) + torch::addbmm(bias, a, b, 2, 1) +
                   a.matmul(b);
          },
          numbers({3, 5}), numbers({2, 3, 4}), numbers({2, 4, 5})),
      of_three(
          "addmv_and_addr",
          [](auto bias, auto a, auto b) {
            return torch::addmv(bias, a, b, 0.5, 2).sum() + torch::addr(a, bias, b, 2, 3);
          },
          numbers({3}), numbers({3, 4}), numbers({4})),
      of_two(
          "linear_and_einsum",
          [](auto a, auto w) {
            return F::linear(a, w) + torch::einsum("bij,kj->bik", {a, w});
          },
          numbers({2, 3, 4}), numbers({5, 4})),
      of_three(
          "attention",
          [](auto q, auto k, auto v) {
            return torch::scaled_dot_product_attention(q, k, v) +
                   torch::scaled_dot_product_attention(q, k, v, {}, 0, true) * 2;
          },
          numbers({2, 2, 5, 4}), numbers({2, 2, 5, 4}), numbers({2, 2, 5, 4})),
  };
}

std::vector<Case> index_cases() {
  return {
      of_two(
          "index_select", [](auto x, auto i) { return x.index_select(1, i) * 2; },
          numbers({3, 4, 6}), integers(4, {7})),
      of_two(
          "gather", [](auto x, auto i) { return x.gather(1, i) * 2; }, numbers({3, 4, 6}),
          integers(4, {2, 5, 6})),
      of_three(
          "scatter",
          [](auto x, auto i, auto s) { return x.scatter_add(1, i, s) + x.scatter(0, i * 0, 0.5); },
          numbers({3, 4}), integers(3, {2, 4}), numbers({2, 4})),
      of_three(
          "scatter_of_a_permutation", [](auto x, auto i, auto s) { return x.scatter(0, i, s); },
          numbers({4, 3}), torch::tensor({{0, 1, 2}, {2, 3, 0}}), numbers({2, 3})),
      of_three(
          "rows_written",
          [](auto x, auto i, auto s) {
            return x.index_add(0, i, s, 0.5) + x.index_copy(0, i, s) * 2 +
                   x.index_fill(0, i, 0.3) * 3;
          },
          numbers({5, 3}), torch::tensor({3, 0, 4}), numbers({3, 3})),
      of_three(
          "indexed",
          [](auto x, auto i, auto j) {
            return x.index({i, j}) + x.index({Slice(), i, j}).sum() +
                   x.index({i, Slice(), j}).sum() + x.index({Slice(), i}).square().sum();
          },
          numbers({4, 4, 4}), integers(4, {3, 1}), integers(4, {5})),
      of_three(
          "index_put",
          [](auto x, auto i, auto v) {
            Tensor rows = x * 1, columns = x * 2;
            rows.index_put_({i}, v[0].unsqueeze(1).expand({2, 4, 3}));
            columns.index_put_({Slice(), i}, v);
            return rows + columns + torch::index_put(x, optional_list({i, i}), v[0][0], true);
          },
          numbers({4, 4, 3}), torch::tensor({2, 0}), numbers({4, 2, 3})),
      of_two(
          "index_put_with_repeats",
          [](auto x, auto v) {
            const Tensor i = torch::tensor({1, 1, 2});
            return torch::index_put(x, optional_list({i}), v, /*accumulate=*/true);
          },
          numbers({4, 3}), numbers({3, 3})),
      of_two(
          "embedding",
          [](auto w, auto i) {
            return torch::embedding(w, i) * 2 + torch::embedding(w, i, /*padding_idx=*/1) +
                   torch::embedding(w, i, -1, /*scale_grad_by_freq=*/true);
          },
          numbers({5, 3}), integers(5, {2, 4})),
  };
}

std::vector<Case> convolution_cases() {
  struct Shape {
    std::string name;
    Sizes x, weight, stride, padding, dilation, output_padding;
    int64_t groups;
    bool transposed;
  };
  const std::vector<Shape> shapes = {
      {"conv1d", {2, 3, 9}, {4, 3, 3}, {1}, {1}, {1}, {0}, 1, false},
      {"conv1d_strided", {2, 4, 10}, {6, 2, 3}, {3}, {2}, {2}, {0}, 2, false},
      {"conv2d", {2, 3, 8, 7}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1, false},
      {"conv2d_strided", {2, 3, 8, 7}, {4, 3, 3, 2}, {2, 3}, {1, 0}, {1, 2}, {0, 0}, 1, false},
      {"conv2d_grouped", {2, 4, 8, 7}, {6, 2, 3, 3}, {2, 1}, {1, 1}, {1, 1}, {0, 0}, 2, false},
      {"conv2d_depthwise", {2, 4, 8, 7}, {8, 1, 3, 3}, {1, 2}, {2, 1}, {2, 1}, {0, 0}, 4, false},
      {"conv2d_leaves_a_rest",
       {2, 3, 9, 8},
       {4, 3, 2, 2},
       {4, 3},
       {0, 0},
       {1, 1},
       {0, 0},
       1,
       false},
      {"conv3d",
       {1, 2, 5, 4, 6},
       {3, 2, 2, 3, 2},
       {1, 2, 1},
       {1, 1, 0},
       {1, 1, 2},
       {0, 0, 0},
       1,
       false},
      {"transposed", {2, 3, 5, 4}, {3, 4, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 0}, 1, true},
      {"transposed_grouped", {2, 4, 5, 4}, {4, 3, 3, 2}, {2, 3}, {1, 0}, {2, 1}, {1, 1}, 2, true},
      {"transposed_1d", {2, 3, 5}, {3, 2, 4}, {3}, {1}, {1}, {2}, 1, true},
  };
  std::vector<Case> cases;
  for (const Shape& shape : shapes) {
    const int64_t channels = shape.transposed ? shape.weight[1] * shape.groups : shape.weight[0];
    cases.push_back(of_three(
        shape.name,
        [shape](auto x, auto w, auto b) {
          return torch::convolution(x, w, b, shape.stride, shape.padding, shape.dilation,
                                    shape.transposed, shape.output_padding, shape.groups) *
                 2;
        },
        numbers(shape.x), numbers(shape.weight), numbers({channels})));
  }
  return cases;
}

std::vector<Case> normalization_cases() {
  std::vector<Case> cases;
  for (const bool training : {true, false}) {
    cases.push_back(of_three(
        training ? "batch_norm" : "batch_norm_evaluated",
        [training](auto x, auto w, auto b) {
          Tensor mean = torch::full({3}, 0.1, x.options());
          Tensor variance = torch::full({3}, 2.0, x.options());
          const Tensor y = torch::batch_norm(x, w, b, mean, variance, training, 0.1, 1e-5, false);
          return y * y + (mean + variance * 2).view({3, 1, 1});
        },
        numbers({2, 3, 5, 4}), numbers({3}), numbers({3})));
  }
  const std::vector<Case> more = {
      of_one(
          "batch_norm_without_weights",
          [](auto x) { return torch::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-3, false) * x; },
          numbers({6, 3})),
      of_three(
          "layer_norm",
          [](auto x, auto w, auto b) {
            return torch::layer_norm(x, {4, 6}, w, b) * x;
          },
          numbers({3, 4, 6}), numbers({4, 6}), numbers({4, 6})),
      of_one("layer_norm_without_weights", [](auto x) { return torch::layer_norm(x, {6}) * x; }),
      of_three(
          "group_norm", [](auto x, auto w, auto b) { return torch::group_norm(x, 2, w, b) * x; },
          numbers({3, 4, 5}), numbers({4}), numbers({4})),
      of_one("group_norm_without_weights", [](auto x) { return torch::group_norm(x, 2) * x; }),
  };
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

std::vector<Case> pooling_cases() {
  const auto max = [](Sizes window, Sizes stride, Sizes padding, Sizes dilation, bool ceil) {
    return [=](const Tensor& x) {
      const auto [y, index] =
          torch::max_pool2d_with_indices(x, window, stride, padding, dilation, ceil);
      return y * 2 + index;
    };
  };
  const auto avg = [](Sizes window, Sizes stride, Sizes padding, bool ceil, bool include,
                      std::optional<int64_t> divisor) {
    return [=](const Tensor& x) {
      return torch::avg_pool2d(x, window, stride, padding, ceil, include, divisor) * 2;
    };
  };
  return {
      of_image("max_pool", max({2, 2}, {2, 2}, {0, 0}, {1, 1}, false)),
      of_image("max_pool_overlapping", max({3, 2}, {1, 2}, {1, 1}, {1, 1}, false)),
      of_image("max_pool_dilated", max({2, 3}, {2, 1}, {1, 1}, {2, 2}, true)),
      of_image("max_pool_beyond", max({3, 3}, {2, 3}, {0, 1}, {1, 1}, true)),
      of_one("max_pool_of_ties", max({2, 2}, {1, 1}, {0, 0}, {1, 1}, false),
             integers(2, {1, 2, 6, 6}).to(torch::kDouble)),
      of_image("avg_pool", avg({2, 2}, {2, 2}, {0, 0}, false, true, {})),
      of_image("avg_pool_padded", avg({3, 2}, {2, 1}, {1, 1}, false, true, {})),
      of_image("avg_pool_ceil", avg({3, 3}, {2, 3}, {1, 1}, true, true, {})),
      of_image("avg_pool_without_padding", avg({3, 3}, {2, 3}, {1, 1}, true, false, {})),
      of_image("avg_pool_divided", avg({3, 3}, {2, 2}, {1, 1}, false, false, 5)),
      of_image("adaptive_avg_pool",
               [](auto x) {
                 return torch::adaptive_avg_pool2d(x, {3, 2}) * 2 +
                        torch::adaptive_avg_pool2d(x, {1, 1});
               }),
      of_image("adaptive_max_pool",
               [](auto x) {
                 const auto [y, index] = torch::adaptive_max_pool2d(x, {3, 4});
                 return y * 2 + index;
               }),
      of_volume("max_pool3d",
                [](auto x) {
                  const auto [y, index] = torch::max_pool3d_with_indices(
                      x, {2, 3, 2}, {1, 2, 2}, {1, 1, 0}, {1, 1, 2}, true);
                  return y * 2 + index;
                }),
      of_volume("avg_pool3d",
                [](auto x) {
                  return torch::avg_pool3d(x, {2, 3, 2}, {1, 2, 2}, {1, 0, 1}, true, false) * 2;
                }),
      of_volume("adaptive_avg_pool3d",
                [](auto x) {
                  return torch::adaptive_avg_pool3d(x, {2, 4, 3}) * 2;
                }),
      of_volume("adaptive_max_pool3d",
                [](auto x) {
                  const auto [y, index] = torch::adaptive_max_pool3d(x, {2, 4, 3});
                  return y * 2 + index;
                }),
  };
}

std::vector<Case> resizing_cases() {
  std::vector<Case> cases;
  const std::optional<double> none;
  for (const bool align : {false, true}) {
    const std::string suffix = align ? "_aligned" : "";
    cases.push_back(of_image("bilinear" + suffix, [=](auto x) {
      return torch::upsample_bilinear2d(x, {9, 3}, align, none, none) * 2;
    }));
    cases.push_back(of_image("bicubic" + suffix, [=](auto x) {
      return torch::upsample_bicubic2d(x, {3, 11}, align, none, none) * 2;
    }));
    cases.push_back(of_volume("trilinear" + suffix, [=](auto x) {
      return torch::upsample_trilinear3d(x, {3, 9, 2}, align, none, none, none) * 2;
    }));
    cases.push_back(of_one("linear" + suffix, [=](auto x) {
      return torch::upsample_linear1d(x, {9}, align, none) * 2;
    }));
  }
  const auto nearest = [&](const std::string& name, const OfOne& one, const OfOne& two,
                           const OfOne& three) {
    cases.push_back(of_one(name + "1d", one));
    cases.push_back(of_image(name + "2d", two));
    cases.push_back(of_volume(name + "3d", three));
  };
  nearest(
      "nearest", [=](auto x) { return torch::upsample_nearest1d(x, {9}, std::optional(1.7)) * 2; },
      [=](auto x) {
        return torch::upsample_nearest2d(x, {9, 3}, none, none) * 2;
      },
      [=](auto x) {
        return torch::upsample_nearest3d(x, {9, 3, 2}, none, none, none) * 2;
      });
  nearest(
      "nearest_exact", [=](auto x) { return torch::_upsample_nearest_exact1d(x, {9}, none) * 2; },
      [=](auto x) {
        return torch::_upsample_nearest_exact2d(x, {9, 3}, none, none) * 2;
      },
      [=](auto x) {
        return torch::_upsample_nearest_exact3d(x, {9, 3, 2}, none, none, none) * 2;
      });
  return cases;
}

std::vector<Case> loss_cases() {
  std::vector<Case> cases;
  for (const int64_t reduction : {0, 1, 2}) {
    const std::string suffix = str_cat("_", reduction);
    cases.push_back(of_three(
        "nll_loss" + suffix,
        [reduction](auto x, auto t, auto w) {
          const Tensor y = torch::log_softmax(x, 1);
          return torch::nll_loss(y, t, {}, reduction) * 2 +
                 torch::nll_loss(y, t, w.detach(), reduction, 2);
        },
        numbers({5, 4}), integers(4, {5}), numbers({4}).abs()));
    cases.push_back(of_two(
        "nll_loss2d" + suffix,
        [reduction](auto x, auto t) {
          return torch::nll_loss2d(torch::log_softmax(x, 1), t, {}, reduction) * 2;
        },
        numbers({2, 4, 3, 3}), integers(4, {2, 3, 3})));
    cases.push_back(of_two(
        "distances" + suffix,
        [reduction](auto a, auto b) {
          return torch::mse_loss(a, b, reduction) +
                 torch::smooth_l1_loss(a, b, reduction, 0.7) * 2 +
                 torch::huber_loss(a, b, reduction, 0.6) * 3 + torch::l1_loss(a, b, reduction);
        },
        numbers({4, 3}), numbers({4, 3})));
    cases.push_back(of_two(
        "cross_entropies_of_two_classes" + suffix,
        [reduction](auto a, auto t) {
          const Tensor w = torch::arange(1, 4, t.options());
          return torch::binary_cross_entropy(a.sigmoid(), t, {}, reduction) +
                 torch::binary_cross_entropy(a.sigmoid(), t, w, reduction) * 3 +
                 torch::binary_cross_entropy_with_logits(a, t, w, w * 2, reduction) * 2;
        },
        numbers({4, 3}), torch::rand({4, 3}, torch::kDouble).requires_grad_(false)));
    cases.push_back(of_two(
        "kl_divergence" + suffix,
        [reduction](auto a, auto t) {
          return torch::kl_div(torch::log_softmax(a, 1), torch::softmax(t, 1), reduction);
        },
        numbers({4, 3}), numbers({4, 3})));
  }
  cases.push_back(of_one(
      "vector_of_classes",
      [](auto x) { return torch::nll_loss(torch::log_softmax(x, 0), torch::tensor(2)); },
      numbers({4})));
  return cases;
}

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    torch::manual_seed(7);
    std::vector<Case> all;
    for (const auto& family :
         {elementwise_cases(), activation_cases(), shape_cases(), write_cases(), reduction_cases(),
          product_cases(), index_cases(), convolution_cases(), normalization_cases(),
          pooling_cases(), resizing_cases(), loss_cases()}) {
      all.insert(all.end(), family.begin(), family.end());
    }
    return all;
  }();
  return cases;
}

/// A case's results and the gradients of a sum in which each element has a weight of its own.
Tensors with_gradients(const Case& of, const Tensors& given) {
  Tensors inputs, leaves;
  for (const Tensor& each : given) {
    inputs.push_back(each.is_floating_point() ? each.detach().requires_grad_() : each);
    if (each.is_floating_point()) leaves.push_back(inputs.back());
  }
  Tensors results = of.function(inputs);
  Tensor loss;
  for (const Tensor& result : results) {
    if (!result.requires_grad()) continue;
    const Tensor weights =
        torch::arange(1, result.numel() + 1, torch::kDouble).view(result.sizes());
    const Tensor part = (result * (weights * 0.37).cos()).sum();
    loss = loss.defined() ? loss + part : part;
  }
  if (loss.defined()) {
    for (const Tensor& gradient :
         torch::autograd::grad({loss}, leaves, {}, std::nullopt, false, /*allow_unused=*/true)) {
      if (gradient.defined()) results.push_back(gradient);
    }
  }
  for (Tensor& result : results) result = result.detach();
  return results;
}

std::shared_ptr<const Trace> trace_of(const Case& of) {
  return trace_to_compile(of.name, of.inputs,
                          [&](const Tensors& inputs) { return with_gradients(of, inputs); });
}

void expect_close(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  ASSERT_EQ(got.scalar_type(), expected.scalar_type()) << what;
  EXPECT_TRUE(torch::allclose(got, expected, kTolerance, kTolerance, /*equal_nan=*/true))
      << what << ": differs by " << (got - expected).abs().max().item<double>() << "\n"
      << got << "\nexpected\n"
      << expected;
}

class StablehloRulesTest : public testing::TestWithParam<Case> {};

TEST_P(StablehloRulesTest, ComputesWhatLibtorchDoes) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const Case& of = GetParam();
  const Tensors expected = with_gradients(of, of.inputs);
  CompiledGraph compiled(trace_of(of), test::pjrt_client());
  const Tensors got = compiled.run({of.inputs})[0];
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    expect_close(got[i], expected[i], i == 0 ? "result" : str_cat("gradient ", i));
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, StablehloRulesTest, testing::ValuesIn(all_cases()),
                         [](const auto& each) { return each.param.name; });

/// Of random numbers and of replicas, which have tests of their own.
const std::set<std::string_view>& tested_elsewhere() {
  static const std::set<std::string_view> names = [] {
    std::set<std::string_view> all;
    for (const Rules* rules : {&random_rules(), &collective_rules()}) {
      for (const auto& [name, rule] : *rules) all.insert(name);
    }
    return all;
  }();
  return names;
}

TEST(StablehloTableTest, EveryRuleIsReachedByACase) {
  std::set<std::string_view> reached = tested_elsewhere();
  // That libtorch's traces have in other circumstances: memory that is filled by its address, views of all there
  // is, which are no values of their own, and a view that is refused.
  reached.insert({"aten::empty", "aten::alias", "aten::detach", "aten::rsub", "aten::unsafe_split",
                  "aten::unsafe_split_with_sizes", "aten::view.dtype"});
  const std::vector<const Rules*> tables = {
      &activation_rules(), &convolution_rules(), &creation_rules(),      &elementwise_rules(),
      &index_rules(),      &loss_rules(),        &normalization_rules(), &pooling_rules(),
      &product_rules(),    &reduction_rules(),   &resizing_rules(),      &shape_rules()};
  std::set<const Rule*> used;
  for (const Case& each : all_cases()) {
    const std::shared_ptr<const Trace> trace = trace_of(each);
    for (const Node& node : trace->graph.nodes) {
      std::string name = node.name;
      const size_t dot = std::min(name.find('.'), name.size());
      if (!node.written.empty() && name[dot - 1] == '_') name.erase(dot - 1, 1);
      const Rule* const rule = find_rule(name);
      EXPECT_TRUE(rule != nullptr) << node.name << " in " << each.name;
      used.insert(rule);
    }
  }
  for (const Rules* rules : tables) {
    for (const auto& [name, rule] : *rules) {
      EXPECT_TRUE(used.contains(&rule) || reached.contains(name)) << name << " is not tested";
    }
  }
}

}  // namespace
}  // namespace strata::graph::stablehlo
