#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/layer_words.h"

/// Images, `[batch, height, width, channels]` or one without the batch, or with channels first.
/// The random ones change images in training and leave them alone at inference; they draw as the
/// layers of regularization.h do, each image of a batch by itself unless said otherwise.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct ResizingOptions {
  /// "nearest", "bilinear", "bicubic", "lanczos3" or "lanczos5".
  Interpolation interpolation = "bilinear";
  bool crop_to_aspect_ratio = false;  ///< Cuts off what does not fit the new shape.
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
/// The middle; smaller images are resized so that the largest part of the right shape fits.
class STRATA_API CenterCrop : public keras::Layer {
 public:
  CenterCrop(int64_t height, int64_t width, const ImageOptions& options = {});
};

struct RandomImageOptions {
  std::optional<int64_t> seed = {};  ///< Kept for files.
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

/// Flips every second image. As in Keras, one coin decides both directions of
/// "horizontal_and_vertical".
class STRATA_API RandomFlip : public keras::Layer {
 public:
  /// @param mode  "horizontal", "vertical" or "horizontal_and_vertical".
  explicit RandomFlip(const FlipMode& mode = FlipMode::kHorizontalAndVertical,
                      const RandomImageOptions& options = {});
};

/// The same part of all images of a batch. At inference, and where images are not larger than that,
/// the largest middle part of the right shape, resized: what Keras documents (3.15.1 itself gives
/// inputs back unchanged at inference).
class STRATA_API RandomCrop : public keras::Layer {
 public:
  RandomCrop(int64_t height, int64_t width, const RandomImageOptions& options = {});
};

/// A number `f` means -f to f; two mean from one to the other.
struct Factor {
  double lower;
  double upper;
  bool single;

  Factor(double f) : lower(-f), upper(f), single(true) {}  // NOLINT(google-explicit-constructor)
  Factor(double from, double to) : lower(from), upper(to), single(false) {}
};

struct AffineImageOptions {
  /// What lies outside: "reflect", "wrap", "constant" or "nearest".
  FillMode fill_mode = "reflect";
  Interpolation interpolation = "bilinear";  ///< Or "nearest".
  std::optional<int64_t> seed = {};          ///< Kept for files.
  double fill_value = 0;
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Around the middle, by turns: 0.1 means -36 to 36 degrees.
class STRATA_API RandomRotation : public keras::Layer {
 public:
  explicit RandomRotation(Factor factor, const AffineImageOptions& options = {});
};

/// By shares of height and width, -1 to 1.
class STRATA_API RandomTranslation : public keras::Layer {
 public:
  RandomTranslation(Factor height_factor, Factor width_factor,
                    const AffineImageOptions& options = {});
};

struct RandomZoomOptions {
  std::optional<Factor> width_factor = {};  ///< None keeps the proportions.
  FillMode fill_mode = "reflect";           ///< As above.
  Interpolation interpolation = "bilinear";
  std::optional<int64_t> seed = {};  ///< Kept for files.
  double fill_value = 0;
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// By 1 + factor, above -1 to 1: above 0 what is seen becomes smaller.
class STRATA_API RandomZoom : public keras::Layer {
 public:
  explicit RandomZoom(Factor height_factor, const RandomZoomOptions& options = {});
};

/// Lowest and highest value of a pixel; results are brought back into it.
struct ValueRange {
  double lower = 0;
  double upper = 255;
};
struct RandomColorOptions {
  ValueRange value_range = {};
  std::optional<int64_t> seed = {};  ///< Kept for files.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// (x - mean) times a number from 1 - lower to 1 + upper, plus the mean of each channel; factors of
/// 0 to 1, of which one number f means 0 to f.
class STRATA_API RandomContrast : public keras::Layer {
 public:
  explicit RandomContrast(Factor factor, const RandomColorOptions& options = {});
};

/// Plus a share of the value range, -1 to 1.
class STRATA_API RandomBrightness : public keras::Layer {
 public:
  explicit RandomBrightness(Factor factor, const RandomColorOptions& options = {});
};

}  // namespace strata::layers
