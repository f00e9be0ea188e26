#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/image_preprocessing.h"

/// Layers that mix each image of a batch with another one of it in training. They take images, or
/// images and labels `[batch, classes]` (one-hot, floating), which are mixed alike:
///
///     keras::Tensors mixed = layers::MixUp().call({images, labels}, {.training = true});
///
/// Images are `[batch, height, width, channels]`. At inference nothing is changed.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct MixUpOptions {
  double alpha = 0.2;                ///< Of the beta distribution of weights; above 0.
  std::optional<int64_t> seed = {};  ///< Saved in files only.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// A weighted mean with the other image. Source: Zhang et al. 2017.
class STRATA_API MixUp : public keras::Layer {
 public:
  explicit MixUp(const MixUpOptions& options = {});
};

struct CutMixOptions {
  std::optional<int64_t> seed = {};  ///< Saved in files only.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// A rectangle of the other image; labels by its share of the area. The beta distribution of areas
/// has a parameter from the range, 0 to 1. Source: Yun et al. 2019.
class STRATA_API CutMix : public keras::Layer {
 public:
  explicit CutMix(Factor factor = 1.0, const CutMixOptions& options = {});
};

}  // namespace strata::layers
