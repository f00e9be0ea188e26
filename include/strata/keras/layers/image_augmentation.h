#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layers/image_preprocessing.h"

/// More layers that move and blur pixels. As the random ones of image_preprocessing.h they draw for
/// each image of a batch by itself where a comment says nothing else, and leave images unchanged at
/// inference.
/// Source: keras.layers 3.15.
namespace strata::layers {

/// Shears by up to the factors, 0 to 1, in either direction; one number f means -f to f.
class STRATA_API RandomShear : public keras::Layer {
 public:
  explicit RandomShear(Factor x_factor = 0.0, Factor y_factor = 0.0,
                       const AffineImageOptions& options = {});
};

struct RandomPerspectiveOptions {
  double scale = 1;                          ///< How far corners move, 0 to 1.
  Interpolation interpolation = "bilinear";  ///< Or "nearest".
  double fill_value = 0;
  std::optional<int64_t> seed = {};  ///< Saved in files only.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Changes the perspective of an image with a probability from the range, 0 to 1.
class STRATA_API RandomPerspective : public keras::Layer {
 public:
  explicit RandomPerspective(Factor factor = 1.0, const RandomPerspectiveOptions& options = {});
};

struct RandomElasticTransformOptions {
  Factor scale = 1.0;                        ///< Of the distortion, 0 to 1; one for a batch.
  Interpolation interpolation = "bilinear";  ///< Or "nearest".
  FillMode fill_mode = "reflect";
  double fill_value = 0;
  ValueRange value_range = {};
  std::optional<int64_t> seed = {};  ///< Saved in files only.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Moves the pixels of an image by smooth noise with a probability from the range, 0 to 1. The
/// noise is smoothed by a window for the largest scale, where Keras cuts the window to the drawn
/// one.
class STRATA_API RandomElasticTransform : public keras::Layer {
 public:
  explicit RandomElasticTransform(Factor factor = 1.0,
                                  const RandomElasticTransformOptions& options = {});
};

struct RandomGaussianBlurOptions {
  keras::Sizes<2> kernel_size = 3;  ///< Width and height, odd.
  Factor sigma = 1.0;               ///< 0 to 1; two for a batch, along width and height.
  ValueRange value_range = {};
  std::optional<int64_t> seed = {};  ///< Saved in files only.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Blurs an image with a probability from the range, 0 to 1.
class STRATA_API RandomGaussianBlur : public keras::Layer {
 public:
  explicit RandomGaussianBlur(Factor factor = 1.0, const RandomGaussianBlurOptions& options = {});
};

}  // namespace strata::layers
