#pragma once

#include <string>

#include "keras_files/weights_tree.h"
#include "strata/core/json.h"

namespace strata::keras_files {

/// Holds what a file has against what its model needs: too few or too many variables, wrong shapes.
/// Layers of classes that we do not know are passed over; other groups are ignored,
/// as Keras does.
/// @param source  Names the file in errors.
/// @throws Error  kDataLoss: names group, layer, variable, and what came and was expected. And what
///                saved_objects throws.
void check_weights(const Json& model, const WeightsGroup& weights, const std::string& source);

/// The groups of `model`, with names and without tensors: what a writer fills.
WeightsGroup make_groups(const Json& model);

}  // namespace strata::keras_files
