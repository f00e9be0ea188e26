// Images of other sizes. Each new element is a sum of old ones with weights that are products of one for each
// dimension; so resizing is a product with a matrix for each, and the gradient one with its transpose.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_upsample_nearest_exact1d.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/upsample_linear1d.h>
#include <ATen/ops/upsample_nearest1d.h>

#include <optional>
#include <vector>

#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

enum class Method { kNearest, kNearestExact, kLinear, kCubic };

/// `[out, in]`: libtorch's operator for one dimension, of each element alone.
at::Tensor weights(Method method, int64_t in, int64_t out, bool align_corners,
                   std::optional<double> scale) {
  const at::Tensor each = at::eye(in, at::kDouble);
  const at::Tensor images = each.unsqueeze(0);  // a channel for each
  switch (method) {
    case Method::kNearest:
      return at::upsample_nearest1d(images, {out}, scale)[0].t();
    case Method::kNearestExact:
      return at::_upsample_nearest_exact1d(images, {out}, scale)[0].t();
    case Method::kLinear:
      return at::upsample_linear1d(images, {out}, align_corners, scale)[0].t();
    case Method::kCubic:
      return at::upsample_bicubic2d(images.unsqueeze(-1), {out, 1}, align_corners, scale, {})[0]
          .squeeze(-1)
          .t();
  }
  return {};
}

/// @param first  The argument behind the sizes: `align_corners`, if the method has it, then a factor for each
///   dimension.
std::vector<at::Tensor> matrices(const NodeLowering& node, Method method, size_t first,
                                 const Sizes& in, const Sizes& out) {
  const bool aligns = method == Method::kLinear || method == Method::kCubic;
  const bool align_corners = aligns && node.flag(first);
  const size_t scales = first + (aligns ? 1 : 0);
  std::vector<at::Tensor> all;
  for (size_t d = 0; d < in.size(); ++d) {
    std::optional<double> scale;
    if (!node.is_none(scales + d)) scale = node.number(scales + d);
    all.push_back(weights(method, in[d], out[d], align_corners, scale));
  }
  return all;
}

Sizes last(const Sizes& sizes) { return {sizes.begin() + 2, sizes.end()}; }

Array as_images(const Array& x) {
  Sizes sizes = last(x.sizes);
  sizes.insert(sizes.begin(), x.size(0) * x.size(1));
  return reshape(x, sizes);
}

/// (x, sizes, ...)
template <Method method>
void resize(NodeLowering& node) {
  const Array x = node.in(0);
  const auto by = matrices(node, method, 2, last(x.sizes), last(node.sizes()));
  node.give(reshape(mapped(as_images(x), by), node.sizes()));
}

/// (gradient, sizes, input_sizes, ...)
template <Method method>
void resize_backward(NodeLowering& node) {
  const Array gradient = node.in(0);
  auto by = matrices(node, method, 3, last(node.sizes()), last(gradient.sizes));
  for (at::Tensor& each : by) each = each.t();
  node.give(reshape(mapped(as_images(gradient), by), node.sizes()));
}

}  // namespace

const Rules& resizing_rules() {
  static const Rules rules = {
      {"aten::_upsample_nearest_exact1d", {resize<Method::kNearestExact>}},
      {"aten::_upsample_nearest_exact1d_backward", {resize_backward<Method::kNearestExact>}},
      {"aten::_upsample_nearest_exact2d", {resize<Method::kNearestExact>}},
      {"aten::_upsample_nearest_exact2d_backward", {resize_backward<Method::kNearestExact>}},
      {"aten::_upsample_nearest_exact3d", {resize<Method::kNearestExact>}},
      {"aten::_upsample_nearest_exact3d_backward", {resize_backward<Method::kNearestExact>}},
      {"aten::upsample_bicubic2d", {resize<Method::kCubic>}},
      {"aten::upsample_bicubic2d_backward", {resize_backward<Method::kCubic>}},
      {"aten::upsample_bilinear2d", {resize<Method::kLinear>}},
      {"aten::upsample_bilinear2d_backward", {resize_backward<Method::kLinear>}},
      {"aten::upsample_linear1d", {resize<Method::kLinear>}},
      {"aten::upsample_linear1d_backward", {resize_backward<Method::kLinear>}},
      {"aten::upsample_nearest1d", {resize<Method::kNearest>}},
      {"aten::upsample_nearest1d_backward", {resize_backward<Method::kNearest>}},
      {"aten::upsample_nearest2d", {resize<Method::kNearest>}},
      {"aten::upsample_nearest2d_backward", {resize_backward<Method::kNearest>}},
      {"aten::upsample_nearest3d", {resize<Method::kNearest>}},
      {"aten::upsample_nearest3d_backward", {resize_backward<Method::kNearest>}},
      {"aten::upsample_trilinear3d", {resize<Method::kLinear>}},
      {"aten::upsample_trilinear3d_backward", {resize_backward<Method::kLinear>}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
