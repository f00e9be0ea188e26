#include "kernels/fixed_parts.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/kernel_threads.h"
#include "kernels/portable/portable_bits.h"

namespace strata::kernels {
namespace {

// A part has at least so many multiplications: 1 ms, beside which what each part repeats (packing
// the other side) is little.
constexpr int64_t kProductGrain = int64_t{1} << 24;
constexpr int64_t kConvolutionGrain = int64_t{1} << 26;
constexpr int64_t kMostParts = 16;

bool is_plain_float(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_floating_point();
}

int64_t parts_of(double work, int64_t grain, int64_t size) {
  if (portable_bits()) return 1;  // not libtorch's at all
  const double most = std::min<double>(work / static_cast<double>(grain), kMostParts);
  return std::min(static_cast<int64_t>(most), size);
}

/// Calls part(i, begin, size) for `parts` parts of `size` elements, multiples of `multiple`.
template <typename Part>
void for_parts(int64_t parts, int64_t size, int64_t multiple, const Part& part) {
  const int64_t each = ((size + parts - 1) / parts + multiple - 1) / multiple * multiple;
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    // Below autograd and replicas' operators, on OpenMP's threads as on the replica's own.
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::impl::ExcludeDispatchKeyGuard plain(c10::DispatchKey::CustomRNGKeyId);
    const at::NoGradGuard no_grad;
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = std::min(i * each, size);
      const int64_t count = std::min(each, size - begin);
      if (count > 0) part(i, begin, count);
    }
  });
}

double product_work(const at::Tensor& a, const at::Tensor& b) {
  return static_cast<double>(a.numel()) * static_cast<double>(b.size(-1));
}

bool are_matrices(const at::Tensor& a, const at::Tensor& b) {
  return is_plain_float(a) && is_plain_float(b) && a.dim() == 2 && b.dim() == 2 &&
         a.size(1) == b.size(0) && a.scalar_type() == b.scalar_type();
}

constexpr int64_t kPanel = 64;

/// Calls part(rows or columns of a, b and of the result).
template <typename Part>
std::optional<at::Tensor> product_in_parts(const at::Tensor& a, const at::Tensor& b,
                                           const Part& part) {
  const bool by_columns = b.size(1) >= a.size(0);
  const int64_t size = by_columns ? b.size(1) : a.size(0);
  const int64_t parts = parts_of(product_work(a, b), kProductGrain, (size + kPanel - 1) / kPanel);
  if (parts < 2) return std::nullopt;
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options().requires_grad(false));
  for_parts(parts, size, kPanel, [&](int64_t, int64_t begin, int64_t count) {
    const auto cut = [&](const at::Tensor& whole) {
      return whole.narrow(by_columns ? 1 : 0, begin, count);
    };
    at::Tensor out = cut(result);
    part(by_columns ? a : cut(a), by_columns ? cut(b) : b, out, cut);
  });
  return result;
}

/// Of the forward pass; the gradients' are each as many. From shapes alone.
double convolution_work(const at::Tensor& input, const at::Tensor& weight,
                        const ConvolutionArguments& arguments) {
  double work = static_cast<double>(input.numel()) / static_cast<double>(input.size(1)) *
                static_cast<double>(weight.numel());
  if (arguments.transposed) return work;
  for (const c10::SymInt& stride : arguments.stride) {
    work /= static_cast<double>(stride.expect_int());
  }
  return work;
}

int64_t convolution_parts(const at::Tensor& input, const at::Tensor& weight,
                          const ConvolutionArguments& arguments) {
  if (!is_plain_float(input) || !is_plain_float(weight) || input.dim() != weight.dim() ||
      input.dim() < 3 || input.numel() == 0) {
    return 1;
  }
  return parts_of(convolution_work(input, weight, arguments), kConvolutionGrain, input.size(0));
}

}  // namespace

std::optional<at::Tensor> mm_in_parts(const at::Tensor& a, const at::Tensor& b) {
  if (!are_matrices(a, b)) return std::nullopt;
  return product_in_parts(
      a, b, [](const at::Tensor& x, const at::Tensor& y, at::Tensor& out, const auto&) {
        at::_ops::mm_out::call(x, y, out);
      });
}

std::optional<at::Tensor> addmm_in_parts(const at::Tensor& bias, const at::Tensor& a,
                                         const at::Tensor& b, const at::Scalar& beta,
                                         const at::Scalar& alpha) {
  if (!are_matrices(a, b) || !is_plain_float(bias) || bias.dim() > 2 ||
      bias.scalar_type() != a.scalar_type()) {
    return std::nullopt;
  }
  const at::Tensor added = bias.expand({a.size(0), b.size(1)});
  return product_in_parts(
      a, b, [&](const at::Tensor& x, const at::Tensor& y, at::Tensor& out, const auto& cut) {
        at::_ops::addmm_out::call(cut(added), x, y, beta, alpha, out);
      });
}

std::optional<at::Tensor> bmm_in_parts(const at::Tensor& a, const at::Tensor& b) {
  if (!is_plain_float(a) || !is_plain_float(b) || a.dim() != 3 || b.dim() != 3 ||
      a.size(0) != b.size(0) || a.size(2) != b.size(1) || a.scalar_type() != b.scalar_type()) {
    return std::nullopt;
  }
  const int64_t parts = parts_of(product_work(a, b), kProductGrain, a.size(0));
  if (parts < 2) return std::nullopt;
  at::Tensor result =
      at::empty({a.size(0), a.size(1), b.size(2)}, a.options().requires_grad(false));
  for_parts(parts, a.size(0), 1, [&](int64_t, int64_t begin, int64_t count) {
    at::Tensor out = result.narrow(0, begin, count);
    at::_ops::bmm_out::call(a.narrow(0, begin, count), b.narrow(0, begin, count), out);
  });
  return result;
}

std::optional<at::Tensor> convolution_in_parts(c10::DispatchKeySet keys, const at::Tensor& input,
                                               const at::Tensor& weight,
                                               const std::optional<at::Tensor>& bias,
                                               const ConvolutionArguments& arguments) {
  const int64_t parts = convolution_parts(input, weight, arguments);
  if (parts < 2) return std::nullopt;
  std::vector<at::Tensor> results(static_cast<size_t>(parts));
  for_parts(parts, input.size(0), 1, [&](int64_t i, int64_t begin, int64_t count) {
    results[static_cast<size_t>(i)] = at::_ops::convolution::redispatch(
        keys, input.narrow(0, begin, count), weight, bias, arguments.stride, arguments.padding,
        arguments.dilation, arguments.transposed, arguments.output_padding, arguments.groups);
  });
  std::erase_if(results, [](const at::Tensor& each) { return !each.defined(); });
  return at::cat(results);
}

std::optional<std::tuple<at::Tensor, at::Tensor, at::Tensor>> convolution_backward_in_parts(
    c10::DispatchKeySet keys, const at::Tensor& grad_output, const at::Tensor& input,
    const at::Tensor& weight, at::OptionalSymIntArrayRef bias_sizes,
    const ConvolutionArguments& arguments, std::array<bool, 3> output_mask) {
  const int64_t parts = convolution_parts(input, weight, arguments);
  if (parts < 2) return std::nullopt;
  std::vector<std::tuple<at::Tensor, at::Tensor, at::Tensor>> results(static_cast<size_t>(parts));
  for_parts(parts, input.size(0), 1, [&](int64_t i, int64_t begin, int64_t count) {
    results[static_cast<size_t>(i)] = at::_ops::convolution_backward::redispatch(
        keys, grad_output.narrow(0, begin, count), input.narrow(0, begin, count), weight,
        bias_sizes, arguments.stride, arguments.padding, arguments.dilation, arguments.transposed,
        arguments.output_padding, arguments.groups, output_mask);
  });
  std::tuple<at::Tensor, at::Tensor, at::Tensor> all;
  auto& [of_input, of_weight, of_bias] = all;
  std::vector<at::Tensor> of_inputs;
  for (const auto& [dx, dw, db] : results) {
    if (dx.defined()) of_inputs.push_back(dx);
    if (dw.defined()) of_weight = of_weight.defined() ? of_weight.add_(dw) : dw;
    if (db.defined()) of_bias = of_bias.defined() ? of_bias.add_(db) : db;
  }
  if (!of_inputs.empty()) of_input = at::cat(of_inputs);
  return all;
}

}  // namespace strata::kernels
