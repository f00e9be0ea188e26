#include "strata/keras/layer_registry.h"

#include <map>
#include <mutex>

#include "keras/layers/layer_class.h"

namespace strata::keras {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, LayerFactory, std::less<>> factories;

  Registry() {
    for (const auto& family : {core_layers()}) {
      for (const LayerClass& each : family) factories.emplace(each.name, each.make);
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
  const ObjectJson parsed = parse_object(object, "a layer");
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

Json to_config(const Layer& layer) {
  return make_object(layer->module(), layer->class_name(), layer->config());
}

}  // namespace strata::keras
