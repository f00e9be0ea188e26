#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "keras/call_options.h"
#include "keras/graph/functional.h"
#include "keras/graph/input_layer.h"
#include "keras/graph/model_entry.h"
#include "keras/ops/operation.h"
#include "keras_files/keras_history.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/saving.h"
#include "strata/keras/sequential.h"

namespace strata::keras {
namespace detail {
namespace {

[[noreturn]] void damaged(const std::string& model, const std::string& what) {
  STRATA_CHECK(false, kDataLoss, "[keras] config of model '", model, "': ", what);
}

const Json* find_text(const Json& json, const char* key) {
  const Json* value = json.is_object() ? json.find(key) : nullptr;
  return value != nullptr && value->is_string() ? value : nullptr;
}

std::string text(const Json& json, const char* key) {
  const Json* value = find_text(json, key);
  return value == nullptr ? std::string() : value->as_string();
}

Shape shape_of(const Json& json) {
  Shape shape;
  for (const Json& size : json.as_array()) shape.push_back(size.is_null() ? kNone : size.as_int());
  return shape;
}

/// An InputLayer's tensor.
SymbolicTensor input_of(const Json& config) {
  const std::string name = text(config, "name");
  const Json* shape = config.find("batch_shape");
  if (shape == nullptr) shape = config.find("batch_input_shape");  // Keras 2
  STRATA_CHECK(shape != nullptr && shape->is_array(), kDataLoss, "[keras] config of InputLayer '",
               name, "': got no 'batch_shape'");
  for (const char* key : {"sparse", "ragged", "optional"}) {
    const Json* value = config.find(key);
    STRATA_CHECK(value == nullptr || value->is_null() || !value->as_bool(), kUnimplemented,
                 "[keras] config of InputLayer '", name, "': got option '", key,
                 "' = true; strata has only false");
  }
  const Json* dtype = config.find("dtype");
  std::string dtype_name = "float32";
  if (dtype != nullptr && dtype->is_string()) dtype_name = dtype->as_string();
  if (dtype != nullptr && dtype->is_object()) dtype_name = text(dtype->at("config"), "name");
  if (dtype_name == "string") return make_text_input(shape_of(*shape), name);
  return make_input(shape_of(*shape), dtype_of_name(dtype_name), name);
}

using keras_files::KerasHistory;

/// Members of an object by name, as Keras orders them.
std::map<std::string, const Json*> by_key(const Json& object) {
  std::map<std::string, const Json*> members;
  for (const auto& [key, value] : object.as_object()) members.emplace(key, &value);
  return members;
}

/// A call as a file has it: its tensors, and the rest with references to them.
struct FileCall {
  std::vector<KerasHistory> tensors = {};
  Json options = {};
};

bool is_tensor(const Json& json) { return text(json, "class_name") == "__keras_tensor__"; }

/// `json` with references in place of tensors, which `call` takes.
Json take_tensors(const Json& json, FileCall& call) {
  if (is_tensor(json)) {
    const Json& history = json.at("config").at("keras_history");
    STRATA_CHECK(keras_files::is_keras_history(history), kDataLoss,
                 "[keras] config: got keras_history ", history.dump(),
                 "; expected [layer, call, output]");
    call.tensors.push_back(keras_files::keras_history_of(history));
    return tensor_reference(call.tensors.size() - 1);
  }
  if (json.is_array()) {
    Json list = Json::array();
    for (const Json& each : json.as_array()) list.push_back(take_tensors(each, call));
    return list;
  }
  if (json.is_object()) {
    if (text(json, "class_name") == "__tuple__") return take_tensors(json.at("items"), call);
    std::map<std::string, Json> done;
    for (const auto& [key, value] : by_key(json)) done.emplace(key, take_tensors(*value, call));
    Json object = Json::object();
    for (const auto& [key, value] : json.as_object()) object.set(key, std::move(done.at(key)));
    return object;
  }
  return json;
}

/// What Keras calls the tensors that a layer takes by place.
constexpr std::array kPlaces = {"inputs", "x", "sequences", "query", "value", "key"};

/// A layer's call: tensors by place, then named ones, then masks.
FileCall layer_call(const std::string& layer, const Json& args, const Json& kwargs) {
  FileCall call;
  const auto take_place = [&](const auto& self, const Json& argument) -> void {
    if (is_tensor(argument)) {
      take_tensors(argument, call);
    } else if (argument.is_array()) {
      for (const Json& each : argument.as_array()) self(self, each);
    } else if (argument.is_object() && argument.find("class_name") == nullptr) {
      for (const auto& [key, value] : by_key(argument)) self(self, *value);
    } else {
      STRATA_CHECK(argument.is_null(), kUnimplemented, "[keras] layer '", layer,
                   "': got a call with argument ", argument.dump(), "; expected tensors");
    }
  };
  take_place(take_place, args);
  for (const char* place : kPlaces) {
    const Json* value = kwargs.find(place);
    if (value != nullptr && !value->is_null()) take_place(take_place, *value);
  }
  Json options = Json::object();
  for (const auto& [key, value] : by_key(kwargs)) {
    const bool done = std::ranges::find(kPlaces, key) != kPlaces.end();
    // The mode of a call is its model's.
    if (done || value->is_null() || key == "training" || key == "mask") continue;
    options.set(key, take_tensors(*value, call));
  }
  if (const Json* mask = kwargs.find("mask"); mask != nullptr) {
    const size_t before = call.tensors.size();
    Json taken = take_tensors(*mask, call);
    if (call.tensors.size() > before) options.set("mask", std::move(taken));
  }
  if (!options.as_object().empty()) call.options = std::move(options);
  return call;
}

/// One entry of a layer's `inbound_nodes`.
FileCall call_of(const Layer& layer, const Json& node) {
  if (node.is_array()) {  // the old form: [["dense", 0, 0, {}], ...]
    FileCall call;
    Json kwargs = Json::object();
    for (const Json& each : node.as_array()) {
      STRATA_CHECK(keras_files::is_keras_history(each), kDataLoss, "[keras] layer '", layer.name(),
                   "': got inbound node ", node.dump(), "; expected [layer, call, output] triples");
      if (each.as_array().size() > 3 && each.as_array()[3].is_object()) {
        for (const auto& [key, value] : each.as_array()[3].as_object()) kwargs.set(key, value);
      }
    }
    call.options = layer_call(layer.name(), Json::array(), kwargs).options;
    keras_files::collect_keras_histories(node, call.tensors);
    return call;
  }
  const Json* args = node.find("args");
  const Json* kwargs = node.find("kwargs");
  const Json given_args = args == nullptr ? Json::array() : *args;
  const Json given_kwargs = kwargs == nullptr ? Json::object() : *kwargs;
  if (as_operation(layer) == nullptr) {
    return layer_call(layer.name(), given_args, given_kwargs);
  }
  FileCall call;
  call.options = Json::object();
  call.options.set("args", take_tensors(given_args, call));
  call.options.set("kwargs", take_tensors(given_kwargs, call));
  return call;
}

/// Makes the layers of a functional model and then their calls, as soon as there is what each
/// needs.
class Builder {
 public:
  explicit Builder(const Json& config) : name_(text(config, "name")) {
    for (const Json& entry : config.at("layers").as_array()) add(entry);
    connect();
  }

  std::vector<SymbolicTensor> tensors(const Json& references) const {
    std::vector<KerasHistory> all;
    keras_files::collect_keras_histories(references, all);
    std::vector<SymbolicTensor> tensors;
    for (KerasHistory& each : all) {
      const Item& item = item_of(each.layer);
      if (item.is_functional) each.call = std::max<int64_t>(each.call - 1, 0);  // counted from one
      const std::optional<SymbolicTensor> tensor = find(each);
      if (!tensor) {
        damaged(name_, str_cat("an output is call ", each.call, ", output ", each.output,
                               " of layer '", each.layer, "', which has none such"));
      }
      tensors.push_back(*tensor);
    }
    return tensors;
  }

 private:
  struct Item {
    std::optional<Layer> layer;
    std::vector<FileCall> calls;  ///< In order; `made` counts those that are there.
    std::vector<std::vector<SymbolicTensor>> made;
    bool is_functional = false;
  };

  void add(const Json& entry) {
    const Json& config = entry.at("config");
    std::string name = text(entry, "name");
    if (name.empty()) name = text(config, "name");
    if (name.empty()) damaged(name_, "a layer has no name");
    Item item;
    if (text(entry, "class_name") == "InputLayer") {
      item.made.push_back({input_of(config)});
    } else {
      item.layer = layer_from_config(entry);
      item.is_functional = dynamic_cast<const FunctionalImpl*>(item.layer->impl().get()) != nullptr;
      if (const Json* nodes = entry.find("inbound_nodes")) {
        for (const Json& node : nodes->as_array()) item.calls.push_back(call_of(*item.layer, node));
      }
    }
    if (!by_name_.emplace(name, items_.size()).second) {
      damaged(name_, str_cat("two layers are named '", name, "'"));
    }
    items_.push_back(std::move(item));
  }

  const Item& item_of(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
      damaged(name_, str_cat("got a tensor of '", name, "'; there is no such layer"));
    }
    return items_[found->second];
  }

  std::optional<SymbolicTensor> find(const KerasHistory& reference) const {
    const Item& item = item_of(reference.layer);
    if (reference.call < 0 || static_cast<size_t>(reference.call) >= item.made.size()) return {};
    const auto& outputs = item.made[static_cast<size_t>(reference.call)];
    if (reference.output < 0 || static_cast<size_t>(reference.output) >= outputs.size()) {
      damaged(name_, str_cat("got output ", reference.output, " of layer '", reference.layer,
                             "', which has ", outputs.size()));
    }
    return outputs[static_cast<size_t>(reference.output)];
  }

  bool make_next(Item& item) {
    FileCall& call = item.calls[item.made.size()];
    std::vector<SymbolicTensor> inputs;
    for (const KerasHistory& each : call.tensors) {
      std::optional<SymbolicTensor> tensor = find(each);
      if (!tensor) return false;
      inputs.push_back(std::move(*tensor));
    }
    if (inputs.empty()) {
      damaged(name_, str_cat("layer '", item.layer->name(), "' is called without tensors"));
    }
    item.made.push_back(item.layer->call(inputs, call.options));
    return true;
  }

  void connect() {
    std::vector<Item*> open;
    for (Item& item : items_) {
      if (item.layer && !item.calls.empty()) open.push_back(&item);
    }
    while (!open.empty()) {
      bool progress = false;
      std::vector<Item*> still_open;
      for (Item* item : open) {
        while (item->made.size() < item->calls.size() && make_next(*item)) progress = true;
        if (item->made.size() < item->calls.size()) still_open.push_back(item);
      }
      if (!progress) {
        damaged(name_, str_cat("layer '", open[0]->layer->name(),
                               "' needs a tensor that nothing makes, or that depends on it"));
      }
      open = std::move(still_open);
    }
  }

  std::string name_;
  std::vector<Item> items_;
  std::unordered_map<std::string, size_t> by_name_;
};

Model functional_from(const Json& config) {
  const Builder builder(config);
  return {builder.tensors(config.at("input_layers")), builder.tensors(config.at("output_layers")),
          text(config, "name")};
}

/// What a Sequential without an InputLayer says of its input's shape.
std::optional<Shape> input_shape_of(const Json& entry, const Json& config, const Json& first) {
  const auto shape_at = [](const Json* json, const char* key) -> const Json* {
    const Json* value = json != nullptr && json->is_object() ? json->find(key) : nullptr;
    if (value == nullptr || !value->is_array() || value->as_array().empty()) return nullptr;
    return value->as_array()[0].is_array() ? nullptr : value;
  };
  const Json* shape = shape_at(&config, "build_input_shape");
  if (shape == nullptr) shape = shape_at(entry.find("build_config"), "input_shape");
  if (shape == nullptr) shape = shape_at(first.find("config"), "batch_input_shape");
  if (shape == nullptr) shape = shape_at(first.find("config"), "batch_shape");
  return shape == nullptr ? std::nullopt : std::optional(shape_of(*shape));
}

Model sequential_from(const Json& entry) {
  const Json& config = entry.at("config");
  const std::string name = text(config, "name");
  const Json::Array& entries = config.at("layers").as_array();
  std::optional<SymbolicTensor> input;
  std::vector<Layer> layers;
  for (const Json& each : entries) {
    if (text(each, "class_name") == "InputLayer") {
      if (input || !layers.empty()) damaged(name, "an InputLayer follows other layers");
      input = input_of(each.at("config"));
    } else {
      layers.push_back(layer_from_config(each));
    }
  }
  if (!input && !entries.empty()) {
    if (const std::optional<Shape> shape = input_shape_of(entry, config, entries[0])) {
      input = make_input(*shape, at::kFloat, "");
    }
  }
  if (input) return Sequential(*input, std::move(layers), name);
  return Sequential(std::move(layers), name);
}

}  // namespace

bool is_model_class(std::string_view class_name) {
  return class_name == "Sequential" || class_name == "Functional" || class_name == "Model";
}

Layer model_layer_from_entry(const Json& entry) { return model_from_config(entry); }

}  // namespace detail

Model model_from_config(const Json& object) {
  const ObjectJson parsed = parse_object(object, "a model");
  const Json& config = parsed.config;
  const std::string name = detail::text(config, "name");
  const bool is_functional = config.is_object() && config.find("input_layers") != nullptr;
  STRATA_CHECK(detail::is_model_class(parsed.class_name), kUnimplemented, "[keras] model '", name,
               "' is of class ", parsed.class_name,
               "; expected Sequential or Functional. Of others Keras keeps no structure");
  STRATA_CHECK(config.is_object() && config.find("layers") != nullptr, kDataLoss,
               "[keras] config of model '", name, "': got no 'layers'");
  STRATA_CHECK(is_functional || parsed.class_name == "Sequential", kDataLoss,
               "[keras] config of model '", name, "': got no 'input_layers'");
  Model model = is_functional ? detail::functional_from(config) : detail::sequential_from(object);
  const Json* trainable = config.find("trainable");
  if (trainable != nullptr && trainable->is_bool() && !trainable->as_bool()) {
    model->set_trainable(false);
  }
  return model;
}

}  // namespace strata::keras
