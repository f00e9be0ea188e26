#pragma once

#include "strata/keras/ops/call.h"

/// Images, `[batch, height, width, channels]` or one of them.
/// Source: keras.ops 3.15.
namespace strata::keras::ops {

namespace image {

inline Value auto rgb_to_grayscale(const Value auto& images,
                                   const std::string& data_format = "channels_last") {
  return call("RGBToGrayscale", {{"data_format", data_format}}, images);
}
inline Value auto rgb_to_hsv(const Value auto& images,
                             const std::string& data_format = "channels_last") {
  return call("RGBToHSV", {{"data_format", data_format}}, images);
}
inline Value auto hsv_to_rgb(const Value auto& images,
                             const std::string& data_format = "channels_last") {
  return call("HSVToRGB", {{"data_format", data_format}}, images);
}
inline Value auto sobel_edges(const Value auto& images,
                              const std::string& data_format = "channels_last") {
  return call("SobelEdges", {{"data_format", data_format}}, images);
}

struct ResizeOptions {
  std::string interpolation =
      "bilinear";  ///< "nearest", "bilinear", "bicubic", "lanczos3" or "lanczos5".
  bool antialias = false;
  bool crop_to_aspect_ratio = false;
  bool pad_to_aspect_ratio = false;
  double fill_value = 0;
  std::string data_format = "channels_last";
};
inline Value auto resize(const Value auto& images, const std::vector<int64_t>& size,
                         const ResizeOptions& options = {}) {
  return call("Resize",
              {{"size", to_config(size)},
               {"interpolation", options.interpolation},
               {"antialias", options.antialias},
               {"crop_to_aspect_ratio", options.crop_to_aspect_ratio},
               {"pad_to_aspect_ratio", options.pad_to_aspect_ratio},
               {"fill_mode", "constant"},
               {"fill_value", options.fill_value},
               {"data_format", options.data_format}},
              images);
}
struct TransformOptions {
  std::string interpolation = "bilinear";  ///< Or "nearest".
  /// "constant", "nearest", "wrap", "mirror" or "reflect".
  std::string fill_mode = "constant";
  double fill_value = 0;
  std::string data_format = "channels_last";
};
/// Pixel (x, y) is what is at (a0 x + a1 y + a2, b0 x + b1 y + b2).
/// @param transform  `[batch, 8]`: a0, a1, a2, b0, b1, b2, 0, 0.
inline Value auto affine_transform(const Value auto& images, const Value auto& transform,
                                   const TransformOptions& options = {}) {
  return call("AffineTransform",
              {{"interpolation", options.interpolation},
               {"fill_mode", options.fill_mode},
               {"fill_value", options.fill_value},
               {"data_format", options.data_format}},
              images, transform);
}
/// Moves what is at four start points to the end points, `[batch, 4, 2]` of (x, y).
inline Value auto perspective_transform(const Value auto& images, const Value auto& start_points,
                                        const Value auto& end_points,
                                        const std::string& interpolation = "bilinear",
                                        double fill_value = 0,
                                        const std::string& data_format = "channels_last") {
  return call(
      "PerspectiveTransform",
      {{"interpolation", interpolation}, {"fill_value", fill_value}, {"data_format", data_format}},
      images, start_points, end_points);
}
/// Moves pixels by smooth noise, which is drawn from libtorch's generator.
inline Value auto elastic_transform(const Value auto& images, double alpha = 20, double sigma = 5,
                                    const std::string& interpolation = "bilinear",
                                    const std::string& fill_mode = "reflect", double fill_value = 0,
                                    const std::string& data_format = "channels_last") {
  return call("ElasticTransform",
              {{"alpha", alpha},
               {"sigma", sigma},
               {"interpolation", interpolation},
               {"fill_mode", fill_mode},
               {"fill_value", fill_value},
               {"seed", Json()},
               {"data_format", data_format}},
              images);
}
/// @param coordinates  `[rank, ...]`. @param order  0 or 1.
inline Value auto map_coordinates(const Value auto& inputs, const Value auto& coordinates,
                                  int64_t order, const std::string& fill_mode = "constant",
                                  double fill_value = 0) {
  return call("MapCoordinates",
              {{"order", order}, {"fill_mode", fill_mode}, {"fill_value", fill_value}}, inputs,
              coordinates);
}
inline Value auto gaussian_blur(const Value auto& images,
                                const std::vector<int64_t>& kernel_size = {3, 3},
                                const std::vector<double>& sigma = {1, 1},
                                const std::string& data_format = "channels_last") {
  return call("GaussianBlur",
              {{"kernel_size", to_config(kernel_size)},
               {"sigma", to_config(sigma)},
               {"data_format", data_format}},
              images);
}
/// @param method  "linear", "cubic", "lanczos3" or "lanczos5".
inline Value auto scale_and_translate(const Value auto& images, const Shape& output_shape,
                                      const Value auto& scale, const Value auto& translation,
                                      const std::vector<int64_t>& spatial_dims,
                                      const std::string& method, bool antialias = true) {
  return call(
      "ScaleAndTranslate",
      {{"spatial_dims", to_config(spatial_dims)}, {"method", method}, {"antialias", antialias}},
      images, to_config(output_shape), scale, translation);
}
struct SsimOptions {
  double max_val = 1;
  int64_t filter_size = 11;
  double filter_sigma = 1.5;
  double k1 = 0.01;
  double k2 = 0.03;
  std::string data_format = "channels_last";
};
/// Structural similarity, a number for each pair of images.
inline Value auto ssim(const Value auto& image1, const Value auto& image2,
                       const SsimOptions& options = {}) {
  return call("SSIM",
              {{"max_val", options.max_val},
               {"filter_size", options.filter_size},
               {"filter_sigma", options.filter_sigma},
               {"k1", options.k1},
               {"k2", options.k2},
               {"data_format", options.data_format}},
              image1, image2);
}
struct CropOptions {
  std::optional<int64_t> top_cropping = {};
  std::optional<int64_t> left_cropping = {};
  std::optional<int64_t> bottom_cropping = {};
  std::optional<int64_t> right_cropping = {};
  std::optional<int64_t> target_height = {};
  std::optional<int64_t> target_width = {};
  std::string data_format = "channels_last";
};
/// Of three numbers for each direction, two say where.
inline Value auto crop_images(const Value auto& images, const CropOptions& options) {
  using ops::detail::json_or_null;
  return call("CropImages",
              {{"top_cropping", json_or_null(options.top_cropping)},
               {"left_cropping", json_or_null(options.left_cropping)},
               {"bottom_cropping", json_or_null(options.bottom_cropping)},
               {"right_cropping", json_or_null(options.right_cropping)},
               {"target_height", json_or_null(options.target_height)},
               {"target_width", json_or_null(options.target_width)},
               {"data_format", options.data_format}},
              images);
}
struct PadOptions {
  std::optional<int64_t> top_padding = {};
  std::optional<int64_t> left_padding = {};
  std::optional<int64_t> bottom_padding = {};
  std::optional<int64_t> right_padding = {};
  std::optional<int64_t> target_height = {};
  std::optional<int64_t> target_width = {};
  std::string data_format = "channels_last";
};
/// Of three numbers for each direction, two say where.
inline Value auto pad_images(const Value auto& images, const PadOptions& options) {
  using ops::detail::json_or_null;
  return call("PadImages",
              {{"top_padding", json_or_null(options.top_padding)},
               {"left_padding", json_or_null(options.left_padding)},
               {"bottom_padding", json_or_null(options.bottom_padding)},
               {"right_padding", json_or_null(options.right_padding)},
               {"target_height", json_or_null(options.target_height)},
               {"target_width", json_or_null(options.target_width)},
               {"data_format", options.data_format}},
              images);
}
/// A patch's pixels as channels. @param strides  Unset: size.
inline Value auto extract_patches(const Value auto& images, const std::vector<int64_t>& size,
                                  const Numbers& strides = std::nullopt,
                                  const Numbers& dilation_rate = 1,
                                  const std::string& padding = "valid",
                                  const std::string& data_format = "channels_last") {
  return call("ExtractPatches",
              {{"size", to_config(size)},
               {"strides", strides},
               {"dilation_rate", dilation_rate},
               {"padding", padding},
               {"data_format", data_format}},
              images);
}
/// A patch's pixels as channels. @param strides  Unset: size.
inline Value auto extract_patches_3d(const Value auto& images, const std::vector<int64_t>& size,
                                     const Numbers& strides = std::nullopt,
                                     const Numbers& dilation_rate = 1,
                                     const std::string& padding = "valid",
                                     const std::string& data_format = "channels_last") {
  return call("ExtractPatches",
              {{"size", to_config(size)},
               {"strides", strides},
               {"dilation_rate", dilation_rate},
               {"padding", padding},
               {"data_format", data_format}},
              images);
}

}  // namespace image

}  // namespace strata::keras::ops
