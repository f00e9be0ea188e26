#include "keras/saving/weight_groups.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "keras/graph/functional.h"
#include "keras/ops/operation.h"
#include "keras_files/model_layout.h"

namespace strata::keras::detail {
namespace {

/// Keras names groups after its Python class, which for one layer is not the name in the config.
std::string_view group_class(const Layer& layer) {
  const std::string_view name = layer->class_name();
  return name == "GroupQueryAttention" ? "GroupedQueryAttention" : name;
}

/// The entries of a model's layers by name.
std::map<std::string, const Json*> entries_of(const Json& config) {
  std::map<std::string, const Json*> entries;
  for (const Json& entry : config.at("layers").as_array()) {
    const Json* name = entry.find("name");
    if (name == nullptr) name = entry.at("config").find("name");
    if (name != nullptr && name->is_string()) entries.emplace(name->as_string(), &entry);
  }
  return entries;
}

const Json kNoEntry;

class GroupWalk {
 public:
  void visit(const Layer& layer, const std::string& path, const std::string& names,
             const Json& entry) {
    if (!seen_.insert(layer.impl().get()).second) return;
    places.push_back({.path = path,
                      .layer = layer.name(),
                      .names = names,
                      .weights = layer->own_weights(),
                      .keeper = dynamic_cast<KeepsAssets*>(layer.impl().get())});
    const auto* model = dynamic_cast<const ModelImpl*>(layer.impl().get());
    const bool has_structure = model != nullptr && model->class_name() != "Model";
    if (has_structure) {
      visit_layers(*model, path, names, entry);
    } else {
      visit_parts(layer, path, names);
    }
  }

  std::vector<WeightsPlace> places;

 private:
  static std::string below(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + '/' + name;
  }

  void visit_layers(const ModelImpl& model, const std::string& path, const std::string& names,
                    const Json& entry) {
    std::vector<Layer> layers = model.layers();
    std::map<std::string, const Json*> entries;
    if (!entry.is_null()) {
      const Json& config = entry.at("config");
      entries = entries_of(config);
      if (keras_files::is_functional(entry)) {
        std::map<std::string, size_t> order;
        for (const std::string& name : keras_files::canonical_order(config)) {
          order.emplace(name, order.size());
        }
        std::ranges::stable_sort(layers, {}, [&](const Layer& layer) {
          const auto found = order.find(layer.name());
          return found == order.end() ? order.size() : found->second;
        });
      }
    }
    keras_files::GroupNames groups;
    for (const Layer& layer : layers) {
      if (as_operation(layer) != nullptr) continue;
      const auto found = entries.find(layer.name());
      visit(layer, below(path, "layers/" + groups.next(group_class(layer))),
            below(names, layer.name()), found == entries.end() ? kNoEntry : *found->second);
    }
  }

  void visit_parts(const Layer& layer, const std::string& path, const std::string& names) {
    // Attributes by name, private ones last, as Python's dir() has them.
    auto parts = layer->sublayers();
    std::ranges::stable_sort(parts, {}, [](const auto& part) {
      return part.first.starts_with('_') ? '~' + part.first : part.first;
    });
    for (const auto& [name, part] : parts) {
      visit(part, below(path, name), below(names, part.name()), kNoEntry);
    }
  }

  std::unordered_set<const LayerImpl*> seen_;
};

}  // namespace

std::vector<WeightsPlace> weights_places(const Model& model, const Json& config) {
  GroupWalk walk;
  walk.visit(model, "", "", config);
  return std::move(walk.places);
}

keras_files::WeightsGroup collect_weights(const Model& model) {
  keras_files::WeightsGroup tree;
  for (const WeightsPlace& place : weights_places(model)) {
    keras_files::WeightsGroup& group = place.path.empty() ? tree : tree.make(place.path);
    group.name = place.layer;
    for (const Weight& weight : place.weights) {
      group.vars.push_back(weight.variable.value().detach().cpu().contiguous());
    }
    if (place.keeper != nullptr) group.named_vars = place.keeper->assets().tensors;
  }
  return tree;
}

std::map<std::string, std::string> collect_assets(const Model& model) {
  std::map<std::string, std::string> assets;
  for (const WeightsPlace& place : weights_places(model)) {
    if (place.keeper == nullptr) continue;
    for (const auto& [name, text] : place.keeper->assets().files) {
      assets.emplace(place.path + '/' + name, text);
    }
  }
  return assets;
}

void load_assets(const Model& model, const Json& config, const keras_files::WeightsGroup& tree,
                 const std::map<std::string, std::string>& assets) {
  for (const WeightsPlace& place : weights_places(model, config)) {
    if (place.keeper == nullptr) continue;
    LayerAssets own;
    const std::string folder = place.path + '/';
    for (auto each = assets.lower_bound(folder);
         each != assets.end() && each->first.starts_with(folder); ++each) {
      const std::string name = each->first.substr(folder.size());
      if (name.find('/') == std::string::npos) own.files.emplace(name, each->second);
    }
    if (const keras_files::WeightsGroup* group = tree.find(place.path)) {
      own.tensors = group->named_vars;
    }
    if (!own.empty()) place.keeper->load_assets(own);
  }
}

void Assignments::add(const std::string& layer, const Weight& weight, const at::Tensor& value) {
  STRATA_CHECK(value.sizes() == weight.variable.sizes(), kInvalidArgument, "[keras] load_weights '",
               source_, "': layer '", layer, "': got ", weight.name, " of shape ",
               to_string(value.sizes().vec()), "; the model's has shape ",
               to_string(weight.variable.sizes().vec()));
  values_.emplace_back(weight.variable, value);
}

void Assignments::apply() {
  for (auto& [variable, value] : values_) variable.assign(value);
}

void assign_weights(const Model& model, const Json& config, const keras_files::WeightsGroup& tree,
                    const std::string& source) {
  Assignments assignments(source);
  for (const WeightsPlace& place : weights_places(model, config)) {
    if (place.weights.empty()) continue;
    const keras_files::WeightsGroup* group = tree.find(place.path);
    const size_t found = group == nullptr ? 0 : group->vars.size();
    STRATA_CHECK(found == place.weights.size(), kInvalidArgument, "[keras] load_weights '", source,
                 "': layer '", place.layer, "' (group ", place.path.empty() ? "/" : place.path,
                 "): got ", found, " variables; the model's layer has ", place.weights.size());
    for (size_t i = 0; i < found; ++i) {
      assignments.add(place.layer, place.weights[i], group->vars[i]);
    }
  }
  assignments.apply();
}

}  // namespace strata::keras::detail
