#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "keras/layers/image_layout.h"
#include "keras/layers/image_resize.h"
#include "keras/ops/arguments.h"
#include "keras/ops/interpolate.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

/// Images as `[batch, channels, height, width]`, and how they came.
struct Planes {
  at::Tensor x;
  bool single;
  std::string format;

  at::Tensor back(const at::Tensor& y) const {
    const at::Tensor result = layers::user_shape(y, format);
    return single ? result.squeeze(0) : result;
  }
};

Planes planes_in(C call, const char* name = "images", size_t i = 0) {
  const at::Tensor given = call.tensor(i, name);
  STRATA_CHECK(given.dim() == 3 || given.dim() == 4, kInvalidArgument,
               "[keras] image operation: got ", given.dim(),
               " dimensions; expected 3 (one image) or 4 (a batch)");
  const std::string format = call.text("data_format", layers::kChannelsLast);
  const bool single = given.dim() == 3;
  return {layers::planes_view(single ? given.unsqueeze(0) : given, format), single, format};
}

at::Tensor rgb_to_grayscale(C call) {
  const Planes images = planes_in(call);
  if (images.x.size(1) == 1) return call.tensor(0, "images");
  const at::Tensor x = floating(images.x);
  const at::Tensor weights =
      at::tensor({0.2989, 0.5870, 0.1140}, at::kDouble).to(x.options()).view({1, 3, 1, 1});
  return images.back((x * weights).sum(1, true).to(images.x.scalar_type()));
}

at::Tensor rgb_to_hsv(C call) {
  const Planes images = planes_in(call);
  const double epsilon = images.x.scalar_type() == at::kDouble
                             ? std::numeric_limits<double>::epsilon()
                             : std::numeric_limits<float>::epsilon();
  const at::Tensor x =
      at::where(images.x.abs() < epsilon, 0.0, images.x).to(images.x.scalar_type());
  const at::Tensor r = x.select(1, 0), g = x.select(1, 1), b = x.select(1, 2);
  const at::Tensor value = at::maximum(at::maximum(r, g), b);
  const at::Tensor range = value - at::minimum(at::minimum(r, g), b);
  const at::Tensor some = range > 0;
  const at::Tensor saturation =
      at::where(value > 0, range / at::where(value > 0, value, 1.0), 0.0).to(x.scalar_type());
  const at::Tensor norm = 1 / (6 * at::where(some, range, 1.0).to(x.scalar_type()));
  at::Tensor hue = at::where(value == g, norm * (b - r) + 2.0 / 6, norm * (r - g) + 4.0 / 6);
  hue = at::where(value == r, norm * (g - b), hue);
  hue = at::where(some, hue, 0.0).to(x.scalar_type()) + (hue < 0).to(x.scalar_type());
  return images.back(at::stack({hue, saturation, value}, 1));
}

at::Tensor hsv_to_rgb(C call) {
  const Planes images = planes_in(call);
  const at::Tensor hue = images.x.select(1, 0), saturation = images.x.select(1, 1);
  const at::Tensor value = images.x.select(1, 2);
  const at::Tensor dh = hue.remainder(1) * 6;
  const auto channel = [&](const at::Tensor& part) {
    return value * (1 - saturation + saturation * part.clamp(0, 1));
  };
  return images.back(at::stack(
      {channel((dh - 3).abs() - 1), channel(2 - (dh - 2).abs()), channel(2 - (dh - 4).abs())}, 1));
}

at::Tensor resize(C call) {
  const Planes images = planes_in(call);
  const at::Tensor given = images.x;
  const std::vector<int64_t> size = call.integers("size");
  STRATA_CHECK(size.size() == 2, kInvalidArgument, "[keras] Resize: got ", size.size(),
               " numbers as size; expected (height, width)");
  at::Tensor x = floating(given);
  const int64_t height = x.size(2), width = x.size(3);
  const auto scaled = [](int64_t by, int64_t to, int64_t over) {
    return static_cast<int64_t>(static_cast<double>(by * to) / static_cast<double>(over));
  };
  if (call.flag("crop_to_aspect_ratio")) {
    const int64_t h = std::max<int64_t>(std::min(height, scaled(width, size[0], size[1])), 1);
    const int64_t w = std::max<int64_t>(std::min(width, scaled(height, size[1], size[0])), 1);
    x = x.narrow(2, (height - h) / 2, h).narrow(3, (width - w) / 2, w);
  } else if (call.flag("pad_to_aspect_ratio")) {
    const int64_t down = (std::max(height, scaled(width, size[0], size[1])) - height) / 2;
    const int64_t right = (std::max(width, scaled(height, size[1], size[0])) - width) / 2;
    const double value = call.number("fill_value", 0);
    if (down > 0) {
      x = at::constant_pad_nd(x, {0, 0, down, down}, value);
    } else if (right > 0) {
      x = at::constant_pad_nd(x, {right, right, 0, 0}, value);
    }
  }
  const std::string interpolation = call.text("interpolation", "bilinear");
  layers::check_interpolation("Resize", layers::Interpolation(interpolation));
  x = layers::resize_images(x.contiguous(), size[0], size[1], interpolation,
                            call.flag("antialias"));
  if (!given.is_floating_point()) {
    x = x.round();
    if (given.scalar_type() == at::kByte) x = x.clamp(0, 255);
  }
  return images.back(x.to(given.scalar_type()));
}

/// Numbers that are an argument, as a tensor beside `x`.
at::Tensor numbers_argument(C call, size_t i, const char* name, const at::Tensor& x) {
  const Json& json = call.argument(i, name);
  if (!json.is_array()) return call.tensor(i, name).to(x.options());
  std::vector<double> values;
  from_config(json, values);
  return at::tensor(values, at::kDouble).to(x.options());
}

InterpolationRule rule_of(C call, const char* fill_mode) {
  const std::string interpolation = call.text("interpolation", "bilinear");
  STRATA_CHECK(interpolation == "nearest" || interpolation == "bilinear", kInvalidArgument,
               "[keras] image operation: got interpolation '", interpolation,
               "'; expected 'nearest' or 'bilinear'");
  return {.order = interpolation == "nearest" ? 0 : 1,
          .fill_mode = call.text("fill_mode", fill_mode),
          .fill_value = call.number("fill_value", 0)};
}

/// Rows and columns of all pixels, `[1, height * width]`.
std::pair<at::Tensor, at::Tensor> pixel_places(const at::Tensor& x, const at::TensorOptions& like) {
  const int64_t height = x.size(2), width = x.size(3);
  return {at::arange(height, like).view({1, height, 1}).expand({1, height, width}).flatten(1),
          at::arange(width, like).view({1, 1, width}).expand({1, height, width}).flatten(1)};
}

at::Tensor sampled(const Planes& images, const at::Tensor& y, const at::Tensor& x,
                   const InterpolationRule& rule) {
  const int64_t n = images.x.size(0);
  const at::Tensor found =
      interpolate(images.x, {y.expand({n, y.size(1)}), x.expand({n, x.size(1)})}, rule);
  return images.back(found.view(images.x.sizes()));
}

/// Pixel (x, y) is what is at (a0 x + a1 y + a2, b0 x + b1 y + b2).
at::Tensor affine_transform(C call) {
  const Planes images = planes_in(call);
  at::Tensor t = numbers_argument(call, 1, "transform", floating(images.x));
  if (t.dim() == 1) t = t.unsqueeze(0);
  const auto [row, column] = pixel_places(images.x, t.options());
  const auto entry = [&](int64_t i) { return t.select(1, i).unsqueeze(1); };
  return sampled(images, entry(3) * column + entry(4) * row + entry(5),
                 entry(0) * column + entry(1) * row + entry(2), rule_of(call, "constant"));
}

/// The eight numbers that take `end` points to `start` points.
at::Tensor homography(const at::Tensor& start, const at::Tensor& end) {
  const at::Tensor sx = start.select(-1, 0), sy = start.select(-1, 1);
  const at::Tensor ex = end.select(-1, 0), ey = end.select(-1, 1);
  const at::Tensor zero = at::zeros_like(ex), one = at::ones_like(ex);
  const at::Tensor rows =
      at::cat({at::stack({ex, ey, one, zero, zero, zero, -sx * ex, -sx * ey}, -1),
               at::stack({zero, zero, zero, ex, ey, one, -sy * ex, -sy * ey}, -1)},
              1);
  return at::linalg_solve(rows, at::cat({sx, sy}, -1).unsqueeze(-1)).squeeze(-1);
}

at::Tensor perspective_transform(C call) {
  const Planes images = planes_in(call);
  const auto points = [&](size_t i, const char* name) {
    const at::Tensor p = floating(call.tensor(i, name));
    return p.dim() == 2 ? p.unsqueeze(0) : p;
  };
  const at::Tensor t = homography(points(1, "start_points"), points(2, "end_points"));
  const auto [row, column] = pixel_places(images.x, t.options());
  const auto entry = [&](int64_t i) { return t.select(1, i).unsqueeze(1); };
  const at::Tensor below = entry(6) * column + entry(7) * row + 1;
  InterpolationRule rule = rule_of(call, "constant");
  return sampled(images, (entry(3) * column + entry(4) * row + entry(5)) / below,
                 (entry(0) * column + entry(1) * row + entry(2)) / below, rule);
}

at::Tensor map_coordinates(C call) {
  const at::Tensor x = call.tensor(0, "inputs");
  const at::Tensor at = call.argument(1, "coordinates").is_array()
                            ? at::stack(call.tensors(1, "coordinates"))
                            : call.tensor(1, "coordinates");
  Tensors coordinates;
  for (int64_t d = 0; d < at.size(0); ++d) {
    coordinates.push_back(floating(at.select(0, d)).flatten().unsqueeze(0));
  }
  return interpolate(x.unsqueeze(0).unsqueeze(0), coordinates,
                     {.order = call.integer("order", 1),
                      .fill_mode = call.text("fill_mode", "constant"),
                      .fill_value = call.number("fill_value", 0)})
      .view(at.sizes().slice(1));
}

at::Tensor gaussian(int64_t size, double sigma, const at::TensorOptions& like) {
  const at::Tensor x = (at::arange(size, like) - static_cast<double>(size - 1) / 2) / sigma;
  const at::Tensor bell = (-0.5 * x.square()).exp();
  return bell / bell.sum();
}

/// Each channel by itself, of the same size: zeros are outside.
at::Tensor filtered(const at::Tensor& x, const at::Tensor& kernel) {
  const int64_t channels = x.size(1), h = kernel.size(0), w = kernel.size(1);
  const at::Tensor padded =
      at::constant_pad_nd(x, {(w - 1) / 2, w - 1 - (w - 1) / 2, (h - 1) / 2, h - 1 - (h - 1) / 2});
  return at::conv2d(padded, kernel.expand({channels, 1, h, w}), {}, 1, at::IntArrayRef({0, 0}), 1,
                    channels);
}

at::Tensor blurred(const at::Tensor& x, std::array<int64_t, 2> size, std::array<double, 2> sigma) {
  const at::Tensor kernel = gaussian(size[1], sigma[1], x.options()).unsqueeze(1) *
                            gaussian(size[0], sigma[0], x.options()).unsqueeze(0);
  return filtered(x, kernel);
}

at::Tensor gaussian_blur(C call) {
  const Planes images = planes_in(call);
  std::vector<int64_t> size = call.integers("kernel_size");
  if (size.empty()) size = {3};
  size.resize(2, size[0]);
  std::vector<double> sigma = {1};
  if (const Json& json = call.option("sigma"); json.is_array()) {
    from_config(json, sigma);
  } else if (!json.is_null()) {
    sigma = {json.as_double()};
  }
  sigma.resize(2, sigma[0]);
  return images.back(blurred(images.x, {size[0], size[1]}, {sigma[0], sigma[1]}));
}

/// Draws from libtorch's generator, as random layers do.
at::Tensor elastic_transform(C call) {
  const Planes images = planes_in(call);
  const double alpha = call.number("alpha", 20), sigma = call.number("sigma", 5);
  const int64_t size = static_cast<int64_t>(6 * sigma) | 1;
  const auto moved = [&] {
    const at::Tensor noise =
        at::randn({images.x.size(0), 1, images.x.size(2), images.x.size(3)}, images.x.options());
    return (alpha * blurred(noise * sigma, {size, size}, {sigma, sigma})).flatten(1);
  };
  const auto [row, column] = pixel_places(images.x, images.x.options());
  const at::Tensor dx = moved(), dy = moved();
  return sampled(images, row + dy, column + dx, rule_of(call, "reflect"));
}

at::Tensor sobel_edges(C call) {
  const Planes images = planes_in(call);
  const at::Tensor across =
      at::tensor({-1.0, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0}, at::kDouble)
          .view({3, 3})
          .to(images.x.options());
  return at::stack(
      {images.back(filtered(images.x, across.t())), images.back(filtered(images.x, across))}, -1);
}

at::Tensor kernel_values(const at::Tensor& x, const std::string& method) {
  const at::Tensor at = x.abs();
  const auto sinc = [](const at::Tensor& t) { return t.sinc(); };
  if (method == "linear" || method == "bilinear" || method == "trilinear") {
    return (1 - at).clamp_min(0);
  }
  if (method == "cubic" || method == "bicubic" || method == "tricubic") {  // Keys's, a = -1/2
    const at::Tensor near = ((1.5 * at - 2.5) * at) * at + 1;
    const at::Tensor far = ((-0.5 * at + 2.5) * at - 4) * at + 2;
    return at::where(at >= 2, 0.0, at::where(at >= 1, far, near)).to(x.scalar_type());
  }
  STRATA_CHECK(method == "lanczos3" || method == "lanczos5", kInvalidArgument,
               "[keras] ScaleAndTranslate: got method '", method,
               "'; expected 'linear', 'cubic', 'lanczos3' or 'lanczos5'");
  const double radius = method == "lanczos3" ? 3 : 5;
  return at::where(at >= radius, 0.0, sinc(at) * sinc(at / radius)).to(x.scalar_type());
}

at::Tensor scale_and_translate(C call) {
  at::Tensor x = call.tensor(0, "images");
  const std::vector<int64_t> shape = integers_in(call.argument(1, "output_shape"));
  const at::Tensor scale = numbers_argument(call, 2, "scale", x);
  const at::Tensor translation = numbers_argument(call, 3, "translation", x);
  const std::vector<int64_t> dims = call.integers("spatial_dims");
  const std::string method = call.text("method", "linear");
  const bool antialias = call.option("antialias").is_null() || call.flag("antialias");
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t d = positive_axis(dims[i], x.dim()), size = x.size(d);
    const at::Tensor inverse = 1 / scale.select(0, static_cast<int64_t>(i));
    const at::Tensor at = (at::arange(shape[static_cast<size_t>(d)], x.options()) + 0.5) * inverse -
                          translation.select(0, static_cast<int64_t>(i)) * inverse - 0.5;
    at::Tensor apart = at.unsqueeze(0) - at::arange(size, x.options()).unsqueeze(1);
    if (antialias) apart = apart / inverse.clamp_min(1);
    at::Tensor weights = kernel_values(apart, method);
    const at::Tensor total = weights.sum(0, true);
    const at::Tensor some = total.abs() > 1000 * std::numeric_limits<float>::epsilon();
    weights = at::where(some, weights / at::where(some, total, 1.0), 0.0);
    weights =
        at::where((at >= -0.5).logical_and(at <= static_cast<double>(size) - 0.5), weights, 0.0);
    x = x.movedim(d, -1).matmul(weights.to(x.scalar_type())).movedim(-1, d);
  }
  return x;
}

at::Tensor ssim(C call) {
  const Planes one = planes_in(call, "image1", 0), other = planes_in(call, "image2", 1);
  const at::Tensor given = one.x;
  const at::Tensor a = floating(given).flatten(0, 1).unsqueeze(1);
  const at::Tensor b = floating(other.x).flatten(0, 1).unsqueeze(1);
  const at::Tensor bell =
      gaussian(call.integer("filter_size", 11), call.number("filter_sigma", 1.5), a.options());
  const at::Tensor kernel = (bell.unsqueeze(1) * bell.unsqueeze(0)).unsqueeze(0).unsqueeze(0);
  const auto mean = [&](const at::Tensor& x) { return at::conv2d(x, kernel); };
  const double range = call.number("max_val", 1);
  const double c1 = std::pow(call.number("k1", 0.01) * range, 2);
  const double c2 = std::pow(call.number("k2", 0.03) * range, 2);
  const at::Tensor ma = mean(a), mb = mean(b);
  const at::Tensor va = mean(a * a) - ma * ma, vb = mean(b * b) - mb * mb;
  const at::Tensor both = mean(a * b) - ma * mb;
  const at::Tensor map =
      (2 * ma * mb + c1) * (2 * both + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
  const at::Tensor y =
      map.mean(at::IntArrayRef({1, 2, 3})).view({given.size(0), given.size(1)}).mean(-1);
  return (one.single ? y.squeeze(0) : y).to(given.scalar_type());
}

std::optional<int64_t> number_option(C call, const char* name) {
  const Json& json = call.option(name);
  return json.is_null() ? std::nullopt : std::optional(json.as_int());
}

/// Of three numbers of which one may be missing: what is before, the rest's size, what is behind.
struct Span {
  int64_t before, size;
};
Span span_of(const char* what, std::optional<int64_t> before, std::optional<int64_t> size,
             std::optional<int64_t> after, int64_t all) {
  if (!before) before = all - size.value_or(0) - after.value_or(0);
  if (!size) size = all - *before - after.value_or(0);
  STRATA_CHECK(*before >= 0 && *size >= 0 && *before + *size <= all, kInvalidArgument, "[keras] ",
               what, ": got a part of ", *size, " from ", *before, " on, of ", all,
               "; expected it to be inside");
  return {*before, *size};
}

at::Tensor crop_images(C call) {
  const Planes images = planes_in(call);
  const Span rows = span_of("CropImages", number_option(call, "top_cropping"),
                            number_option(call, "target_height"),
                            number_option(call, "bottom_cropping"), images.x.size(2));
  const Span columns = span_of("CropImages", number_option(call, "left_cropping"),
                               number_option(call, "target_width"),
                               number_option(call, "right_cropping"), images.x.size(3));
  return images.back(
      images.x.narrow(2, rows.before, rows.size).narrow(3, columns.before, columns.size));
}

at::Tensor pad_images(C call) {
  const Planes images = planes_in(call);
  const auto edges = [&](const char* before, const char* after, const char* target, int64_t size) {
    const auto first = number_option(call, before), last = number_option(call, after);
    const int64_t all =
        number_option(call, target).value_or(size + first.value_or(0) + last.value_or(0));
    const Span inner = span_of("PadImages", first, size, last, all);
    return std::pair(inner.before, all - inner.before - size);
  };
  const auto [top, bottom] =
      edges("top_padding", "bottom_padding", "target_height", images.x.size(2));
  const auto [left, right] =
      edges("left_padding", "right_padding", "target_width", images.x.size(3));
  return images.back(at::constant_pad_nd(images.x, {left, right, top, bottom}));
}

const OperationRow kImageRows[] = {
    one("image", "RGBToGrayscale", rgb_to_grayscale, "data_format"),
    one("image", "RGBToHSV", rgb_to_hsv, "data_format"),
    one("image", "HSVToRGB", hsv_to_rgb, "data_format"),
    one("image", "Resize", resize,
        "size interpolation antialias crop_to_aspect_ratio pad_to_aspect_ratio fill_mode "
        "fill_value data_format"),
    one("image", "AffineTransform", affine_transform,
        "interpolation fill_mode fill_value data_format"),
    one("image", "PerspectiveTransform", perspective_transform,
        "interpolation fill_value data_format"),
    one("image", "MapCoordinates", map_coordinates, "order fill_mode fill_value"),
    one("image", "GaussianBlur", gaussian_blur, "kernel_size sigma data_format"),
    one("image", "ElasticTransform", elastic_transform,
        "alpha sigma interpolation fill_mode fill_value seed data_format"),
    one("image", "SobelEdges", sobel_edges, "data_format"),
    one("image", "ScaleAndTranslate", scale_and_translate, "spatial_dims method antialias"),
    one("image", "SSIM", ssim, "max_val filter_size filter_sigma k1 k2 data_format"),
    one("image", "CropImages", crop_images,
        "top_cropping left_cropping bottom_cropping right_cropping target_height target_width "
        "data_format"),
    one("image", "PadImages", pad_images,
        "top_padding left_padding bottom_padding right_padding target_height target_width "
        "data_format"),
};

}  // namespace

std::span<const OperationRow> image_operations() { return kImageRows; }

}  // namespace strata::keras::detail
