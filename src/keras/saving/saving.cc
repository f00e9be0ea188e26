#include "strata/keras/saving.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <map>

#include "keras/saving/weight_groups.h"
#include "keras/training/training_state.h"
#include "keras_files/keras_archive.h"
#include "keras_files/legacy_model.h"
#include "keras_files/weights_file.h"
#include "runtime/group_agreement.h"
#include "strata/checkpoint/safetensors.h"

namespace strata::keras {
namespace {

using keras_files::WeightsGroup;

/// Every worker reads the same file; all get the same error.
void read_by_all(const Strategy& strategy, const std::function<void()>& read) {
  strata::detail::run_on_all(strategy.group(), "reading a model's file", read);
}

void write_by_chief(const Model& model, const std::function<void()>& write) {
  strata::detail::run_on_chief(model->strategy().group(), "writing a model's file", write);
}

/// Errors of what a file says, as a model's layers tell them, with the file's name before them.
template <typename Read>
auto with_path(const char* call, const std::string& path, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    constexpr std::string_view kModule = "[keras] ";
    std::string_view what = error.what();
    if (what.starts_with(kModule)) what.remove_prefix(kModule.size());
    throw Error(error.code(), str_cat(kModule, call, " '", path, "': ", what));
  }
}

void check_built(const Model& model, const char* what) {
  STRATA_CHECK(model->built(), kFailedPrecondition, "[keras] ", what, ": Model '", model.name(),
               "' has no weights yet; call it once, or give it an Input");
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&time, &parts);
  char text[32] = {};
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d@%H:%M:%S", &parts)};
}

/// Keras keeps what is in a LossScaleOptimizer a second time, by itself.
void add_optimizer(WeightsGroup& tree, detail::TrainingState training) {
  if (training.optimizer.empty()) return;
  WeightsGroup& group = tree.make("optimizer");
  group.vars = std::move(training.optimizer);
  if (parse_object(training.compile_config.at("optimizer"), "an optimizer").class_name ==
      "LossScaleOptimizer") {
    constexpr long kOwn = 4;  // iteration, rate, counter, scale
    if (group.vars.size() <= kOwn) return;
    group.make("inner_optimizer").vars.assign(group.vars.begin() + kOwn, group.vars.end());
  }
}

// --- .safetensors ---

std::vector<std::pair<std::string, const Weight*>> by_path(
    const std::vector<detail::WeightsPlace>& places) {
  std::vector<std::pair<std::string, const Weight*>> named;
  for (const detail::WeightsPlace& place : places) {
    for (const Weight& weight : place.weights) {
      named.emplace_back(place.names.empty() ? weight.name : place.names + '/' + weight.name,
                         &weight);
    }
  }
  return named;
}

void write_safetensors(const Model& model, const std::string& path) {
  const auto places = detail::weights_places(model);
  NamedTensors tensors;
  for (const auto& [name, weight] : by_path(places)) {
    tensors.emplace_back(name, weight->variable.value().detach().cpu().contiguous());
  }
  write_by_chief(model, [&] { save_safetensors(path, tensors, {{"format", "keras"}}); });
}

void read_safetensors(const Model& model, const std::string& path) {
  std::map<std::string, at::Tensor> tensors;
  read_by_all(model->strategy(), [&] {
    for (auto& [name, tensor] : load_safetensors(path)) tensors.emplace(name, tensor);
  });
  const auto places = detail::weights_places(model);
  detail::Assignments assignments(path);
  for (const auto& [name, weight] : by_path(places)) {
    const auto found = tensors.find(name);
    STRATA_CHECK(found != tensors.end(), kInvalidArgument, "[keras] load_weights '", path,
                 "': got no tensor '", name, "', which the model has");
    assignments.add(name.substr(0, name.rfind('/')), *weight, found->second);
    tensors.erase(found);
  }
  STRATA_CHECK(tensors.empty(), kInvalidArgument, "[keras] load_weights '", path, "': got tensor '",
               tensors.begin()->first, "'", tensors.size() > 1 ? " and others" : "",
               ", which the model does not have");
  assignments.apply();
}

// --- .h5 of older Keras ---

using LegacyLayer = keras_files::LegacyModel::Layer;

/// The layer of the file for each of the model's that has weights: by name, or in files of weights
/// alone, whose layers were numbered elsewhere, by their order, as in Keras.
std::vector<std::pair<Layer, const LegacyLayer*>> matched(const Model& model,
                                                          const keras_files::LegacyModel& file,
                                                          const std::string& path) {
  std::vector<std::pair<Layer, const LegacyLayer*>> matches;
  if (file.model_config.is_null()) {
    std::vector<const LegacyLayer*> with_weights;
    for (const LegacyLayer& layer : file.layers) {
      if (!layer.weights.empty()) with_weights.push_back(&layer);
    }
    for (const Layer& layer : model.layers()) {
      if (!layer->weights().empty()) matches.emplace_back(layer, nullptr);
    }
    STRATA_CHECK(matches.size() == with_weights.size(), kInvalidArgument, "[keras] load_weights '",
                 path, "': got ", with_weights.size(), " layers with weights; the model has ",
                 matches.size());
    for (size_t i = 0; i < matches.size(); ++i) matches[i].second = with_weights[i];
    return matches;
  }
  std::map<std::string, const LegacyLayer*> by_name;
  for (const LegacyLayer& layer : file.layers) by_name.emplace(layer.name, &layer);
  for (const Layer& layer : model.layers()) {
    const auto found = by_name.find(layer.name());
    matches.emplace_back(layer, found == by_name.end() ? nullptr : found->second);
  }
  return matches;
}

void assign_legacy(const Model& model, const keras_files::LegacyModel& file,
                   const std::string& path) {
  detail::Assignments assignments(path);
  for (const auto& [layer, from] : matched(model, file, path)) {
    std::vector<Weight> weights = layer->weights();
    std::stable_partition(weights.begin(), weights.end(), std::mem_fn(&Weight::trainable));
    const size_t count = from == nullptr ? 0 : from->weights.size();
    STRATA_CHECK(count == weights.size(), kInvalidArgument, "[keras] load_weights '", path,
                 "': layer '", layer.name(), "': got ", count, " variables; the model's layer has ",
                 weights.size());
    for (size_t i = 0; i < count; ++i) {
      assignments.add(layer.name(), weights[i], from->weights[i].second);
    }
  }
  assignments.apply();
}

/// Whether or not that is known here, the model itself can be read.
void restore_compiled(const Model& model, const Json& compile,
                      const std::vector<at::Tensor>& optimizer, const std::string& path) {
  try {
    with_path("load_model", path, [&] { detail::restore_training(model, compile, optimizer); });
  } catch (const Error& error) {
    throw Error(
        error.code(),
        str_cat(error.what(), "; load_model(\"", path,
                "\", {.compile = false}) reads the model without what it was compiled with"));
  }
}

Model load_legacy(const std::string& path, const LoadModelOptions& options) {
  keras_files::LegacyModel file;
  read_by_all(get_strategy(), [&] { file = keras_files::load_legacy_model(path, options.limits); });
  STRATA_CHECK(!file.model_config.is_null(), kInvalidArgument, "[keras] load_model '", path,
               "': got weights alone; make the model, and load_weights reads them into it");
  Model model = with_path("load_model", path, [&] { return model_from_config(file.model_config); });
  assign_legacy(model, file, path);
  // Keras itself does not bring the optimizer's slots back.
  if (options.compile && file.training_config.is_object()) {
    const Json* optimizer = file.training_config.find("optimizer_config");
    Json compile = Json::object();
    for (const auto& [key, value] : file.training_config.as_object()) {
      if (key != "optimizer_config") compile.set(key, value);
    }
    if (optimizer != nullptr) compile.set("optimizer", *optimizer);
    restore_compiled(model, compile, {}, path);
  }
  return model;
}

/// Keras 2 had other options and another order of state: what fails says so.
Model model_of(const keras_files::KerasArchive& archive, const std::string& path) {
  try {
    return with_path("load_model", path, [&] { return model_from_config(archive.config); });
  } catch (const Error& error) {
    if (!archive.is_keras_2()) throw;
    throw Error(error.code(), str_cat(error.what(), " (the file was written by Keras ",
                                      archive.keras_version(), "; Keras 3 writes what we read)"));
  }
}

/// As Keras: a compiled model takes the optimizer's state, too.
void load_tree(const Model& model, const WeightsGroup& tree, const std::string& path) {
  detail::assign_weights(model, {}, tree, path);
  with_path("load_weights", path, [&] { detail::load_assets(model, {}, tree, {}); });
  if (const WeightsGroup* optimizer = tree.find("optimizer")) {
    with_path("load_weights", path, [&] { detail::restore_optimizer(model, optimizer->vars); });
  }
}

bool is_compiled(const Json* config) {
  return config != nullptr && config->is_object() && !config->as_object().empty();
}

}  // namespace

void save_model(const Model& model, const std::string& path) {
  STRATA_CHECK(path.ends_with(".keras"), kInvalidArgument, "[keras] save: got '", path,
               "'; expected a name that ends in .keras (save_weights writes .weights.h5 and "
               ".safetensors)");
  check_built(model, "save");
  detail::TrainingState training = detail::training_state(model);
  keras_files::KerasArchive archive;
  archive.config = model_to_config(model, training.compile_config);
  archive.weights = detail::collect_weights(model);
  archive.assets = detail::collect_assets(model);
  archive.metadata.set("date_saved", now());
  add_optimizer(archive.weights, std::move(training));
  write_by_chief(model, [&] { keras_files::save_keras_archive(archive, path); });
}

Model load_model(const std::string& path, const LoadModelOptions& options) {
  if (path.ends_with(".h5")) return load_legacy(path, options);
  keras_files::KerasArchive archive;
  read_by_all(get_strategy(),
              [&] { archive = keras_files::load_keras_archive(path, {.limits = options.limits}); });
  Model model = model_of(archive, path);
  with_path("load_model", path,
            [&] { detail::load_assets(model, archive.config, archive.weights, archive.assets); });
  if (model->built()) detail::assign_weights(model, archive.config, archive.weights, path);
  const Json* compile = archive.config.find("compile_config");
  if (options.compile && is_compiled(compile)) {
    const WeightsGroup* optimizer = archive.weights.find("optimizer");
    const bool has_state = optimizer != nullptr && !archive.is_keras_2();
    restore_compiled(model, *compile, has_state ? optimizer->vars : std::vector<at::Tensor>(),
                     path);
  }
  return model;
}

void save_weights(const Model& model, const std::string& path) {
  check_built(model, "save_weights");
  if (path.ends_with(".safetensors")) {
    write_safetensors(model, path);
    return;
  }
  STRATA_CHECK(path.ends_with(".weights.h5"), kInvalidArgument, "[keras] save_weights: got '", path,
               "'; expected a name that ends in .weights.h5 or .safetensors");
  WeightsGroup tree = detail::collect_weights(model);
  add_optimizer(tree, detail::training_state(model));
  write_by_chief(model, [&] { keras_files::save_weights_file(tree, path); });
}

void load_weights(const Model& model, const std::string& path, const ReadLimits& limits) {
  check_built(model, "load_weights");
  if (path.ends_with(".safetensors")) {
    read_safetensors(model, path);
  } else if (path.ends_with(".keras")) {
    keras_files::KerasArchive archive;
    read_by_all(model->strategy(),
                [&] { archive = keras_files::load_keras_archive(path, {.limits = limits}); });
    load_tree(model, archive.weights, path);
  } else if (path.ends_with(".h5") && !path.ends_with(".weights.h5")) {
    keras_files::LegacyModel file;
    read_by_all(model->strategy(), [&] { file = keras_files::load_legacy_model(path, limits); });
    assign_legacy(model, file, path);
  } else {
    WeightsGroup weights;
    read_by_all(model->strategy(), [&] { weights = keras_files::load_weights_file(path, limits); });
    load_tree(model, weights, path);
  }
}

}  // namespace strata::keras
