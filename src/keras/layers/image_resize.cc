#include "keras/layers/image_resize.h"

#include <ATen/ops/_upsample_nearest_exact2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/upsample_bilinear2d.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "strata/core/error.h"

namespace strata::layers {
namespace {

double sinc(double x) {
  return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

double lanczos(double x, double radius) {
  return std::abs(x) >= radius ? 0 : sinc(x) * sinc(x / radius);
}

/// Keys's, with a = -1/2.
double cubic(double x) {
  x = std::abs(x);
  if (x >= 2) return 0;
  if (x >= 1) return ((-0.5 * x + 2.5) * x - 4) * x + 2;
  return ((1.5 * x - 2.5) * x) * x + 1;
}

struct Kernel {
  double radius;
  double (*value)(double);
};

Kernel kernel_of(const std::string& name) {
  if (name == "bilinear") return {1, [](double x) { return std::max(0.0, 1 - std::abs(x)); }};
  if (name == "bicubic") return {2, cubic};
  if (name == "lanczos3") return {3, [](double x) { return lanczos(x, 3); }};
  return {5, [](double x) { return lanczos(x, 5); }};
}

/// `[to, from]`: how much of each old pixel is in a new one. As TensorFlow's ScaleAndTranslate.
at::Tensor weights(int64_t from, int64_t to, const Kernel& kernel, bool antialias) {
  const at::Tensor matrix = at::empty({to, from}, at::kDouble);  // which a trace lets be filled
  auto* values = matrix.mutable_data_ptr<double>();
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = antialias ? std::max(step, 1.0) : 1.0;
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step;
    double sum = 0;
    for (int64_t j = 0; j < from; ++j) {
      const double weight = kernel.value((static_cast<double>(j) + 0.5 - centre) / stretch);
      values[i * from + j] = weight;
      sum += weight;
    }
    for (int64_t j = 0; j < from && sum != 0; ++j) values[i * from + j] /= sum;
  }
  return matrix;
}

}  // namespace

void check_interpolation(std::string_view class_name, const Interpolation& interpolation) {
  interpolation.check(str_cat("[layers] ", class_name));
}

void check_nearest_or_bilinear(std::string_view class_name, const Interpolation& interpolation) {
  STRATA_CHECK(
      interpolation == Interpolation::kNearest || interpolation == Interpolation::kBilinear,
      kInvalidArgument, "[layers] ", class_name, ": got interpolation='", interpolation,
      "'; expected 'nearest' or 'bilinear'");
}

at::Tensor resize_images(const at::Tensor& x, int64_t height, int64_t width,
                         const std::string& interpolation, bool antialias) {
  if (x.size(2) == height && x.size(3) == width) return x;
  const std::array<int64_t, 2> size = {height, width};
  const bool smaller = height < x.size(2) || width < x.size(3);
  if (x.numel() > 0) {
    if (interpolation == "nearest") return at::_upsample_nearest_exact2d(x, size);
    if (interpolation == "bilinear" && !(antialias && smaller)) {
      return at::upsample_bilinear2d(x, size, false);
    }
  }
  const Kernel kernel = kernel_of(interpolation);
  const at::Tensor rows = weights(x.size(2), height, kernel, antialias).to(x.options());
  const at::Tensor columns = weights(x.size(3), width, kernel, antialias).to(x.options());
  return at::matmul(rows, at::matmul(x, columns.t()));
}

}  // namespace strata::layers
