#include "strata/data/image_ops.h"

#include <ATen/ops/flip.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/var_mean.h>

#include <algorithm>
#include <cmath>

#include "data/images/image_check.h"

namespace strata::data {

at::Tensor crop(const at::Tensor& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  const detail::ImageSizes sizes = detail::check_image("crop", image);
  STRATA_CHECK(top >= 0 && left >= 0 && height > 0 && width > 0 && top <= sizes.height - height &&
                   left <= sizes.width - width,
               kInvalidArgument, "[data] crop: got ", height, " x ", width, " at (", top, ", ",
               left, ") of an image of ", sizes.height, " x ", sizes.width,
               "; expected a window inside of it");
  return image.narrow(-3, top, height).narrow(-2, left, width);
}

at::Tensor central_crop(const at::Tensor& image, double fraction) {
  const detail::ImageSizes sizes = detail::check_image("central_crop", image);
  STRATA_CHECK(fraction > 0 && fraction <= 1, kInvalidArgument,
               "[data] central_crop: got fraction ", fraction, "; expected more than 0, at most 1");
  const auto margin = [&](int64_t size) {
    const auto side = static_cast<double>(size);
    return static_cast<int64_t>((side - side * fraction) / 2);
  };
  const int64_t top = margin(sizes.height), left = margin(sizes.width);
  return crop(image, top, left, sizes.height - 2 * top, sizes.width - 2 * left);
}

at::Tensor flip_left_right(const at::Tensor& image) {
  detail::check_image("flip_left_right", image);
  return at::flip(image, {-2});
}

at::Tensor pad(const at::Tensor& image, int64_t top, int64_t left, int64_t bottom, int64_t right,
               double value) {
  const detail::ImageSizes sizes = detail::check_image("pad", image);
  STRATA_CHECK(top >= 0 && left >= 0 && bottom >= 0 && right >= 0, kInvalidArgument,
               "[data] pad: got ", top, ", ", left, ", ", bottom, ", ", right,
               "; expected 0 or more rows and columns on each side");
  std::vector<int64_t> padded = image.sizes().vec();
  padded[padded.size() - 3] += top + bottom;
  padded[padded.size() - 2] += left + right;
  at::Tensor out = at::full(padded, value, image.options());
  out.narrow(-3, top, sizes.height).narrow(-2, left, sizes.width).copy_(image);
  return out;
}

at::Tensor normalize(const at::Tensor& image, const std::vector<double>& mean,
                     const std::vector<double>& deviation) {
  const detail::ImageSizes sizes = detail::check_image("normalize", image);
  const auto fits = [&](const std::vector<double>& list) {
    return list.size() == 1 || static_cast<int64_t>(list.size()) == sizes.channels;
  };
  STRATA_CHECK(fits(mean) && fits(deviation), kInvalidArgument, "[data] normalize: got ",
               mean.size(), " means and ", deviation.size(), " deviations; expected 1 or ",
               sizes.channels, " of each, for the channels");
  for (const double d : deviation)
    STRATA_CHECK(d > 0, kInvalidArgument, "[data] normalize: got deviation ", d,
                 "; expected more than 0");
  const auto options = at::TensorOptions().dtype(at::kFloat);
  return image.to(at::kFloat).sub(at::tensor(mean, options)).div_(at::tensor(deviation, options));
}

at::Tensor per_image_standardization(const at::Tensor& image) {
  const detail::ImageSizes sizes = detail::check_image("per_image_standardization", image);
  const at::Tensor floats = image.to(at::kFloat);
  const auto [variance, mean] = at::var_mean(floats, at::IntArrayRef({-3, -2, -1}),
                                             /*correction=*/at::Scalar(0), /*keepdim=*/true);
  const double least =
      1 / std::sqrt(static_cast<double>(sizes.height * sizes.width * sizes.channels));
  return floats.sub(mean).div_(variance.sqrt().clamp_min(least));
}

int64_t detail::place_of(double number, int64_t places) {
  return std::clamp<int64_t>(static_cast<int64_t>(number * static_cast<double>(places)), 0,
                             places - 1);
}

void detail::check_random_crop(const at::Tensor& image, int64_t height, int64_t width) {
  const ImageSizes sizes = check_image("random_crop", image);
  STRATA_CHECK(image.dim() == 3, kInvalidArgument, "[data] random_crop: got shape ", image.sizes(),
               "; expected one image, [height, width, channels]");
  STRATA_CHECK(height > 0 && width > 0 && height <= sizes.height && width <= sizes.width,
               kInvalidArgument, "[data] random_crop: got ", height, " x ", width,
               " of an image of ", sizes.height, " x ", sizes.width,
               "; expected a window that fits; resize or pad the image first");
}

}  // namespace strata::data
