#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/categories.h"
#include "strata/keras/layers/lookups.h"

/// Layers that make numbers of texts and integers by hashing, with TensorFlow's hashes. uint8
/// tensors are texts, `[..., width]` (strata/data/texts.h); integers are of any other dtype. They
/// compute on the host, as lookups.h says.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct HashingOptions {
  /// What has bin 0 for itself: an integer, or a text.
  std::variant<std::monostate, int64_t, std::string> mask_value = {};
  std::optional<HashSalt> salt = {};  ///< SipHash with this key in place of FarmHash.
  CategoryMode output_mode = "int";
  std::string name = {};
  /// Unset: "int64" with output_mode "int", else that of layers.
  std::optional<keras::DTypePolicy> dtype = {};
};
/// The bin of a text or an integer: its hash modulo `num_bins`. Integers are hashed by their
/// decimal digits, floating numbers are cut to integers before.
///
///     layers::Hashing hashing(3);
///     at::Tensor bins = hashing(std::vector<std::string>{"A", "B"});
///
/// @throws Error kUnimplemented: strata was built without FarmHash, and there is no salt.
class STRATA_API Hashing : public keras::Layer {
 public:
  explicit Hashing(int64_t num_bins, const HashingOptions& options = {});

  using Layer::operator();
  at::Tensor operator()(const std::vector<std::string>& texts) const;
};

struct HashedCrossingOptions {
  CategoryMode output_mode = "int";  ///< Or "one_hot".
  std::string name = {};
  std::optional<keras::DTypePolicy> dtype = {};  ///< As Hashing's.
};
/// The bin of a combination of features: a hash of them in their order, modulo `num_bins`. Two or
/// more inputs, `[]`, `[batch]` or `[batch, 1]`, all alike; texts have their width behind that.
class STRATA_API HashedCrossing : public keras::Layer {
 public:
  explicit HashedCrossing(int64_t num_bins, const HashedCrossingOptions& options = {});
};

}  // namespace strata::layers
