#pragma once

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/keras/model.h"

namespace strata::keras {

/// A model as Keras's JSON, `{"module", "class_name", "config", ...}`: its layers, their options
/// and how they are connected; no weights. Keras 3.6 and later make the same model of it.
///
/// @param compile_config  What Keras calls so (optimizer, loss, metrics); null: none.
/// @throws Error kUnimplemented: a model of a class of yours, an activation that is a function of
///         yours. kInvalidArgument: two layers of one name. Both name the layer.
STRATA_API Json model_to_config(const Model& model, const Json& compile_config = {});

/// The way back, for JSON of Keras's and ours: `model.to_json()`, `config.json` of a `.keras` file,
/// with nodes of the old form too. The weights are new ones, made in the scope of this moment.
///
/// @throws Error kUnimplemented: a layer class, an option or an operation that strata does not
///         have; names layer and option. kDataLoss: no such JSON, a tensor that is nowhere made.
STRATA_API Model model_from_config(const Json& object);

}  // namespace strata::keras
