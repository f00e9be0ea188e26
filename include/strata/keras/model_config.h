#pragma once

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/keras/model.h"

namespace strata::keras {

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
