// What a layer tracks stands where Keras's files have it: for every layer of the golden cases.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "keras_files/model_layout.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layer_registry.h"
#include "support/source_path.h"

namespace strata::keras {
namespace {

using Layout = std::map<std::string, std::vector<std::string>>;  // group to names of variables

void collect(const LayerImpl& layer, const std::string& path, Layout& layout) {
  for (const Weight& weight : layer.own_weights()) layout[path].push_back(weight.name);
  for (const auto& [name, each] : layer.sublayers()) collect(*each, path + "/" + name, layout);
}

std::vector<Shape> input_shapes(const Json& inputs) {
  std::vector<Shape> all;
  for (const Json& input : inputs.as_array()) {
    Shape shape;
    from_config(input.at("shape"), shape);
    all.push_back(shape);
  }
  return all;
}

/// The layer's config as the only one of a model.
Json in_a_model(const Json& layer) {
  Json layers = Json::array();
  layers.push_back(layer);
  Json config = Json::object();
  config.set("name", "model").set("layers", std::move(layers));
  Json model = Json::object();
  model.set("class_name", "Sequential").set("config", std::move(config));
  return model;
}

void compare(const Json& test) {
  const Layer layer = layer_from_config(test.at("layer"));
  layer->ensure_built(input_shapes(test.at("inputs")), test.at("call"));
  Layout expected;
  std::string root;
  for (const keras_files::SavedObject& object :
       keras_files::saved_objects(in_a_model(test.at("layer")))) {
    if (object.path.empty()) continue;
    if (root.empty()) root = object.path;
    if (!object.is_known) return;
    for (const keras_files::VariableSpec& variable : object.variables) {
      expected[object.path].push_back(variable.name);
    }
  }
  Layout actual;
  collect(*layer, root, actual);
  EXPECT_EQ(actual, expected);

  // And in the order of optimizers' slots.
  std::vector<std::string> slots;
  for (const keras_files::VariablePlace& place :
       keras_files::trainable_variables(in_a_model(test.at("layer")))) {
    slots.push_back(expected.at(place.path).at(static_cast<size_t>(place.index)));
  }
  std::vector<std::string> trained;
  for (const Weight& weight : layer->weights()) {
    if (weight.trainable) trained.push_back(weight.name);
  }
  EXPECT_EQ(trained, slots);
}

TEST(SavedLayoutTest, LayersTrackWhatFilesKeep) {
  const std::filesystem::path folder =
      std::filesystem::path(test::source_path("tests/golden/README.md")).parent_path();
  size_t cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("keras_layers_") || entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    const Json golden = Json::parse(text.str());
    for (const Json& test : golden.at("cases").as_array()) {
      SCOPED_TRACE(name + ": " + test.at("layer").at("class_name").as_string() + " " +
                   test.at("name").as_string());
      try {
        compare(test);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      ++cases;
    }
  }
  EXPECT_GT(cases, 100U);
}

}  // namespace
}  // namespace strata::keras
