#pragma once

#include <functional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layer.h"

namespace strata::keras {

/// Makes a layer from the `config` that `LayerImpl::config` wrote, or Keras.
using LayerFactory = std::function<Layer(const Json& config)>;

/// Lets files hold a user-defined class.
///
///     keras::register_layer("shop>Scale", [](const Json& config) {
///       return keras::make_layer<ScaleImpl>(
///           keras::LayerOptions{.name = config.at("name").as_string()});
///     });
///
/// @param name  What Keras registers the class by, "package>Class", where it is decorated with
///              `@keras.saving.register_keras_serializable(package="shop")`. Without a package it
///              is Keras's default one, "Custom". `Class` is the layer's class_name().
/// @throws Error kAlreadyExists: there is one of that name.
STRATA_API void register_layer(const std::string& name, LayerFactory factory);

/// What an operation of a graph is called with, as files have it: constants as they stand, a tensor
/// as `{"tensor": <its index among the inputs>}`.
struct OperationArguments {
  const Json& args;    ///< A list.
  const Json& kwargs;  ///< By name.
  const Json& config;  ///< The operation's own options: `{"axis": 1}`.
};
using OperationFunction =
    std::function<Tensors(const Tensors& inputs, const OperationArguments& arguments)>;

/// Lets files hold an operation of your own (a class derived from keras.Operation), or one of a
/// later Keras than this library knows. `ops::invoke` calls it, too.
///
///     keras::register_operation("shop>Times", [](const Tensors& x, const auto& arguments) {
///       return Tensors{x[0] * arguments.config.at("factor").as_double()};
///     });
///
/// @param name  The class as it is in the file, or what Keras registers it by: "package>Class".
/// @param function  Called on several replicas at once. The shapes are found by calls with zeros,
///                  the dtype that symbolic tensors show is the one that the inputs have in common.
/// @throws Error kAlreadyExists: this library has it, or it was registered.
STRATA_API void register_operation(const std::string& name, OperationFunction function);

/// @param object  `{"class_name": "Dense", "config": {...}}`, as a model's config lists it.
/// @throws Error kUnimplemented: a class that is not known; names layer and class, and how to
///         register one. kDataLoss: options that do not fit.
STRATA_API Layer layer_from_config(const Json& object);

/// `{"module": "keras.layers", "class_name": "Dense", "config": {...}, "registered_name": null}`.
STRATA_API Json to_config(const Layer& layer);

}  // namespace strata::keras
