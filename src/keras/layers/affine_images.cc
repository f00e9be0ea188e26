#include "keras/layers/affine_images.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

namespace strata::layers {
namespace {

/// Where a coordinate outside of 0 to size - 1 is found, by the rule of TensorFlow's kernel.
at::Tensor inside(const at::Tensor& at, int64_t size, const std::string& fill_mode) {
  if (fill_mode == "constant") return at;
  const auto last = static_cast<double>(size - 1), n = static_cast<double>(size);
  if (size == 1) return at::zeros_like(at);
  at::Tensor moved = at;
  if (fill_mode == "reflect") {  // [dcba|abcd|dcba]
    const at::Tensor below = at + 2 * n * (-at / (2 * n)).trunc();
    const at::Tensor low = at::where(below < -n, below + 2 * n, -below - 1);
    const at::Tensor above = at - 2 * n * (at / (2 * n)).trunc();
    const at::Tensor high = at::where(above >= n, 2 * n - above - 1, above);
    moved = at::where(at < 0, low, at::where(at > last, high, at));
  } else if (fill_mode == "wrap") {  // [abcd|abcd|abcd]
    const at::Tensor low = at + n * ((-at / last).trunc() + 1);
    const at::Tensor high = at - n * (at / last).trunc();
    moved = at::where(at < 0, low, at::where(at > last, high, at));
  }
  return moved.clamp(0, last);
}

/// The pixels of whole-numbered rows `y` and columns `x`, `[batch, height, width]`.
at::Tensor pixels(const at::Tensor& images, const at::Tensor& y, const at::Tensor& x,
                  double fill_value) {
  const int64_t height = images.size(2), width = images.size(3);
  const at::Tensor there =
      (y >= 0).logical_and(y < height).logical_and(x >= 0).logical_and(x < width);
  const at::Tensor index = (y.clamp(0, height - 1) * width + x.clamp(0, width - 1))
                               .to(at::kLong)
                               .flatten(1)
                               .unsqueeze(1);
  const at::Tensor found =
      images.flatten(2)
          .gather(2, index.expand({images.size(0), images.size(1), height * width}))
          .view(images.sizes());
  return at::where(there.unsqueeze(1), found, fill_value);
}

}  // namespace

at::Tensor transform_affine(const at::Tensor& images, const at::Tensor& matrix,
                            const AffineRule& rule) {
  const int64_t height = images.size(2), width = images.size(3);
  if (images.numel() == 0) return images;
  const at::Tensor columns = at::arange(width, matrix.options()).view({1, 1, width});
  const at::Tensor rows = at::arange(height, matrix.options()).view({1, height, 1});
  const auto entry = [&](int64_t i) { return matrix.select(1, i).view({-1, 1, 1}); };
  const at::Tensor x =
      inside(entry(0) * columns + entry(1) * rows + entry(2), width, rule.fill_mode);
  const at::Tensor y =
      inside(entry(3) * columns + entry(4) * rows + entry(5), height, rule.fill_mode);
  if (rule.interpolation == "nearest") {
    // Halves go away from zero, which at::round does not.
    const auto rounded = [](const at::Tensor& t) {
      return at::where(t < 0, (t - 0.5).ceil(), (t + 0.5).floor());
    };
    return pixels(images, rounded(y), rounded(x), rule.fill_value);
  }
  const at::Tensor left = x.floor(), top = y.floor();
  const at::Tensor to_right = (x - left).to(images.scalar_type()).unsqueeze(1);
  const at::Tensor down = (y - top).to(images.scalar_type()).unsqueeze(1);
  const auto row = [&](const at::Tensor& at) {
    return pixels(images, at, left, rule.fill_value) * (1 - to_right) +
           pixels(images, at, left + 1, rule.fill_value) * to_right;
  };
  return row(top) * (1 - down) + row(top + 1) * down;
}

}  // namespace strata::layers
