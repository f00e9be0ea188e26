#pragma once

#include <string>

#include "strata/core/export.h"
#include "strata/keras/model.h"

/// Saving and loading of models and weights in files that Keras opens. All functions use
/// core/file_system.h, write files completely or not at all, and are called outside `run`: under a
/// strategy every replica gets a file's contents. If the replicas are in several processes, all of
/// these make the same calls: the chief writes, all return when it has, and an error of one is
/// thrown in all. Source: keras.saving 3.15.
namespace strata::keras {

/// Writes `NAME.keras`: structure, weights, and the compile options, with the optimizer's state.
/// @throws Error kInvalidArgument: another ending. kFailedPrecondition: not built. Errors of
///         model_to_config and save_keras_archive.
STRATA_API void save_model(const Model& model, const std::string& path);

struct LoadModelOptions {
  /// Compiles the model by the file's options, with the optimizer's state.
  bool compile = true;
};

/// Loads a model from a `.keras` file, or a whole-model `.h5` file of older Keras, in the current
/// scope.
/// @throws Errors of model_from_config, load_keras_archive, load_legacy_model and load_weights.
STRATA_API Model load_model(const std::string& path, const LoadModelOptions& options = {});

/// Writes the weights alone: `NAME.weights.h5` as Keras does, or `NAME.safetensors` by the
/// variables' paths ("dense/kernel", in nested models "block/dense/kernel").
/// @throws Error kInvalidArgument: another ending. kFailedPrecondition: not built. Errors of
///         save_weights_file and save_safetensors.
STRATA_API void save_weights(const Model& model, const std::string& path);

/// Loads weights into a built model, from `.weights.h5`, `.weights.json` (shards), `.keras`,
/// `.safetensors`, or a whole-model `.h5`: all of them or, if anything does not match, none.
/// @throws Error kInvalidArgument: another number or shape than the model has; names the file, the
///         layer, the variable and both shapes. kFailedPrecondition: the model is not built.
STRATA_API void load_weights(const Model& model, const std::string& path);

}  // namespace strata::keras
