#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "strata/core/export.h"

namespace strata::keras {

/// What files keep of a layer beside its options and weights, by Keras's names: a vocabulary.
struct LayerAssets {
  std::map<std::string, std::string> files = {};   ///< In `.keras` files.
  std::map<std::string, at::Tensor> tensors = {};  ///< In files of weights, too.
  bool empty() const { return files.empty() && tensors.empty(); }
};

/// A base, beside LayerImpl, of layers that keep such. Source: keras.layers.Layer.save_assets,
/// save_own_variables.
class STRATA_API KeepsAssets {
 public:
  virtual ~KeepsAssets() = default;
  virtual LayerAssets assets() const = 0;
  /// @param assets  What a file has for this layer; only called if there is something.
  /// @throws Error kInvalidArgument: it is not this layer's.
  virtual void load_assets(const LayerAssets& assets) = 0;
};

}  // namespace strata::keras
