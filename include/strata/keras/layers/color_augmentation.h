#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/layers/image_preprocessing.h"

/// Layers that change the colours of images in training. As the random ones of
/// image_preprocessing.h they draw for each image of a batch by itself, and leave images unchanged
/// at inference.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct RandomGrayscaleOptions {
  std::optional<int64_t> seed = {};  ///< Not in files, as Keras does not write it.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Makes this share of the images grey.
class STRATA_API RandomGrayscale : public keras::Layer {
 public:
  explicit RandomGrayscale(double factor = 0.5, const RandomGrayscaleOptions& options = {});
};

/// Inverts an image with a probability from the range, 0 to 1.
class STRATA_API RandomInvert : public keras::Layer {
 public:
  explicit RandomInvert(Factor factor = 1.0, const RandomColorOptions& options = {});
};

/// Keeps so many of the 8 bits of a channel; the upper end of a range is not drawn.
class STRATA_API RandomPosterization : public keras::Layer {
 public:
  explicit RandomPosterization(Factor factor, const RandomColorOptions& options = {});
};

/// Below 0.5 less saturation, above more, 0 to 1. Pixels are RGB.
class STRATA_API RandomSaturation : public keras::Layer {
 public:
  explicit RandomSaturation(Factor factor, const RandomColorOptions& options = {});
};

/// Turns the hue by up to half of the factor, 0 to 1, in either direction. Pixels are RGB.
class STRATA_API RandomHue : public keras::Layer {
 public:
  explicit RandomHue(Factor factor, const RandomColorOptions& options = {});
};

/// Mixes an image with itself in grey: 0 not at all, 1 is grey.
class STRATA_API RandomColorDegeneration : public keras::Layer {
 public:
  explicit RandomColorDegeneration(Factor factor, const RandomColorOptions& options = {});
};

/// Below 0.5 smoother, above sharper, 0 to 1.
class STRATA_API RandomSharpness : public keras::Layer {
 public:
  explicit RandomSharpness(Factor factor, const RandomColorOptions& options = {});
};

/// Adds to pixels, and inverts those from a threshold on; both are shares of the range, 0 to 1.
class STRATA_API Solarization : public keras::Layer {
 public:
  explicit Solarization(Factor addition_factor = 0.0, Factor threshold_factor = 0.0,
                        const RandomColorOptions& options = {});
};

struct AutoContrastOptions {
  ValueRange value_range = {};
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Stretches each channel to the whole range; at inference, too.
class STRATA_API AutoContrast : public keras::Layer {
 public:
  explicit AutoContrast(const AutoContrastOptions& options = {});
};

struct RandomErasingOptions {
  Factor scale = {0.02, 0.33};            ///< The share of the image.
  std::optional<double> fill_value = {};  ///< Unset: noise.
  ValueRange value_range = {};
  std::optional<int64_t> seed = {};  ///< Saved in files only.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Fills a part of an image, with a probability from the range, 0 to 1.
class STRATA_API RandomErasing : public keras::Layer {
 public:
  explicit RandomErasing(Factor factor = 1.0, const RandomErasingOptions& options = {});
};

}  // namespace strata::layers
