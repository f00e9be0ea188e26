#pragma once

#include <string>

#include "strata/core/export.h"
#include "strata/keras/model.h"

/// Models and weights as files that Keras opens, and Keras's files as models. All go through
/// core/file_system.h, appear whole or not at all, and are called outside `run`: under a strategy
/// every replica gets what a file has. Where the replicas live in several processes, all of these
/// make the same calls: the chief writes, all return when it has, and what fails in one is thrown
/// in all. Source: keras.saving 3.15.
namespace strata::keras {

/// Writes `NAME.keras`: structure, weights, and what the model was compiled with, the optimizer's
/// state included.
/// @throws Error kInvalidArgument: another ending. kFailedPrecondition: not built. And what
///         model_to_config and save_keras_archive throw.
STRATA_API void save_model(const Model& model, const std::string& path);

struct LoadModelOptions {
  /// Compile it as the file says, with the optimizer's state.
  bool compile = true;
};

/// Makes the model that a `.keras` file holds, or a whole-model `.h5` file of older Keras, in the
/// scope of this moment.
/// @throws Error what model_from_config, load_keras_archive, load_legacy_model and load_weights
///         throw.
STRATA_API Model load_model(const std::string& path, const LoadModelOptions& options = {});

/// Writes the weights alone: `NAME.weights.h5` as Keras does, or `NAME.safetensors` by the
/// variables' paths ("dense/kernel", in nested models "block/dense/kernel").
/// @throws Error kInvalidArgument: another ending. kFailedPrecondition: not built. And what
///         save_weights_file and save_safetensors throw.
STRATA_API void save_weights(const Model& model, const std::string& path);

/// Reads them into a built model, from `.weights.h5`, `.weights.json` (shards), `.keras`,
/// `.safetensors`, or a whole-model `.h5`. All of them or, if anything does not fit, none.
/// @throws Error kInvalidArgument: another number or shape than the model has; names the file, the
///         layer, the variable and both shapes. kFailedPrecondition: the model is not built.
STRATA_API void load_weights(const Model& model, const std::string& path);

}  // namespace strata::keras
