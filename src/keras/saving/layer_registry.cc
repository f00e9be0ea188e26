#include "strata/keras/layer_registry.h"

#include <map>

#include "core/mutex.h"
#include "keras/graph/model_entry.h"
#include "keras/layers/layer_class.h"
#include "keras/ops/operation.h"

namespace strata::keras {
namespace {

struct Registry {
  mutable Mutex mutex;
  // By class.
  std::map<std::string, LayerFactory, std::less<>> factories STRATA_GUARDED_BY(mutex);
  /// The names of user-defined classes: "mine>Scale".
  std::map<std::string, LayerFactory, std::less<>> registered STRATA_GUARDED_BY(mutex);
  // By class.
  std::map<std::string, std::string, std::less<>> registered_names STRATA_GUARDED_BY(mutex);

  Registry() {
    using Family = std::vector<LayerClass> (*)();
    constexpr Family kFamilies[] = {activation_layers,
                                    application_layers,
                                    attention_layers,
                                    augmentation_policy_layers,
                                    batch_mixing_layers,
                                    batch_normalization_layers,
                                    category_layers,
                                    color_augmentation_layers,
                                    concatenate_layers,
                                    conv_lstm_layers,
                                    conv_transpose_layers,
                                    convolutional_layers,
                                    core_layers,
                                    depthwise_conv_layers,
                                    distortion_layers,
                                    dot_layers,
                                    einsum_dense_layers,
                                    embedding_layers,
                                    group_query_attention_layers,
                                    hashing_layers,
                                    histogram_equalization_layers,
                                    image_preprocessing_layers,
                                    lookup_layers,
                                    merging_layers,
                                    multi_head_attention_layers,
                                    normalization_layers,
                                    padding_layers,
                                    pooling_layers,
                                    preprocessing_layers,
                                    random_image_layers,
                                    recurrent_cells,
                                    recurrent_layers,
                                    recurrent_wrappers,
                                    regularization_layers,
                                    reshaping_layers,
                                    spectral_normalization_layers,
                                    spectrogram_layers,
                                    stacked_cells,
                                    text_layers,
                                    up_sampling_layers};
    for (const Family family : kFamilies) {
      for (const LayerClass& each : family()) factories.emplace(each.name, each.make);
    }
  }
};

Registry& registry() {
  static Registry registry;
  return registry;
}

/// keras.saving.register_keras_serializable's.
const std::string kDefaultPackage = "Custom>";

/// "mine>Scale" in a file; empty: Keras's own class, or a file that does not say it.
std::string package_and_class(const Json& object) {
  const Json* name = object.is_object() ? object.find("registered_name") : nullptr;
  if (name == nullptr || !name->is_string()) return {};
  return name->as_string().find('>') == std::string::npos ? std::string() : name->as_string();
}

/// A class of another package than a registered one's is another class. One that was registered
/// without a package is all of its name.
const LayerFactory* find_factory(const Registry& all, const Json& object,
                                 const std::string& class_name) STRATA_REQUIRES(all.mutex) {
  const auto in = [](const auto& map, const std::string& key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
  };
  if (const std::string full = package_and_class(object); !full.empty()) {
    const LayerFactory* found = in(all.registered, full);
    return found != nullptr ? found : in(all.registered, kDefaultPackage + class_name);
  }
  if (const LayerFactory* found = in(all.factories, class_name)) return found;
  const std::string* full = in(all.registered_names, class_name);
  return full == nullptr ? nullptr : in(all.registered, *full);
}

/// What to register the class of `object` by.
std::string name_to_register(const Json& object, const std::string& class_name) {
  const std::string full = package_and_class(object);
  return full.empty() || full.starts_with(kDefaultPackage) ? class_name : full;
}

std::string name_in(const Json& config) {
  const Json* name = config.find("name");
  return name != nullptr && name->is_string() ? name->as_string() : std::string("?");
}

}  // namespace

void register_layer(const std::string& name, LayerFactory factory) {
  STRATA_CHECK(factory != nullptr, kInvalidArgument, "[keras] register_layer: got '", name,
               "' with an empty function; expected one that makes a layer of its config");
  const size_t mark = name.find('>');
  const std::string class_name = mark == std::string::npos ? name : name.substr(mark + 1);
  const std::string full = mark == std::string::npos ? kDefaultPackage + name : name;
  STRATA_CHECK(!class_name.empty() && mark != 0, kInvalidArgument, "[keras] register_layer: got '",
               name, "'; expected \"Class\" or \"package>Class\"");
  const MutexLock lock(registry().mutex);
  const bool built_in = mark == std::string::npos && registry().factories.contains(class_name);
  STRATA_CHECK(!built_in && registry().registered.emplace(full, std::move(factory)).second,
               kAlreadyExists, "[keras] register_layer: there is a layer class '", name,
               "' already");
  registry().registered_names.emplace(class_name, full);
}

namespace detail {

std::optional<std::string> registered_name(const std::string& class_name) {
  const MutexLock lock(registry().mutex);
  const auto found = registry().registered_names.find(class_name);
  if (found != registry().registered_names.end()) return found->second;
  if (registry().factories.contains(class_name)) return std::nullopt;
  return kDefaultPackage + class_name;
}

}  // namespace detail

Layer layer_from_config(const Json& object) {
  if (detail::is_operation(object)) return detail::operation_from_config(object);
  const ObjectJson parsed = parse_object(object, "a layer");
  if (detail::is_model_class(parsed.class_name)) return detail::model_layer_from_entry(object);
  LayerFactory factory;
  {
    const Registry& all = registry();
    const MutexLock lock(all.mutex);
    if (const LayerFactory* found = find_factory(all, object, parsed.class_name)) factory = *found;
    STRATA_CHECK(factory != nullptr, kUnimplemented, "[keras] layer '", name_in(parsed.config),
                 "' is of class ", parsed.class_name,
                 ", which is unknown to strata; register_layer(\"",
                 name_to_register(object, parsed.class_name), "\", ...) tells it how to make one");
  }
  return factory(parsed.config);
}

}  // namespace strata::keras
