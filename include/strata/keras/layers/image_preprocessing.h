#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"

/// Layers for images, `[batch, height, width, channels]` or one without the batch, or with channels
/// first. The random ones change images in training and leave them unchanged at inference; they
/// draw like the layers of regularization.h, for each image of a batch by itself unless documented
/// otherwise.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct ResizingOptions {
  /// "nearest", "bilinear", "bicubic", "lanczos3" or "lanczos5".
  Interpolation interpolation = "bilinear";
  bool crop_to_aspect_ratio = false;  ///< Cuts off what exceeds the new shape.
  bool pad_to_aspect_ratio = false;   ///< Adds `fill_value` at both sides.
  FillMode fill_mode = "constant";
  double fill_value = 0;
  bool antialias = false;
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Whole numbers are rounded and stay whole numbers.
class STRATA_API Resizing : public keras::Layer {
 public:
  Resizing(int64_t height, int64_t width, const ResizingOptions& options = {});
};

struct ImageOptions {
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Crops the middle; smaller images are resized so that the largest part of the right shape
/// remains.
class STRATA_API CenterCrop : public keras::Layer {
 public:
  CenterCrop(int64_t height, int64_t width, const ImageOptions& options = {});
};

struct RandomImageOptions {
  std::optional<int64_t> seed = {};  ///< Saved in files only.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

struct FlipModeWords {
  enum Word { kHorizontal, kVertical, kHorizontalAndVertical };
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"horizontal", "vertical", "horizontal_and_vertical"};
};
using FlipMode = OneOf<FlipModeWords>;

/// Flips half of the images. As in Keras, one draw decides both directions of
/// "horizontal_and_vertical".
class STRATA_API RandomFlip : public keras::Layer {
 public:
  /// @param mode  "horizontal", "vertical" or "horizontal_and_vertical".
  explicit RandomFlip(const FlipMode& mode = FlipMode::kHorizontalAndVertical,
                      const RandomImageOptions& options = {});
};

/// Crops the same part of all images of a batch. At inference, and if images are not larger, it
/// crops and resizes the largest middle part of the right shape, as Keras documents (3.15.1 itself
/// returns inputs unchanged at inference).
class STRATA_API RandomCrop : public keras::Layer {
 public:
  RandomCrop(int64_t height, int64_t width, const RandomImageOptions& options = {});
};

/// A range: a number `f` means -f to f; two mean from one to the other.
struct Factor {
  double lower;
  double upper;
  bool single;

  Factor(double f) : lower(-f), upper(f), single(true) {}  // NOLINT(google-explicit-constructor)
  Factor(double from, double to) : lower(from), upper(to), single(false) {}
};

struct AffineImageOptions {
  /// The values outside the image: "reflect", "wrap", "constant" or "nearest".
  FillMode fill_mode = "reflect";
  Interpolation interpolation = "bilinear";  ///< Or "nearest".
  std::optional<int64_t> seed = {};          ///< Saved in files only.
  double fill_value = 0;
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Rotates around the middle, in turns: 0.1 means -36 to 36 degrees.
class STRATA_API RandomRotation : public keras::Layer {
 public:
  explicit RandomRotation(Factor factor, const AffineImageOptions& options = {});
};

/// Moves by fractions of height and width, -1 to 1.
class STRATA_API RandomTranslation : public keras::Layer {
 public:
  RandomTranslation(Factor height_factor, Factor width_factor,
                    const AffineImageOptions& options = {});
};

struct RandomZoomOptions {
  std::optional<Factor> width_factor = {};  ///< Unset: keeps the proportions.
  FillMode fill_mode = "reflect";           ///< See AffineImageOptions.
  Interpolation interpolation = "bilinear";
  std::optional<int64_t> seed = {};  ///< Saved in files only.
  double fill_value = 0;
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Zooms by 1 + factor, above -1 to 1: above 0 objects become smaller.
class STRATA_API RandomZoom : public keras::Layer {
 public:
  explicit RandomZoom(Factor height_factor, const RandomZoomOptions& options = {});
};

/// Lowest and highest value of a pixel; results are clipped to it.
struct ValueRange {
  double lower = 0;
  double upper = 255;
};
struct RandomColorOptions {
  ValueRange value_range = {};
  std::optional<int64_t> seed = {};  ///< Saved in files only.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Multiplies (x - mean) by a number from 1 - lower to 1 + upper, and adds the mean of each channel
/// again; factors are 0 to 1, and one number f means 0 to f.
class STRATA_API RandomContrast : public keras::Layer {
 public:
  explicit RandomContrast(Factor factor, const RandomColorOptions& options = {});
};

/// Adds a fraction of the value range, -1 to 1.
class STRATA_API RandomBrightness : public keras::Layer {
 public:
  explicit RandomBrightness(Factor factor, const RandomColorOptions& options = {});
};

}  // namespace strata::layers
