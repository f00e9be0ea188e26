#pragma once

#include <functional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layer.h"

namespace strata::keras {

/// Makes a layer from the `config` that `LayerImpl::config` wrote, or Keras.
using LayerFactory = std::function<Layer(const Json& config)>;

/// Lets files hold a class of yours. @throws Error kAlreadyExists: there is one of that name.
STRATA_API void register_layer(const std::string& class_name, LayerFactory factory);

/// @param object  `{"class_name": "Dense", "config": {...}}`, as a model's config lists it.
/// @throws Error kUnimplemented: a class that is not known; names layer and class, and how to
///         register one. kDataLoss: options that do not fit.
STRATA_API Layer layer_from_config(const Json& object);

/// `{"module": "keras.layers", "class_name": "Dense", "config": {...}, "registered_name": null}`.
STRATA_API Json to_config(const Layer& layer);

}  // namespace strata::keras
