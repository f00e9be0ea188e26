#pragma once

#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/core/read_limits.h"
#include "strata/keras/model.h"
#include "strata/optim/optimizer.h"
#include "strata/optim/schedule.h"

/// Saving and loading of models and weights in files that Keras opens. All functions use
/// core/file_system.h, write files completely or not at all, and are called outside `run`: under a
/// strategy every replica gets a file's contents. If the replicas are in several processes, all of
/// these make the same calls: the chief writes, all return when it has, and an error of one is
/// thrown in all. Source: keras.saving 3.15.
namespace strata::keras {

/// Writes `NAME.keras`: structure, weights, and the compile options, with the optimizer's state.
/// @throws Error kInvalidArgument: another ending. kFailedPrecondition: not built. Errors of
///         model_to_config, and of writing files.
STRATA_API void save_model(const Model& model, const std::string& path);

struct LoadModelOptions {
  /// Compiles the model by the file's options, with the optimizer's state.
  bool compile = true;
  /// Bounds on what reading the file may cost.
  ReadLimits limits = {};
};

/// Loads a model from a `.keras` file, or a whole-model `.h5` file of older Keras, in the current
/// scope.
/// @throws Error kDataLoss: a damaged file; names the part. kResourceExhausted: names the limit
///   that
///         the file exceeds. Errors of model_from_config and load_weights.
STRATA_API Model load_model(const std::string& path, const LoadModelOptions& options = {});

/// Writes the weights alone: `NAME.weights.h5` as Keras does, or `NAME.safetensors` by the
/// variables' paths ("dense/kernel", in nested models "block/dense/kernel").
/// @throws Error kInvalidArgument: another ending. kFailedPrecondition: not built. Errors of
///         writing files.
STRATA_API void save_weights(const Model& model, const std::string& path);

/// Loads weights into a built model, from `.weights.h5`, `.weights.json` (shards), `.keras`,
/// `.safetensors`, or an `.h5` of older Keras, of a whole model (by the layers' names) or of
/// weights alone (by their order): all of them or, if anything does not match, none.
/// @throws Error kInvalidArgument: another number or shape than the model has; names the file, the
///         layer, the variable and both shapes. kFailedPrecondition: the model is not built.
///         kDataLoss, kResourceExhausted: as load_model.
STRATA_API void load_weights(const Model& model, const std::string& path,
                             const ReadLimits& limits = {});

/// Converts a model to Keras's JSON, `{"module", "class_name", "config", ...}`: its layers, their
/// options and how they are connected; no weights. Keras 3.6 and later make the same model of it.
///
/// @param compile_config  Keras's compile_config (optimizer, loss, metrics); null: none.
/// @throws Error kUnimplemented: a user-defined model class, an activation that is a user-defined
///         function. kInvalidArgument: two layers of one name. Both name the layer.
STRATA_API Json model_to_config(const Model& model, const Json& compile_config = {});

/// Makes a model from JSON of Keras or strata: `model.to_json()`, `config.json` of a `.keras` file,
/// also with nodes of the old form. The weights are new ones, made in the current scope.
///
/// @throws Error kUnimplemented: a layer class, an option or an operation that strata does not
///         have; names layer and option. kDataLoss: no such JSON, a tensor that no node makes.
STRATA_API Model model_from_config(const Json& object);

}  // namespace strata::keras

namespace strata::schedules {

/// Returns a number, or an object of `keras.optimizers.schedules`.
/// @throws Error kUnimplemented: a user-defined function, which files cannot have.
STRATA_API Json to_config(const Schedule& schedule);
/// @throws Error kDataLoss: neither. kUnimplemented: another schedule; lists the known ones.
STRATA_API void from_config(const Json& json, Schedule& schedule);

}  // namespace strata::schedules

namespace strata::keras {

/// Returns `{"module": "keras.optimizers", "class_name": "Adam", "config": {...},
/// "registered_name": null}` with Keras's `get_config`; the learning rate is that of the next step.
/// @throws Error kUnimplemented: a user-defined class, or a learning rate that is a user-defined
/// function.
STRATA_API Json to_config(const optimizers::Optimizer& optimizer);

/// Makes an optimizer without variables, from Keras's JSON, or from a name ("adam", "rmsprop", in
/// any case). Absent options have Keras's defaults.
/// @throws Error  kDataLoss: no optimizer's JSON, a value of another type.
///                kUnimplemented: an optimizer that strata does not have (lists the known ones), or
///                an unknown option; names optimizer and option.
STRATA_API std::unique_ptr<optimizers::Optimizer> optimizer_from_config(const Json& json);

}  // namespace strata::keras
