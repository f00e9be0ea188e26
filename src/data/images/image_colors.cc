#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>

#include "data/images/image_check.h"
#include "strata/data/image_distortion.h"

namespace strata::data {
namespace {

struct Hsv {
  float hue, saturation, value;
};

Hsv to_hsv(const float* rgb) {
  const float r = rgb[0], g = rgb[1], b = rgb[2];
  const float largest = std::max({r, g, b});
  const float range = largest - std::min({r, g, b});
  Hsv hsv{.hue = 0, .saturation = largest > 0 ? range / largest : 0, .value = largest};
  if (range <= 0) return hsv;
  const float sixth = 1 / (6 * range);
  if (r == largest) {
    hsv.hue = sixth * (g - b);
  } else if (g == largest) {
    hsv.hue = sixth * (b - r) + 2.0F / 6;
  } else {
    hsv.hue = sixth * (r - g) + 4.0F / 6;
  }
  if (hsv.hue < 0) hsv.hue += 1;
  return hsv;
}

void to_rgb(const Hsv& hsv, float* rgb) {
  const float chroma = hsv.saturation * hsv.value;
  const float least = hsv.value - chroma;
  const float place = hsv.hue * 6;
  const float in_pair = place - 2 * std::floor(place / 2);
  const float between = chroma * (1 - std::abs(in_pair - 1));
  const float none = 0;
  const float* order[3] = {&none, &none, &none};
  switch (static_cast<int>(place)) {
    case 0:
    case 6:
      order[0] = &chroma, order[1] = &between;
      break;
    case 1:
      order[0] = &between, order[1] = &chroma;
      break;
    case 2:
      order[1] = &chroma, order[2] = &between;
      break;
    case 3:
      order[1] = &between, order[2] = &chroma;
      break;
    case 4:
      order[0] = &between, order[2] = &chroma;
      break;
    default:
      order[0] = &chroma, order[2] = &between;
  }
  for (int c = 0; c < 3; ++c) rgb[c] = *order[c] + least;
}

at::Tensor as_floats(const char* call, const at::Tensor& image) {
  detail::check_image(call, image);
  return image.scalar_type() == at::kByte ? image.to(at::kFloat).div_(255) : image;
}

/// In the image's dtype. As tf.image.convert_image_dtype with `saturate`.
at::Tensor like(const at::Tensor& image, const at::Tensor& floats) {
  if (image.scalar_type() != at::kByte) return floats;
  return (floats * 255.5).clamp_(0, 255).to(at::kByte);
}

/// Each pixel, in HSV.
template <typename Change>
at::Tensor changed(const char* call, const at::Tensor& image, const Change& change) {
  const detail::ImageSizes sizes = detail::check_image(call, image);
  STRATA_CHECK(sizes.channels == 3, kInvalidArgument, "[data] ", call, ": got ", sizes.channels,
               " channels; expected 3, red, green and blue");
  const at::Tensor from = as_floats(call, image).contiguous();
  const at::Tensor to = at::empty_like(from);
  const auto* read = static_cast<const float*>(from.const_data_ptr());
  auto* write = static_cast<float*>(to.mutable_data_ptr());
  for (const float* const end = read + from.numel(); read != end; read += 3, write += 3) {
    Hsv hsv = to_hsv(read);
    change(hsv);
    to_rgb(hsv, write);
  }
  return like(image, to);
}

}  // namespace

at::Tensor adjust_brightness(const at::Tensor& image, double delta) {
  return like(image, as_floats("adjust_brightness", image) + delta);
}

at::Tensor adjust_contrast(const at::Tensor& image, double factor) {
  const at::Tensor floats = as_floats("adjust_contrast", image);
  const at::Tensor mean = floats.mean(at::IntArrayRef({-3, -2}), /*keepdim=*/true);
  return like(image, (floats - mean) * factor + mean);
}

at::Tensor adjust_saturation(const at::Tensor& image, double factor) {
  STRATA_CHECK(factor >= 0, kInvalidArgument, "[data] adjust_saturation: got factor ", factor,
               "; expected 0 or more");
  return changed("adjust_saturation", image, [factor = static_cast<float>(factor)](Hsv& hsv) {
    hsv.saturation = std::clamp(hsv.saturation * factor, 0.0F, 1.0F);
  });
}

at::Tensor adjust_hue(const at::Tensor& image, double delta) {
  return changed("adjust_hue", image, [delta = static_cast<float>(delta)](Hsv& hsv) {
    hsv.hue += delta;
    hsv.hue -= std::floor(hsv.hue);
  });
}

}  // namespace strata::data
