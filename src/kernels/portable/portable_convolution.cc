// Convolutions with the same bits on all processors, as products of matrices (im2col): those that
// kReplicaKey's kernels leave to libtorch.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/col2im.h>
#include <ATen/ops/im2col.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/portable/register_portable.h"
#include "kernels/products.h"

namespace strata::kernels::portable {
namespace {

using at::Tensor;

/// Of two dimensions; a convolution of one has a first of size 1.
struct Window {
  std::array<int64_t, 2> kernel;
  std::array<int64_t, 2> stride;
  std::array<int64_t, 2> padding;
  std::array<int64_t, 2> dilation;
};

std::array<int64_t, 2> both(c10::SymIntArrayRef values, bool one_dimension, int64_t neutral) {
  const int64_t last = values.back().expect_int();
  if (one_dimension) return {neutral, last};
  return {values.front().expect_int(), last};
}

/// A convolution's arguments as matrices.
class ConvolutionAsProducts {
 public:
  ConvolutionAsProducts(const Tensor& weight, c10::SymIntArrayRef stride,
                        c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                        const c10::SymInt& groups)
      : one_dimension_(weight.dim() == 3),
        transposed_(transposed),
        groups_(groups.expect_int()),
        weight_(images(weight)),
        window_{.kernel = {weight_.size(2), weight_.size(3)},
                .stride = both(stride, one_dimension_, 1),
                .padding = both(padding, one_dimension_, 0),
                .dilation = both(dilation, one_dimension_, 1)} {}

  Tensor forward(const Tensor& x, at::IntArrayRef out_size) const {
    return planes(transposed_ ? spread(images(x), out_size) : gathered(images(x), out_size));
  }
  Tensor input_gradient(const Tensor& dy, const Tensor& x) const {
    const Tensor of = images(x);
    const at::IntArrayRef size = of.sizes().slice(2);
    return planes(transposed_ ? gathered(images(dy), size) : spread(images(dy), size));
  }
  Tensor weights_gradient(const Tensor& given_dy, const Tensor& given_x) const {
    // The side that the window slides over, and the other.
    const Tensor wide = images(transposed_ ? given_dy : given_x);
    const Tensor narrow = images(transposed_ ? given_x : given_dy);
    std::vector<Tensor> parts;
    for (int64_t g = 0; g < groups_; ++g) {
      const Tensor columns = columns_of(group(wide, 1, g));  // [n, c kh kw, l]
      const Tensor rows = group(narrow, 1, g).flatten(2);    // [n, o, l]
      // One sum over images and places.
      parts.push_back(
          at::mm(rows.transpose(0, 1).flatten(1), columns.transpose(1, 2).flatten(0, 1)));
    }
    const Tensor gradient = parts.size() == 1 ? parts[0] : at::cat(parts);
    return planes(gradient.view(weight_.sizes()));
  }
  Tensor planes(const Tensor& x) const { return one_dimension_ ? x.squeeze(2) : x; }

 private:
  Tensor images(const Tensor& x) const { return one_dimension_ ? x.unsqueeze(2) : x; }
  Tensor group(const Tensor& x, int64_t dim, int64_t g) const {
    const int64_t size = x.size(dim) / groups_;
    return x.narrow(dim, g * size, size);
  }
  Tensor columns_of(const Tensor& x) const {
    return at::im2col(x, window_.kernel, window_.dilation, window_.padding, window_.stride);
  }
  /// [out or, transposed, in channels; the rest] of a group.
  Tensor kernel_matrix(int64_t g) const { return group(weight_, 0, g).flatten(1); }

  /// Each output is a sum over a window.
  Tensor gathered(const Tensor& x, at::IntArrayRef out_size) const {
    std::vector<Tensor> parts;
    for (int64_t g = 0; g < groups_; ++g) {
      const Tensor columns = columns_of(group(x, 1, g));
      const Tensor kernel = kernel_matrix(g);
      parts.push_back(at::bmm(kernel.expand({x.size(0), kernel.size(0), kernel.size(1)}), columns));
    }
    const Tensor y = parts.size() == 1 ? parts[0] : at::cat(parts, 1);
    return y.view({x.size(0), y.size(1), out_size[0], out_size[1]});
  }
  /// Each input is added to a window of outputs.
  Tensor spread(const Tensor& x, at::IntArrayRef out_size) const {
    std::vector<Tensor> parts;
    for (int64_t g = 0; g < groups_; ++g) {
      const Tensor kernel = kernel_matrix(g).t();
      const Tensor rows = group(x, 1, g).flatten(2);
      const Tensor columns =
          at::bmm(kernel.expand({x.size(0), kernel.size(0), kernel.size(1)}), rows);
      parts.push_back(at::col2im(columns, out_size, window_.kernel, window_.dilation,
                                 window_.padding, window_.stride));
    }
    return parts.size() == 1 ? parts[0] : at::cat(parts, 1);
  }

  bool one_dimension_;
  bool transposed_;
  int64_t groups_;
  Tensor weight_;
  Window window_;
};

void require_planes(const Tensor& input, const Tensor& weight, std::string_view name) {
  const bool batched = input.dim() == weight.dim() && (weight.dim() == 3 || weight.dim() == 4);
  if (!batched || !is_cpu_float(input) || !is_cpu_float(weight) || input.numel() == 0) {
    refuse_operator(name);
  }
}

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                   c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                   c10::SymIntArrayRef dilation, bool transposed,
                   c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  require_planes(input, weight, "aten::convolution");
  const bool one = weight.dim() == 3;
  const auto s = both(stride, one, 1), p = both(padding, one, 0), d = both(dilation, one, 1);
  const auto more = both(output_padding, one, 0);
  std::array<int64_t, 2> size{};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t dim = static_cast<int64_t>(i) + (one ? 1 : 2);
    const bool missing = one && i == 0;
    const int64_t in = missing ? 1 : input.size(dim);
    const int64_t reach = (missing ? 0 : weight.size(dim) - 1) * d[i] + 1;
    size[i] = transposed ? (in - 1) * s[i] - 2 * p[i] + reach + more[i]
                         : (in + 2 * p[i] - reach) / s[i] + 1;
  }
  const ConvolutionAsProducts products(weight, stride, padding, dilation, transposed, groups);
  Tensor y = products.forward(input, size);
  if (bias.has_value() && bias->defined()) {
    y = y + (one ? bias->view({-1, 1}) : bias->view({-1, 1, 1}));
  }
  return y;
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& dy, const Tensor& input, const Tensor& weight, at::OptionalSymIntArrayRef,
    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
    bool transposed, c10::SymIntArrayRef, c10::SymInt groups, std::array<bool, 3> output_mask) {
  require_planes(input, weight, "aten::convolution_backward");
  const ConvolutionAsProducts products(weight, stride, padding, dilation, transposed, groups);
  std::tuple<Tensor, Tensor, Tensor> gradients;
  if (output_mask[0]) std::get<0>(gradients) = products.input_gradient(dy, input);
  if (output_mask[1]) std::get<1>(gradients) = products.weights_gradient(dy, input);
  if (output_mask[2]) {
    std::get<2>(gradients) = dy.dim() == 3 ? dy.sum({0, 2}) : dy.sum({0, 2, 3});
  }
  return gradients;
}

}  // namespace

void register_convolution(torch::Library& library) {
  library.impl("convolution", TORCH_FN(convolution));
  library.impl("convolution_backward", TORCH_FN(convolution_backward));
}

}  // namespace strata::kernels::portable
