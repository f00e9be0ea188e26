#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/image_box.h"

/// What training on photographs does to them: a window of random size and form, and other colours.
///
/// `random` is the source of the numbers, such as RandomNumbers of an element's key: an object with
/// uniform(), which returns a double in [0, 1), and below(n), which returns an integer from 0 up to
/// n, without it.
namespace strata::data {

/// A part of an image, its sides from 0 to 1: where an object is.
struct RelativeBox {
  float top = 0;
  float left = 0;
  float bottom = 1;
  float right = 1;
};

struct DistortedBoxOptions {
  /// The least part of some box that the window shows.
  double min_object_covered = 0.1;
  /// Width over height of the window, least and largest.
  std::pair<double, double> aspect_ratio = {0.75, 1.33};
  /// The window's part of the image, least and largest.
  std::pair<double, double> area = {0.05, 1.0};
  /// After so many windows that do not fit, the whole image is taken.
  int max_attempts = 100;
};

namespace detail {

/// Checked options with what the attempts have in common.
class STRATA_API BoxSampler {
 public:
  BoxSampler(int64_t height, int64_t width, std::vector<RelativeBox> objects,
             const DistortedBoxOptions& options);

  /// The window's height for an aspect ratio: from `least` on, one of `places`.
  struct Heights {
    int64_t least = 0;
    int64_t places = 1;
  };
  Heights heights(float aspect_ratio) const;
  /// False: there is no window of about that height that has the area, or fits.
  bool fit(float aspect_ratio, int64_t height, ImageBox& window) const;
  /// Whether it shows enough of some object.
  bool covers(const ImageBox& window) const;

  float aspect_ratio(float part) const;
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  int max_attempts() const { return options_.max_attempts; }

 private:
  const int64_t height_;
  const int64_t width_;
  const DistortedBoxOptions options_;
  std::vector<ImageBox> objects_;
  float least_area_;
  float largest_area_;
};

}  // namespace detail

/// A random window, as Inception was trained with: first its form, then its size, then its place
/// are drawn, until it shows enough of an object.
/// @param objects  None: the whole image is one.
/// @throws Error  kInvalidArgument: options, sizes or objects out of their ranges.
/// Source: tf.image.sample_distorted_bounding_box, whose windows it has for the same numbers.
template <class Random>
ImageBox sample_distorted_box(int64_t height, int64_t width, std::vector<RelativeBox> objects,
                              Random& random, const DistortedBoxOptions& options = {}) {
  const detail::BoxSampler sampler(height, width, std::move(objects), options);
  for (int attempt = 0; attempt < sampler.max_attempts(); ++attempt) {
    const float ratio = sampler.aspect_ratio(static_cast<float>(random.uniform()));
    const auto heights = sampler.heights(ratio);
    int64_t tall = heights.least;
    if (heights.places > 1)
      tall += static_cast<int64_t>(random.below(static_cast<uint64_t>(heights.places)));
    ImageBox window;
    if (!sampler.fit(ratio, tall, window)) continue;
    if (window.height < height) {
      window.top =
          static_cast<int64_t>(random.below(static_cast<uint64_t>(height - window.height)));
    }
    if (window.width < width) {
      window.left = static_cast<int64_t>(random.below(static_cast<uint64_t>(width - window.width)));
    }
    if (sampler.covers(window)) return window;
  }
  return {.height = height, .width = width};
}

// Colours: of images as those of image_ops.h, float32 with values from 0 to 1 or uint8, which is
// rounded and kept within its range. Batches are taken image by image.

/// Source: tf.image.adjust_brightness.
STRATA_API at::Tensor adjust_brightness(const at::Tensor& image, double delta);
/// (x - mean) * factor + mean, with the mean of each channel.   Source: tf.image.adjust_contrast.
STRATA_API at::Tensor adjust_contrast(const at::Tensor& image, double factor);
/// Of RGB, in HSV, where saturation stays within 0 to 1.   Source: tf.image.adjust_saturation.
STRATA_API at::Tensor adjust_saturation(const at::Tensor& image, double factor);
/// Of RGB, in HSV: the hue's circle has length 1.   Source: tf.image.adjust_hue.
STRATA_API at::Tensor adjust_hue(const at::Tensor& image, double delta);

struct ColorDistortion {
  double brightness = 32.0 / 255;                     ///< Added: from minus this to this.
  std::pair<double, double> saturation = {0.5, 1.5};  ///< Factor.
  double hue = 0.2;                                   ///< Added: from minus this to this.
  std::pair<double, double> contrast = {0.5, 1.5};    ///< Factor.
};

/// Brightness, saturation, hue and contrast by random amounts, in this order; or brightness,
/// contrast, saturation and hue, with probability 1/2. float32 is kept within 0 to 1. Draws five
/// numbers. Source: Inception's preprocessing, as tf_cnn_benchmarks has it.
template <class Random>
at::Tensor distort_color(const at::Tensor& image, Random& random, const ColorDistortion& how = {}) {
  const auto between = [&](double low, double high) {
    return low + (high - low) * random.uniform();
  };
  const bool contrast_last = random.uniform() < 0.5;
  at::Tensor x = adjust_brightness(image, between(-how.brightness, how.brightness));
  const auto contrast = [&] {
    x = adjust_contrast(x, between(how.contrast.first, how.contrast.second));
  };
  if (!contrast_last) contrast();
  x = adjust_saturation(x, between(how.saturation.first, how.saturation.second));
  x = adjust_hue(x, between(-how.hue, how.hue));
  if (contrast_last) contrast();
  return x.is_floating_point() ? x.clamp(0, 1) : x;
}

}  // namespace strata::data
