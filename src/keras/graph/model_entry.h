#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "strata/keras/layer.h"

/// A layer or model as an entry of `config.layers`, and back.
namespace strata::keras::detail {

/// `{"module", "class_name", "config", "registered_name"}` of any layer, operations, inputs and
/// nested models included.
Json entry_of(const Layer& layer);
/// What Keras builds the layer from, `{"input_shape": [null, 8]}`; null: it needs nothing.
Json build_config_of(const Layer& layer);

/// Keras's name of a user-defined class: "mine>Scale". Unset: the class is Keras's.
std::optional<std::string> registered_name(const std::string& class_name);

/// Sequential, Functional, Model.
bool is_model_class(std::string_view class_name);
/// The model behind such an entry.
Layer model_layer_from_entry(const Json& entry);

/// Keras calls these with one argument for each tensor; others take a list of several.
bool takes_tensors_apart(std::string_view class_name);

}  // namespace strata::keras::detail
