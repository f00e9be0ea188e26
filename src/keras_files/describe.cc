#include "keras_files/describe.h"

#include <algorithm>
#include <iomanip>
#include <ostream>

#include "core/join.h"
#include "keras_files/check_weights.h"
#include "keras_files/keras_archive.h"
#include "keras_files/layer_rules.h"
#include "keras_files/legacy_model.h"
#include "keras_files/model_layout.h"
#include "keras_files/optimizer_layout.h"
#include "keras_files/weights_file.h"
#include "strata/core/error.h"

namespace strata::keras_files {
namespace {

std::string shape_text(at::IntArrayRef shape) { return '[' + join(shape) + ']'; }

/// A loss, metric or optimizer as a user gave it: its name, or what it is an object of.
std::string text_of(const Json& value) {
  if (value.is_string()) return value.as_string();
  if (value.is_array()) return '[' + join(value.as_array(), text_of) + ']';
  const Json* class_name = find_value(value, "class_name");
  if (class_name != nullptr && class_name->is_string()) return class_name->as_string();
  return value.dump();
}

int64_t numel_of(const WeightsGroup& group) {
  int64_t count = 0;
  for (const at::Tensor& tensor : group.vars) count += tensor.numel();
  return count;
}

void print_object(const SavedObject& object, const WeightsGroup& weights, std::ostream& out) {
  const WeightsGroup* group = weights.find(object.path);
  std::string text;
  for (size_t i = 0; group != nullptr && i < group->vars.size(); ++i) {
    const bool known = i < object.variables.size();
    text += str_cat(text.empty() ? "" : "  ", known ? object.variables[i].name + ' ' : "",
                    shape_text(group->vars[i].sizes()),
                    known && !object.variables[i].trainable ? " fixed" : "");
  }
  const auto parts = std::ranges::count(object.path, '/');
  out << std::string(static_cast<size_t>(2 * std::max<int64_t>(parts, 1)), ' ') << std::left
      << std::setw(32) << str_cat(object.name, " (", object.class_name, ')') << std::right
      << std::setw(10) << (group == nullptr ? 0 : numel_of(*group)) << (text.empty() ? "" : "  ")
      << text << (object.is_known ? "" : "  (of a class that is unknown to strata)") << '\n';
}

void print_compiled(const KerasArchive& archive, std::ostream& out) {
  const Json* compiled = find_value(archive.config, "compile_config");
  if (compiled == nullptr || find_value(*compiled, "optimizer") == nullptr) {
    out << "not compiled\n";
    return;
  }
  const Json& optimizer = *find_value(*compiled, "optimizer");
  out << "compiled: optimizer " << text_of(optimizer);
  for (const char* key : {"loss", "metrics", "weighted_metrics"}) {
    if (const Json* value = find_value(*compiled, key))
      out << ", " << key << ' ' << text_of(*value);
  }
  out << '\n';
  const WeightsGroup* state = archive.weights.find("optimizer");
  if (state == nullptr || state->vars.empty()) {
    out << "optimizer: no state\n";
    return;
  }
  std::vector<OptimizerSlot> slots;
  try {
    std::vector<std::vector<int64_t>> shapes;
    std::vector<std::string> paths;
    for (const VariablePlace& place : trainable_variables(archive.config)) {
      paths.push_back(place.path);
      shapes.push_back(
          archive.weights.at(place.path).vars.at(static_cast<size_t>(place.index)).sizes().vec());
    }
    slots = optimizer_slots(optimizer, shapes, paths);
  } catch (const Error&) {  // a class that we do not know: its variables are counted, not named
  }
  out << "optimizer: " << state->vars.size() << " variables";
  if (state->vars.size() == slots.size()) {
    std::vector<std::string> kinds;
    for (const OptimizerSlot& slot : slots) {
      if (std::ranges::find(kinds, slot.kind) == kinds.end()) kinds.push_back(slot.kind);
    }
    for (size_t i = 0; i < kinds.size(); ++i) out << (i == 0 ? ": " : ", ") << kinds[i];
  } else if (state->vars.size() <= 2) {
    out << ": not trained yet";
  } else if (!slots.empty()) {
    out << ", expected " << slots.size() << ": Keras would start training anew";
  }
  if (const at::Tensor& steps = state->vars[0];
      steps.numel() == 1 && (steps.scalar_type() == at::kLong || steps.scalar_type() == at::kInt)) {
    out << "; iteration " << steps.item<int64_t>();
  }
  out << '\n';
}

void print_tensor(const std::string& name, const at::Tensor& tensor, std::ostream& out) {
  out << "  " << std::left << std::setw(48) << name << std::right << std::setw(10) << tensor.numel()
      << "  " << shape_text(tensor.sizes()) << '\n';
}

/// @return how many values there are in and below `group`.
int64_t print_group(const WeightsGroup& group, const std::string& path, std::ostream& out) {
  int64_t count = numel_of(group);
  const std::string prefix = path.empty() ? "" : path + '/';
  for (size_t i = 0; i < group.vars.size(); ++i) {
    print_tensor(str_cat(prefix, "vars/", i), group.vars[i], out);
  }
  for (const auto& [name, tensor] : group.named_vars) {
    print_tensor(str_cat(prefix, "vars/", name), tensor, out);
    count += tensor.numel();
  }
  for (const auto& [name, below] : group.groups) count += print_group(below, prefix + name, out);
  return count;
}

void print_legacy_model(const LegacyModel& model, const std::string& path, std::ostream& out) {
  const Json* class_name = find_value(model.model_config, "class_name");
  const bool alone = model.model_config.is_null();
  out << path << ": "
      << (alone                   ? "weights alone"
          : class_name == nullptr ? "a model"
                                  : text_of(*class_name))
      << ", written by Keras "
      << (model.keras_version.empty() ? "of an unknown version" : model.keras_version) << '\n';
  int64_t count = 0;
  for (const LegacyModel::Layer& layer : model.layers) {
    if (layer.weights.empty()) out << "  " << layer.name << '\n';
    for (const auto& [name, tensor] : layer.weights) {
      print_tensor(str_cat(layer.name, ": ", name), tensor, out);
      count += tensor.numel();
    }
  }
  out << "parameters: " << count << '\n';
  if (alone) return;
  const Json* optimizer = find_value(model.training_config, "optimizer_config");
  if (optimizer == nullptr) {
    out << "not compiled\n";
    return;
  }
  out << "compiled: optimizer " << text_of(*optimizer);
  for (const char* key : {"loss", "metrics", "weighted_metrics"}) {
    if (const Json* value = find_value(model.training_config, key))
      out << ", " << key << ' ' << text_of(*value);
  }
  out << "\noptimizer: " << model.optimizer_weights.size() << " variables\n";
}

}  // namespace

void describe_keras_h5(const std::string& path, std::ostream& out) {
  try {
    print_legacy_model(load_legacy_model(path), path, out);
    return;
  } catch (const Error& error) {
    // A .weights.h5 has neither model_config nor layer_names.
    if (error.code() != ErrorCode::kInvalidArgument) throw;
  }
  const WeightsGroup weights = load_weights_file(path);
  out << path << ": weights alone\n";
  const int64_t count = print_group(weights, "", out);
  out << "values: " << count << ", " << weights.num_bytes() << " bytes\n";
}

bool describe_keras_archive(const std::string& path, std::ostream& out) {
  const KerasArchive archive = load_keras_archive(path);
  const std::string version = archive.keras_version();
  out << path << ": " << archive.config.at("class_name").as_string() << ", written by Keras "
      << (version.empty() ? "of an unknown version" : version)
      << (archive.is_keras_2() ? " (tf-keras, the format before Keras 3)" : "") << '\n';
  int64_t trainable = 0, others = 0;
  for (const SavedObject& object : saved_objects(archive.config)) {
    print_object(object, archive.weights, out);
    const WeightsGroup* group = archive.weights.find(object.path);
    for (size_t i = 0; group != nullptr && i < group->vars.size(); ++i) {
      const bool fixed = i < object.variables.size() && !object.variables[i].trainable;
      (fixed ? others : trainable) += group->vars[i].numel();
    }
  }
  out << "parameters: " << trainable + others << ", " << trainable << " trainable, " << others
      << " not\n";
  print_compiled(archive, out);
  for (const auto& [name, bytes] : archive.assets) {
    out << "asset " << name << ": " << bytes.size() << " bytes\n";
  }
  try {
    check_weights(archive.config, archive.weights, path);
    return true;
  } catch (const Error& error) {
    out << "damaged: " << error.what() << '\n';
    return false;
  }
}

}  // namespace strata::keras_files
