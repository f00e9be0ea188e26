#include <algorithm>
#include <cmath>

#include "strata/core/error.h"
#include "strata/data/image_distortion.h"

namespace strata::data::detail {
namespace {

// TensorFlow computes these in float32: so its windows are got only in float32.
int64_t rounded(float number) { return std::lrint(number); }

}  // namespace

BoxSampler::BoxSampler(int64_t height, int64_t width, std::vector<RelativeBox> objects,
                       const DistortedBoxOptions& options)
    : height_(height), width_(width), options_(options) {
  const auto& [least_ratio, largest_ratio] = options.aspect_ratio;
  const auto& [least_area, largest_area] = options.area;
  STRATA_CHECK(height > 0 && width > 0, kInvalidArgument,
               "[data] sample_distorted_box: got an image of ", height, " x ", width,
               "; expected at least 1 x 1");
  STRATA_CHECK(0 < least_ratio && least_ratio <= largest_ratio, kInvalidArgument,
               "[data] sample_distorted_box: got aspect_ratio ", least_ratio, " to ", largest_ratio,
               "; expected numbers above 0, the smaller one first");
  STRATA_CHECK(0 < least_area && least_area <= largest_area && largest_area <= 1, kInvalidArgument,
               "[data] sample_distorted_box: got area ", least_area, " to ", largest_area,
               "; expected parts of the image, above 0 to 1, the smaller one first");
  STRATA_CHECK(0 <= options.min_object_covered && options.min_object_covered <= 1 &&
                   options.max_attempts > 0,
               kInvalidArgument, "[data] sample_distorted_box: got min_object_covered ",
               options.min_object_covered, " and max_attempts ", options.max_attempts,
               "; expected 0 to 1, and at least 1");
  if (objects.empty()) objects.emplace_back();
  for (const RelativeBox& object : objects) {
    STRATA_CHECK(0 <= object.top && object.top < object.bottom && object.bottom <= 1 &&
                     0 <= object.left && object.left < object.right && object.right <= 1,
                 kInvalidArgument, "[data] sample_distorted_box: got an object from (", object.top,
                 ", ", object.left, ") to (", object.bottom, ", ", object.right,
                 "); expected 0 <= top < bottom <= 1, and so for the columns");
    const auto scaled = [](float part, int64_t size) {
      return static_cast<int64_t>(part * static_cast<float>(size));
    };
    const int64_t top = scaled(object.top, height), left = scaled(object.left, width);
    objects_.push_back({.top = top,
                        .left = left,
                        .height = scaled(object.bottom, height) - top,
                        .width = scaled(object.right, width) - left});
  }
  const auto pixels = static_cast<float>(height) * static_cast<float>(width);
  least_area_ = static_cast<float>(least_area) * pixels;
  largest_area_ = static_cast<float>(largest_area) * pixels;
}

float BoxSampler::aspect_ratio(float part) const {
  const auto least = static_cast<float>(options_.aspect_ratio.first);
  const auto largest = static_cast<float>(options_.aspect_ratio.second);
  return part * (largest - least) + least;
}

BoxSampler::Heights BoxSampler::heights(float aspect_ratio) const {
  int64_t least = rounded(std::sqrt(least_area_ / aspect_ratio));
  int64_t largest = rounded(std::sqrt(largest_area_ / aspect_ratio));
  if (rounded(static_cast<float>(largest) * aspect_ratio) > width_) {
    constexpr float kMargin = 0.0000001F;
    largest = static_cast<int64_t>((static_cast<float>(width_) + 0.5F - kMargin) / aspect_ratio);
    if (rounded(static_cast<float>(largest) * aspect_ratio) > width_) --largest;
  }
  largest = std::min(largest, height_);
  least = std::min(least, largest);
  return {.least = least, .places = largest - least + 1};
}

bool BoxSampler::fit(float aspect_ratio, int64_t height, ImageBox& window) const {
  int64_t width = 0;
  float area = 0;
  const auto set = [&](int64_t to) {
    height = to;
    width = rounded(static_cast<float>(height) * aspect_ratio);
    area = static_cast<float>(width * height);
  };
  set(height);
  // Rounding may have made it a little too small, or too large.
  if (area < least_area_) set(height + 1);
  if (area > largest_area_) set(height - 1);
  if (area < least_area_ || area > largest_area_ || width > width_ || height > height_ ||
      width <= 0 || height <= 0) {
    return false;
  }
  window = {.top = 0, .left = 0, .height = height, .width = width};
  return true;
}

bool BoxSampler::covers(const ImageBox& window) const {
  return std::ranges::any_of(objects_, [&](const ImageBox& object) {
    const int64_t area = object.height * object.width;
    if (area <= 0) return false;
    const int64_t rows = std::min(window.top + window.height, object.top + object.height) -
                         std::max(window.top, object.top);
    const int64_t columns = std::min(window.left + window.width, object.left + object.width) -
                            std::max(window.left, object.left);
    const int64_t shown = std::max<int64_t>(rows, 0) * std::max<int64_t>(columns, 0);
    return static_cast<float>(shown) / static_cast<float>(area) >=
           static_cast<float>(options_.min_object_covered);
  });
}

}  // namespace strata::data::detail
