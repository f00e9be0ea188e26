#include "strata/keras/layer_registry.h"

#include <map>
#include <mutex>

#include "keras/layers/layer_class.h"
#include "keras/model_entry.h"
#include "keras/ops/operation.h"

namespace strata::keras {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, LayerFactory, std::less<>> factories;

  Registry() {
    using Family = std::vector<LayerClass> (*)();
    constexpr Family kFamilies[] = {activation_layers,
                                    attention_layers,
                                    batch_normalization_layers,
                                    concatenate_layers,
                                    conv_transpose_layers,
                                    convolutional_layers,
                                    core_layers,
                                    depthwise_conv_layers,
                                    dot_layers,
                                    einsum_dense_layers,
                                    embedding_layers,
                                    group_query_attention_layers,
                                    image_preprocessing_layers,
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
                                    stacked_cells,
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

std::string name_in(const Json& config) {
  const Json* name = config.find("name");
  return name != nullptr && name->is_string() ? name->as_string() : std::string("?");
}

}  // namespace

void register_layer(const std::string& class_name, LayerFactory factory) {
  const std::lock_guard lock(registry().mutex);
  const bool added = registry().factories.emplace(class_name, std::move(factory)).second;
  STRATA_CHECK(added, kAlreadyExists, "[keras] register_layer: there is a layer class '",
               class_name, "' already");
}

Layer layer_from_config(const Json& object) {
  if (detail::is_operation(object)) return detail::operation_from_config(object);
  const ObjectJson parsed = parse_object(object, "a layer");
  if (detail::is_model_class(parsed.class_name)) return detail::model_layer_from_entry(object);
  LayerFactory factory;
  {
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().factories.find(parsed.class_name);
    STRATA_CHECK(found != registry().factories.end(), kUnimplemented, "[keras] layer '",
                 name_in(parsed.config), "' is of class ", parsed.class_name,
                 ", which strata does not know; register_layer(\"", parsed.class_name,
                 "\", ...) tells it how to make one");
    factory = found->second;
  }
  return factory(parsed.config);
}

}  // namespace strata::keras
