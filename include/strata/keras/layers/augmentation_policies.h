#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layers/image_preprocessing.h"

/// Layers that change images by several others in turn, in training.
/// Source: keras.layers 3.15.
namespace strata::layers {

/// Unset factors: not changed.
struct RandomColorJitterOptions {
  ValueRange value_range = {};
  std::optional<Factor> brightness_factor = {};
  std::optional<Factor> contrast_factor = {};
  std::optional<Factor> saturation_factor = {};
  std::optional<Factor> hue_factor = {};
  std::optional<int64_t> seed = {};  ///< Saved in files only.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// RandomBrightness, RandomContrast, RandomSaturation and RandomHue, in this order. Pixels are RGB
/// for the last two.
class STRATA_API RandomColorJitter : public keras::Layer {
 public:
  explicit RandomColorJitter(const RandomColorJitterOptions& options = {});
};

struct RandAugmentOptions {
  ValueRange value_range = {};
  int64_t num_ops = 2;
  Factor factor = 0.5;                       ///< How strong, 0 to 1.
  Interpolation interpolation = "bilinear";  ///< Or "nearest".
  std::optional<int64_t> seed = {};          ///< Saved in files only.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// `num_ops` of eleven changes (shear, translation, rotation, brightness, colour degeneration,
/// contrast, sharpness, posterization, solarization, auto contrast, equalization), the same ones for
/// a batch; each draws for each image. Pixels are RGB.
/// Cost: on CPUs the changes that are chosen; on GPUs and in recorded steps, where the host does not
/// know which they are, all eleven each time.
/// Source: Cubuk et al. 2019.
class STRATA_API RandAugment : public keras::Layer {
 public:
  /// @throws Error kInvalidArgument: fewer than 0 changes, a factor out of its range.
  explicit RandAugment(const RandAugmentOptions& options = {});
};

struct AugMixOptions {
  ValueRange value_range = {};
  int64_t num_chains = 3;
  int64_t chain_depth = 3;                   ///< Changes of a chain at most.
  Factor factor = 0.3;                       ///< How strong, 0 to 1.
  double alpha = 1;                          ///< Of the Dirichlet and beta distributions.
  bool all_ops = true;                       ///< With brightness, colours, contrast, sharpness.
  Interpolation interpolation = "bilinear";  ///< Or "nearest".
  std::optional<int64_t> seed = {};          ///< Saved in files only.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Mixes an image with the mean of chains of random changes, which are RandAugment's; chains and
/// weights are the same for a batch. Cost: as RandAugment, for each place of each chain.
/// Source: Hendrycks et al. 2019.
class STRATA_API AugMix : public keras::Layer {
 public:
  /// @throws Error kInvalidArgument: no chains, a depth below 0, alpha not above 0, a factor out of
  ///   its range.
  explicit AugMix(const AugMixOptions& options = {});
};

}  // namespace strata::layers
