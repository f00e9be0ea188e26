#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "keras/call_options.h"
#include "keras/graph/functional.h"
#include "keras/graph/input_layer.h"
#include "keras/graph/model_entry.h"
#include "keras/graph/sequential_impl.h"
#include "keras/layers/attention_heads.h"
#include "keras/layers/recurrent_impl.h"
#include "keras/ops/operation.h"
#include "keras_files/model_layout.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/saving.h"

namespace strata::keras {
namespace detail {
namespace {

Json shape_json(const Shape& shape) {
  Json sizes = Json::array();
  for (const int64_t size : shape) sizes.push_back(size == kNone ? Json() : Json(size));
  return sizes;
}

Json object_of(std::string_view module, std::string_view class_name, Json config,
               const Json& registered_name = {}) {
  Json json = make_object(module, class_name, std::move(config));
  json.set("registered_name", registered_name);
  return json;
}

/// The calls in a graph, each by its layer's name and its number among that layer's calls.
class NodeNames {
 public:
  explicit NodeNames(const Graph& graph, const std::string& model) {
    std::unordered_set<std::string> names;
    for (const Layer& layer : graph.layers()) {
      STRATA_CHECK(names.insert(layer.name()).second, kInvalidArgument, "[keras] Model '", model,
                   "': got two layers named '", layer.name(),
                   "'; names in a file must differ (option `name`)");
    }
    for (const Node* node : graph.nodes_as_made()) {
      std::vector<const Node*>& calls = calls_[node->layer.impl().get()];
      index_.emplace(node, static_cast<int64_t>(calls.size()));
      calls.push_back(node);
    }
  }

  const std::vector<const Node*>& calls(const Layer& layer) const {
    return calls_.at(layer.impl().get());
  }

  /// ["dense", 0, 0]
  Json history(const SymbolicTensor& tensor, int64_t shift = 0) const {
    const Node* node = tensor.node().get();
    return Json::array(
        {node->layer.name(), index_.at(node) + shift, static_cast<int64_t>(tensor.index())});
  }

  Json tensor(const SymbolicTensor& tensor) const {
    Json config = Json::object();
    config.set("shape", shape_json(tensor.shape()));
    config.set("dtype", dtype_name(tensor.dtype()));
    config.set("keras_history", history(tensor));
    Json json = Json::object();
    return json.set("class_name", "__keras_tensor__").set("config", std::move(config));
  }

  /// Of input_layers and output_layers. For a nested functional model Keras counts its calls from
  /// one, there and only there.
  Json references(const std::vector<SymbolicTensor>& tensors) const {
    Json all = Json::array();
    for (const SymbolicTensor& each : tensors) {
      const Layer& layer = each.node()->layer;
      const bool shifted = dynamic_cast<const FunctionalImpl*>(layer.impl().get()) != nullptr;
      all.push_back(history(each, shifted ? 1 : 0));
    }
    return tensors.size() == 1 ? all.as_array()[0] : all;
  }

 private:
  std::unordered_map<const LayerImpl*, std::vector<const Node*>> calls_;
  std::unordered_map<const Node*, int64_t> index_;
};

/// `json` with tensors where it refers to them.
Json with_tensors(const Json& json, const Node& node, const NodeNames& names) {
  if (const int64_t index = tensor_index(json); index >= 0) {
    return names.tensor(node.inputs.at(static_cast<size_t>(index)));
  }
  if (json.is_array()) {
    Json result = Json::array();
    for (const Json& each : json.as_array()) result.push_back(with_tensors(each, node, names));
    return result;
  }
  if (json.is_object()) {
    Json result = Json::object();
    for (const auto& [key, value] : json.as_object()) {
      result.set(key, with_tensors(value, node, names));
    }
    return result;
  }
  return json;
}

/// {"args": [...], "kwargs": {...}}
Json inbound_node(const Node& node, const NodeNames& names) {
  Json json = Json::object();
  if (as_operation(node.layer) != nullptr) {
    const Json* args = node.options.find("args");
    const Json* kwargs = node.options.find("kwargs");
    json.set("args", args == nullptr ? Json::array() : with_tensors(*args, node, names));
    json.set("kwargs", kwargs == nullptr ? Json::object() : with_tensors(*kwargs, node, names));
    return json;
  }
  std::vector<size_t> named;
  collect_tensor_indices(node.options, named);
  Json tensors = Json::array();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (std::ranges::find(named, i) == named.end()) {
      tensors.push_back(names.tensor(node.inputs[i]));
    }
  }
  const bool apart =
      tensors.as_array().size() == 1 || takes_tensors_apart(node.layer->class_name());
  json.set("args", apart ? tensors : Json::array({tensors}));
  json.set("kwargs",
           node.options.is_null() ? Json::object() : with_tensors(node.options, node, names));
  return json;
}

Json with_build_config(Json entry, const Layer& layer) {
  if (Json build = build_config_of(layer); !build.is_null()) {
    entry.set("build_config", std::move(build));
  }
  return entry;
}

/// Names that Keras gives by itself to objects of a class: `mean`, `mean_1`, ...
bool is_default_name(const std::string& name, std::string_view class_name) {
  const std::string stem = keras_files::to_snake_case(class_name);
  return name.starts_with(stem) && (name.size() == stem.size() ||
                                    (name[stem.size()] == '_' && name.size() > stem.size() + 1));
}

/// Keras 3.6 takes no `name` for operations with options, and 3.15 finds one where none is given;
/// it must not be that of something else in the model.
bool may_leave_name_out(const OperationImpl& operation, const std::vector<Layer>& layers) {
  if (operation.operation_config().as_object().size() == 1) return false;
  return std::ranges::none_of(layers, [&](const Layer& layer) {
    const OperationImpl* other = as_operation(layer);
    const bool keeps_name = other == nullptr || other->operation_config().as_object().size() == 1;
    return keeps_name && is_default_name(layer.name(), operation.class_name());
  });
}

Json without_name(const Json& config) {
  Json rest = Json::object();
  for (const auto& [key, value] : config.as_object()) {
    if (key != "name") rest.set(key, value);
  }
  return rest;
}

Json functional_config(const FunctionalImpl& model) {
  const Graph& graph = model.graph();
  for (const SymbolicTensor& input : graph.inputs()) {
    STRATA_CHECK(as_input(input.node()->layer) != nullptr, kUnimplemented, "[keras] Model '",
                 model.name(), "': its input is the output of layer '", input.node()->layer.name(),
                 "'; a model in a file begins with keras::Input");
  }
  const NodeNames names(graph, model.name());
  Json layers = Json::array();
  for (const Layer& layer : graph.layers()) {
    Json entry = with_build_config(entry_of(layer), layer);
    if (const OperationImpl* operation = as_operation(layer);
        operation != nullptr && may_leave_name_out(*operation, graph.layers())) {
      entry.set("config", without_name(entry.at("config")));
    }
    Json nodes = Json::array();
    for (const Node* node : names.calls(layer)) {
      if (!node->inputs.empty()) nodes.push_back(inbound_node(*node, names));
    }
    entry.set("name", layer.name());
    entry.set("inbound_nodes", std::move(nodes));
    layers.push_back(std::move(entry));
  }
  Json config = Json::object();
  config.set("name", model.name());
  config.set("trainable", model.trainable());
  config.set("layers", std::move(layers));
  config.set("input_layers", names.references(graph.inputs()));
  config.set("output_layers", names.references(graph.outputs()));
  return config;
}

Json sequential_config(const SequentialImpl& model) {
  Json layers = Json::array();
  if (model.input()) layers.push_back(entry_of(model.input()->node()->layer));
  for (const Layer& layer : model.layers()) {
    layers.push_back(with_build_config(entry_of(layer), layer));
  }
  Json config = Json::object();
  config.set("name", model.name());
  config.set("trainable", model.trainable());
  config.set("dtype", to_config(model.dtype()));
  config.set("layers", std::move(layers));
  if (model.input()) config.set("build_input_shape", shape_json(model.input()->shape()));
  return config;
}

Json input_config(const InputLayerImpl& input) {
  Json config = Json::object();
  config.set("batch_shape", shape_json(input.saved_shape()));
  config.set("dtype", input.saved_dtype());
  config.set("sparse", false);
  config.set("name", input.name());
  return config;
}

/// A stateful recurrent layer, or a wrapper of one, has states for each example of a batch.
bool has_fixed_batch(const LayerImpl& layer) {
  const auto* recurrent = dynamic_cast<const layers::RNNImpl*>(&layer);
  if (recurrent != nullptr && recurrent->options().stateful) return true;
  return std::ranges::any_of(layer.sublayers(),
                             [](const auto& each) { return has_fixed_batch(*each.second); });
}

constexpr std::array kTensorsApart = {"MultiHeadAttention", "GroupedQueryAttention",
                                      "GroupQueryAttention"};

}  // namespace

bool takes_tensors_apart(std::string_view class_name) {
  return std::ranges::find(kTensorsApart, class_name) != kTensorsApart.end();
}

Json entry_of(const Layer& layer) {
  const LayerImpl& impl = *layer;
  if (const auto* input = dynamic_cast<const InputLayerImpl*>(&impl)) {
    return object_of(impl.module(), impl.class_name(), input_config(*input));
  }
  if (const auto* operation = dynamic_cast<const OperationImpl*>(&impl)) {
    Json object = object_of(impl.module(), impl.class_name(), operation->operation_config(),
                            operation->entry().registered_name);
    return object.set("module", operation->entry().module);
  }
  if (const auto* model = dynamic_cast<const FunctionalImpl*>(&impl)) {
    return object_of(impl.module(), impl.class_name(), functional_config(*model),
                     impl.class_name());
  }
  if (const auto* model = dynamic_cast<const SequentialImpl*>(&impl)) {
    return object_of(impl.module(), impl.class_name(), sequential_config(*model));
  }
  STRATA_CHECK(dynamic_cast<const ModelImpl*>(&impl) == nullptr, kUnimplemented, "[keras] Model '",
               impl.name(),
               "' is a user-defined class, whose structure only its code knows; a file "
               "can hold its weights: save_weights()");
  // A class of the user's: Keras looks for it by the name that it was registered by there.
  const bool says_module = impl.module() != "keras.layers";
  const auto registered = registered_name(std::string(impl.class_name()));
  if (!registered || says_module) {
    // Classes that Keras does not export are registered there by their names alone.
    const Json hidden = says_module ? Json(std::string(impl.class_name())) : Json();
    return object_of(impl.module(), impl.class_name(), impl.config(),
                     registered ? Json(*registered) : hidden);
  }
  Json object = object_of("", impl.class_name(), impl.config(), *registered);
  return object.set("module", Json());
}

Json build_config_of(const Layer& layer) {
  const LayerImpl& impl = *layer;
  const std::vector<Shape>& shapes = impl.build_shapes();
  if (!impl.built() || shapes.empty() || as_operation(layer) != nullptr ||
      dynamic_cast<const ModelImpl*>(&impl) != nullptr) {
    return {};
  }
  const bool keeps_batch = has_fixed_batch(impl);
  const auto without_batch = [&](Shape shape) {
    if (!shape.empty() && !keeps_batch) shape[0] = kNone;
    return shape_json(shape);
  };
  Json config = Json::object();
  if (const auto* heads = dynamic_cast<const layers::HeadsImpl*>(&impl)) {
    Json dict = Json::object();
    dict.set("query_shape", without_batch(shapes[0]));
    if (shapes.size() > 1) dict.set("value_shape", without_batch(shapes[1]));
    // Masks are tensors of the call, and not what it is built for.
    if (const layers::Places at = heads->build_places(); at.has_key) {
      dict.set("key_shape", without_batch(shapes.at(at.key)));
    }
    return config.set("shapes_dict", std::move(dict));
  }
  // Layers on several tensors are built by their calls.
  if (shapes.size() != 1) return {};
  return config.set("input_shape", without_batch(shapes[0]));
}

}  // namespace detail

Json to_config(const Layer& layer) { return detail::entry_of(layer); }

Json model_to_config(const Model& model, const Json& compile_config) {
  Json json = detail::entry_of(model);
  if (!compile_config.is_null()) json.set("compile_config", compile_config);
  return json;
}

}  // namespace strata::keras
