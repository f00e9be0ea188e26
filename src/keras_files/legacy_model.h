#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "keras_files/weights_tree.h"
#include "strata/core/json.h"
#include "strata/core/read_limits.h"

namespace strata::keras_files {

/// What a whole-model `.h5` file holds, the format that `.keras` replaced, or the weights alone in
/// that format, as those of ImageNet are published. It is read, never written.
struct LegacyModel {
  struct Layer {
    std::string name;
    /// By the names that the file gives, "dense/kernel" or "dense/kernel:0", in its order:
    /// trainable variables first, then the others; those of a nested model one behind the other.
    std::vector<std::pair<std::string, at::Tensor>> weights;
  };

  std::string keras_version;  ///< Empty if the file does not say.
  Json model_config;          ///< As KerasArchive::config; no `module`s. Null: weights alone.
  Json training_config;       ///< Null if the model was not compiled.
  std::vector<Layer> layers;  ///< In the model's order.
  std::vector<std::pair<std::string, at::Tensor>> optimizer_weights;
};

/// @throws Error  kDataLoss: no HDF5, damaged, or an attribute that is missing or names a dataset
///                that is not there; names file and cause. kInvalidArgument: a `.weights.h5` or a
///                `.keras` archive under another name. And what load_weights_file throws.
///                Threads: any.
LegacyModel load_legacy_model(const std::string& path, const ReadLimits& limits = {});

/// The same for bytes; `source` names them in errors.
LegacyModel parse_legacy_model(std::span<const std::byte> bytes, const std::string& source,
                               const ReadLimits& limits = {});

}  // namespace strata::keras_files
