#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "keras_files/layer_table.h"
#include "keras_files/model_layout.h"
#include "strata/core/json.h"

namespace strata::keras_files {

/// The value of `key`, or null for a missing one and JSON's null alike.
const Json* find_value(const Json& object, std::string_view key);

/// True if the conditions of a row hold for a layer's config.
bool holds(std::string_view when, const Json& config);

/// A row's variable for a layer's config.
/// @param input  Shape of the layer's input, batch first; -1 unknown; empty: nothing is known.
VariableSpec make_spec(const VariableRow& row, const Json& config,
                       const std::vector<int64_t>& input);

}  // namespace strata::keras_files
