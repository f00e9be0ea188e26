#pragma once

#include <cstdint>
#include <string>

#include "strata/keras/layer.h"

/// Layers that Keras has in its applications alone; files name its modules.
namespace strata::applications {

struct CustomLayerOptions {
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Multiplies the last dimension by weights. Source: keras.src.applications.convnext.
class LayerScale : public keras::Layer {
 public:
  /// @param init_values  The weights' first value.
  /// @param projection_dim  Their number: the size of the last dimension.
  LayerScale(double init_values, int64_t projection_dim, const CustomLayerOptions& options = {});
};

/// In training, sets whole examples to 0 and divides the others by 1 - rate.
/// Source: keras.src.applications.convnext.
class StochasticDepth : public keras::Layer {
 public:
  /// @param drop_path_rate  0 to 1.
  explicit StochasticDepth(double drop_path_rate, const CustomLayerOptions& options = {});
};

/// Adds `scale` times the second input to the first.
/// Source: keras.src.applications.inception_resnet_v2.
class CustomScaleLayer : public keras::Layer {
 public:
  explicit CustomScaleLayer(double scale, const CustomLayerOptions& options = {});
};

}  // namespace strata::applications
