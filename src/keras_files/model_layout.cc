#include "keras_files/model_layout.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "keras_files/layer_rules.h"
#include "strata/core/error.h"

namespace strata::keras_files {
namespace {

struct Node {
  SavedObject object = {};  // its path comes last
  std::optional<int64_t> shared_id = {};
  std::vector<std::pair<std::string, Node>> parts = {};  // in the order in which they are made
  bool in_model_order = false;                           // else they are saved by name
};

const Json& config_of(const Json& entry) {
  const Json* config = find_value(entry, "config");
  STRATA_CHECK(config != nullptr && config->is_object(), kDataLoss,
               "[keras_files] model config: got an entry without 'config'; expected an object with "
               "'class_name' and 'config'");
  return *config;
}

std::string class_of(const Json& entry) {
  const Json* name = find_value(entry, "class_name");
  STRATA_CHECK(name != nullptr && name->is_string(), kDataLoss,
               "[keras_files] model config: got a layer without 'class_name'");
  return name->as_string();
}

std::string name_of(const Json& entry) {
  const Json* name = find_value(config_of(entry), "name");
  if (name == nullptr) name = find_value(entry, "name");
  return name != nullptr && name->is_string() ? name->as_string() : "";
}

/// A layer as `activation` of another: {"module": "keras.layers", ...}.
bool is_layer_object(const Json* value) {
  if (value == nullptr || !value->is_object()) return false;
  const Json* module = find_value(*value, "module");
  return find_value(*value, "config") != nullptr && module != nullptr && module->is_string() &&
         module->as_string().starts_with("keras.layers");
}

std::vector<int64_t> input_shape_of(const Json& entry, const std::vector<int64_t>& inherited) {
  const Json* build = find_value(entry, "build_config");
  const Json* shape = build == nullptr ? nullptr : find_value(*build, "input_shape");
  if (shape == nullptr || !shape->is_array()) return inherited;
  std::vector<int64_t> sizes;
  for (const Json& size : shape->as_array()) sizes.push_back(size.is_int() ? size.as_int() : -1);
  return sizes;
}

/// What Keras adds to a layer's variables where these options are set is not in the table.
bool has_unknown_variables(const Json& config) {
  const Json* dtype = find_value(config, "dtype");
  const Json* policy = dtype != nullptr ? find_value(*dtype, "class_name") : nullptr;
  const bool quantized =
      policy != nullptr && policy->is_string() && policy->as_string().starts_with("Quantized");
  return quantized || find_value(config, "lora_rank") != nullptr ||
         find_value(config, "quantization_config") != nullptr;
}

/// Keras names groups after its Python class, which for one layer is not the name in the config.
std::string group_class_of(const Json& entry) {
  std::string name = class_of(entry);
  return name == "GroupQueryAttention" ? "GroupedQueryAttention" : name;
}

struct Context {
  bool frozen = false;
  std::vector<int64_t> input = {};
};

Node make_node(const Json& entry, const Context& context);

void add_layers(const Json& entry, const Context& context, Node& node) {
  const Json& config = config_of(entry);
  node.in_model_order = true;
  std::vector<const Json*> layers;
  if (is_functional(entry)) {
    std::map<std::string, const Json*> by_name;
    for (const Json& layer : config.at("layers").as_array()) {
      const Json* name = find_value(layer, "name");
      by_name.emplace(name != nullptr ? name->as_string() : name_of(layer), &layer);
    }
    for (const std::string& name : canonical_order(config)) layers.push_back(by_name.at(name));
  } else {
    for (const Json& layer : config.at("layers").as_array()) {
      if (class_of(layer) != "InputLayer") layers.push_back(&layer);
    }
  }
  GroupNames names;
  for (const Json* layer : layers) {
    if (!is_layer(*layer)) continue;
    node.parts.emplace_back("layers/" + names.next(group_class_of(*layer)),
                            make_node(*layer, {.frozen = context.frozen}));
  }
}

Node make_part(const PartRow& part, const Json& config, const Context& context) {
  if (!part.class_name.empty()) {
    Json entry = Json::object();
    Json own = config;
    own.set("name", part.source);
    entry.set("class_name", part.class_name).set("config", std::move(own));
    return make_node(entry, context);
  }
  const Json* source = find_value(config, part.source);
  const bool copied = source == nullptr && part.source == "backward_layer";
  if (copied) source = find_value(config, "layer");
  STRATA_CHECK(source != nullptr && source->is_object(), kDataLoss,
               "[keras_files] model config: layer '", name_of(config), "': got no '", part.source,
               "'; expected a layer");
  Node node = make_node(*source, context);
  if (copied) {
    node.shared_id.reset();
    std::string& name = node.object.name;
    if (name.starts_with("forward_")) name.erase(0, std::string_view("forward_").size());
    name = "backward_" + name;
  }
  return node;
}

Node make_node(const Json& entry, const Context& given) {
  const Json& config = config_of(entry);
  Node node;
  node.object.name = name_of(entry);
  node.object.class_name = class_of(entry);
  const Json* shared = find_value(entry, "shared_object_id");
  if (shared != nullptr && shared->is_int()) node.shared_id = shared->as_int();
  const Json* trainable = find_value(config, "trainable");
  const Context context = {
      .frozen =
          given.frozen || (trainable != nullptr && trainable->is_bool() && !trainable->as_bool()),
      .input = input_shape_of(entry, given.input)};

  if (const Json* layers = find_value(config, "layers"); layers != nullptr && layers->is_array()) {
    add_layers(entry, context, node);
    return node;
  }
  const LayerRow* row = find_layer(node.object.class_name);
  if (row == nullptr || has_unknown_variables(config)) {
    node.object.is_known = false;
    return node;
  }
  for (const VariableRow& variable : row->variables) {
    if (!holds(variable.when, config)) continue;
    node.object.variables.push_back(make_spec(variable, config, context.input));
    node.object.variables.back().trainable &= !context.frozen;
  }
  for (const PartRow& part : row->parts) {
    if (!holds(part.when, config)) continue;
    node.parts.emplace_back(part.group, make_part(part, config, context));
  }
  if (const Json* cells = find_value(config, "cells"); cells != nullptr && cells->is_array()) {
    GroupNames names;  // StackedRNNCells; what a later cell gets is not the layer's input
    for (const Json& cell : cells->as_array()) {
      node.parts.emplace_back("cells/" + names.next(class_of(cell)),
                              make_node(cell, {.frozen = context.frozen}));
    }
    node.in_model_order = true;
  }
  for (const char* key : {"activation", "recurrent_activation"}) {
    const Json* activation = find_value(config, key);
    if (is_layer_object(activation)) {
      node.parts.emplace_back(key, make_node(*activation, {.frozen = context.frozen}));
    }
  }
  if (node.object.class_name == "_PartDense") node.object.class_name = "EinsumDense";
  return node;
}

/// Gives every object its path, at the first place where Keras comes to it.
void place(Node& node, const std::string& path, std::map<int64_t, std::string>& shared,
           std::vector<SavedObject>& to) {
  if (node.shared_id) {
    const auto [first, is_new] = shared.emplace(*node.shared_id, path);
    if (!is_new) {
      node.object.path = first->second;
      node.parts.clear();
      return;
    }
  }
  node.object.path = path;
  to.push_back(node.object);
  std::vector<std::pair<std::string, Node>*> parts;
  for (auto& part : node.parts) parts.push_back(&part);
  if (!node.in_model_order) {
    // Attributes by name, private ones last.
    std::ranges::stable_sort(parts, {}, [](const auto* part) {
      return part->first.starts_with('_') ? '~' + part->first : part->first;
    });
  }
  for (auto* part : parts) {
    place(part->second, path.empty() ? part->first : path + '/' + part->first, shared, to);
  }
}

void collect(const Node& node, std::set<std::string>& seen, std::vector<VariablePlace>& to) {
  STRATA_CHECK(node.object.is_known, kUnimplemented, "[keras_files] trainable_variables: layer '",
               node.object.name, "' is of class ", node.object.class_name,
               ", whose variables are unknown; expected a layer of Keras without LoRA or "
               "quantization");
  if (!seen.insert(node.object.path).second) return;
  for (size_t i = 0; i < node.object.variables.size(); ++i) {
    if (node.object.variables[i].trainable && !node.object.variables[i].is_of_part) {
      to.push_back({.path = node.object.path, .index = static_cast<int64_t>(i)});
    }
  }
  for (const auto& [name, part] : node.parts) collect(part, seen, to);
}

struct Layout {
  Node root;
  std::vector<SavedObject> objects;
};

Layout lay_out(const Json& model) {
  const Json& config = config_of(model);
  const Json* layers = find_value(config, "layers");
  STRATA_CHECK(layers != nullptr && layers->is_array(), kDataLoss,
               "[keras_files] model config: class ", class_of(model),
               " has no 'layers'; expected Sequential or Functional. Of other models Keras keeps "
               "no structure, which is in their own code alone");
  Layout layout;
  layout.root = make_node(model, {});
  std::map<int64_t, std::string> shared;
  place(layout.root, "", shared, layout.objects);
  return layout;
}

}  // namespace

bool is_layer(const Json& entry) {
  const Json* module = find_value(entry, "module");
  return module == nullptr || !module->is_string() ||
         !module->as_string().starts_with("keras.src.ops");
}

bool is_functional(const Json& entry) {
  const Json* config = find_value(entry, "config");
  return config != nullptr && find_value(*config, "input_layers") != nullptr;
}

std::vector<SavedObject> saved_objects(const Json& model) { return lay_out(model).objects; }

std::vector<VariablePlace> trainable_variables(const Json& model) {
  const Node node = lay_out(model).root;
  std::set<std::string> seen;
  std::vector<VariablePlace> places;
  collect(node, seen, places);
  return places;
}

}  // namespace strata::keras_files
