// Names, orders and layouts beside what real Keras says of its own models.
#include <gtest/gtest.h>

#include <map>

#include "keras_files/golden.h"
#include "keras_files/model_layout.h"
#include "keras_files/optimizer_layout.h"
#include "support/expect_error.h"

namespace strata::keras_files {
namespace {

using test::keras_golden;
using test::shape_of;

TEST(GroupNamesTest, AreSnakeCaseNumberedByClass) {
  const std::pair<const char*, const char*> cases[] = {
      {"Dense", "dense"},        {"Conv2D", "conv2d"},
      {"ReLU", "re_lu"},         {"LeakyReLU", "leaky_re_lu"},
      {"PReLU", "p_re_lu"},      {"UpSampling2D", "up_sampling2d"},
      {"LSTM", "lstm"},          {"GlobalAveragePooling2D", "global_average_pooling2d"},
      {"LSTMCell", "lstm_cell"}, {"BatchNormalization", "batch_normalization"},
      {"my Layer", "my_layer"},  {"RMSNormalization", "rms_normalization"},
  };
  for (const auto& [from, to] : cases) EXPECT_EQ(to_snake_case(from), to);
  GroupNames names;
  EXPECT_EQ(names.next("Dense"), "dense");
  EXPECT_EQ(names.next("Conv2D"), "conv2d");
  EXPECT_EQ(names.next("Dense"), "dense_1");
  EXPECT_EQ(names.next("Dense"), "dense_2");
}

TEST(CanonicalOrderTest, IsThatOfKerasOnRandomGraphs) {
  const auto& cases = keras_golden().at("orders").as_array();
  ASSERT_GE(cases.size(), 50U);
  for (const Json& graph : cases) {
    const Json& config = graph.at("config");
    std::vector<std::string> layers;
    for (const std::string& name : canonical_order(config)) {
      for (const Json& entry : config.at("layers").as_array()) {
        if (entry.at("name").as_string() == name && is_layer(entry)) layers.push_back(name);
      }
    }
    std::vector<std::string> expected;
    for (const Json& name : graph.at("layers").as_array()) expected.push_back(name.as_string());
    EXPECT_EQ(layers, expected) << config.at("name").as_string();
  }
}

Json tensor_of(const std::string& layer, int call) {
  return Json::object()
      .set("class_name", "__keras_tensor__")
      .set("config", Json::object().set("keras_history", Json::array({layer, call, 0})));
}

Json layer_of(const std::string& name, const std::vector<std::string>& inputs) {
  Json entry = Json::object();
  Json args = Json::array(), nodes = Json::array();
  for (const std::string& input : inputs) args.push_back(tensor_of(input, 0));
  if (!inputs.empty()) {
    nodes.push_back(Json::object().set("args", args).set("kwargs", Json::object()));
  }
  return entry.set("class_name", inputs.empty() ? "InputLayer" : "Dense")
      .set("name", name)
      .set("config", Json::object().set("name", name))
      .set("inbound_nodes", nodes);
}

Json graph_of(Json::Array layers, const std::string& output) {
  return Json::object()
      .set("name", "graph")
      .set("layers", std::move(layers))
      .set("input_layers", Json::array({"in", 0, 0}))
      .set("output_layers", Json::array({output, 0, 0}));
}

TEST(CanonicalOrderTest, RefusesGraphsThatAreNone) {
  expect_error(
      [] {
        canonical_order(graph_of({layer_of("in", {}), layer_of("a", {"b"})}, "a"));
      },
      ErrorCode::kDataLoss, "[keras_files] model config: a tensor of 'b', which is no layer");
  expect_error(
      [] {
        canonical_order(
            graph_of({layer_of("in", {}), layer_of("a", {"b"}), layer_of("b", {"a"})}, "a"));
      },
      ErrorCode::kDataLoss, "[keras_files] model config: a cycle through 'a'");
  expect_error(
      [] {
        Json graph = graph_of({layer_of("in", {}), layer_of("a", {"in"})}, "a");
        graph.set("output_layers", Json::array({"a", 3, 0}));
        canonical_order(graph);
      },
      ErrorCode::kDataLoss,
      "[keras_files] model config: a tensor of call 3 of layer 'a', which is called 1 times");
}

TEST(CanonicalOrderTest, TakesAGraphAsDeepAsAFileCanBe) {
  constexpr int kDepth = 5000;
  Json::Array layers = {layer_of("in", {})};
  std::string last = "in";
  for (int i = 0; i < kDepth; ++i) {
    const std::string name = "d" + std::to_string(i);
    layers.push_back(layer_of(name, {last}));
    last = name;
  }
  const auto order = canonical_order(graph_of(std::move(layers), last));
  ASSERT_EQ(order.size(), size_t{kDepth} + 1);
  EXPECT_EQ(order.front(), "in");
  EXPECT_EQ(order.back(), last);
}

Json config_of(const std::string& file) {
  return Json::parse(read_file(test::golden_path(file + ".config.json")));
}

// The files' configs are beside them as JSON, so that this needs no zip.
TEST(SavedObjectsTest, AreThoseThatKerasSavesWhereItSavesThem) {
  for (const Json& model : keras_golden().at("models").as_array()) {
    const std::string file = model.at("file").as_string();
    SCOPED_TRACE(file);
    const auto objects = saved_objects(config_of(file));
    const auto& expected = model.at("objects").as_array();
    ASSERT_EQ(objects.size(), expected.size());
    for (size_t i = 0; i < objects.size(); ++i) {
      SCOPED_TRACE(expected[i].at("path").as_string());
      EXPECT_EQ(objects[i].path, expected[i].at("path").as_string());
      EXPECT_TRUE(objects[i].is_known);
      const auto& vars = expected[i].at("vars").as_array();
      ASSERT_EQ(objects[i].variables.size(), vars.size());
      for (size_t v = 0; v < vars.size(); ++v) {
        const VariableSpec& spec = objects[i].variables[v];
        EXPECT_EQ(spec.name, vars[v].at("name").as_string());
        EXPECT_EQ(spec.trainable, vars[v].at("trainable").as_int() >= 0);
        if (!spec.has_shape) continue;
        const auto shape = shape_of(vars[v].at("shape"));
        ASSERT_EQ(spec.shape.size(), shape.size());
        for (size_t d = 0; d < shape.size(); ++d) {
          if (spec.shape[d] < 0) continue;
          EXPECT_EQ(spec.shape[d], shape[d]) << spec.name;
        }
      }
    }
  }
}

TEST(TrainableVariablesTest, AreInTheOrderOfKeras) {
  for (const Json& model : keras_golden().at("models").as_array()) {
    const std::string file = model.at("file").as_string();
    SCOPED_TRACE(file);
    std::map<int64_t, VariablePlace> expected;
    for (const Json& object : model.at("objects").as_array()) {
      const auto& vars = object.at("vars").as_array();
      for (size_t v = 0; v < vars.size(); ++v) {
        const int64_t place = vars[v].at("trainable").as_int();
        if (place >= 0) {
          expected[place] = {.path = object.at("path").as_string(),
                             .index = static_cast<int64_t>(v)};
        }
      }
    }
    const auto places = trainable_variables(config_of(file));
    ASSERT_EQ(places.size(), expected.size());
    for (size_t i = 0; i < places.size(); ++i) {
      EXPECT_EQ(places[i], expected.at(static_cast<int64_t>(i))) << i << ' ' << places[i].path;
    }
  }
}

TEST(SavedObjectsTest, KnowsThatASharedLayerIsStoredOnce) {
  const Json model = Json::parse(R"({"class_name": "Sequential", "config": {"name": "m", "layers": [
    {"class_name": "TimeDistributed", "config": {"name": "t", "layer":
      {"class_name": "Dense", "shared_object_id": 7, "config": {"name": "d", "units": 2}}}},
    {"class_name": "Dense", "shared_object_id": 7, "config": {"name": "d", "units": 2}},
    {"class_name": "Dense", "config": {"name": "e", "units": 3, "use_bias": false}}]}})");
  std::vector<std::string> paths;
  for (const SavedObject& object : saved_objects(model)) paths.push_back(object.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"", "layers/time_distributed",
                                             "layers/time_distributed/layer", "layers/dense_1"}));
  EXPECT_EQ(trainable_variables(model).size(), 3U);
}

TEST(SavedObjectsTest, NamesWhatItDoesNotKnow) {
  const Json model = Json::parse(R"({"class_name": "Sequential", "config": {"name": "m", "layers": [
    {"class_name": "Mine", "config": {"name": "own"}}]}})");
  EXPECT_FALSE(saved_objects(model)[1].is_known);
  expect_error([&] { trainable_variables(model); }, ErrorCode::kUnimplemented,
               "[keras_files] trainable_variables: layer 'own' is of class Mine, whose variables "
               "are unknown; expected a layer of Keras without LoRA or quantization");
  expect_error(
      [] { saved_objects(Json::parse(R"({"class_name": "Mine", "config": {"name": "m"}})")); },
      ErrorCode::kDataLoss,
      "[keras_files] model config: class Mine has no 'layers'; expected Sequential or Functional. "
      "Of other models Keras keeps no structure, which is in their own code alone");
}

TEST(OptimizerSlotsTest, AreThoseOfKeras) {
  const std::vector<std::vector<int64_t>> shapes = {{3, 4}, {4}, {2, 3, 5}};
  int compared = 0;
  for (const Json& optimizer : keras_golden().at("optimizers").as_array()) {
    const std::string name = optimizer.at("config").at("class_name").as_string();
    SCOPED_TRACE(name);
    const auto slots = optimizer_slots(optimizer.at("config"), shapes);
    const auto& expected = optimizer.at("variables").as_array();
    ASSERT_EQ(slots.size(), expected.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      std::string kind = slots[i].kind;
      if (kind.starts_with("inner_")) kind.erase(0, 6);
      if (kind == "u_product") kind = "variable";  // without a name
      // Keras gives Adafactor's means the variable's own name.
      const bool mean = kind == "row" || kind == "column";
      if (slots[i].variable >= 0) kind = str_cat('v', slots[i].variable, mean ? "" : '_' + kind);
      EXPECT_EQ(kind, expected[i].as_array()[0].as_string());
      EXPECT_EQ(slots[i].shape, shape_of(expected[i].as_array()[1]));
      EXPECT_EQ(find_slot(slots, slots[i].kind, slots[i].variable), static_cast<int64_t>(i));
    }
    ++compared;
  }
  EXPECT_GE(compared, 20);
}

TEST(OptimizerSlotsTest, MuonsDependOnNames) {
  const std::vector<std::vector<int64_t>> shapes = {{3, 4}, {3, 4}, {3, 4}, {4}};
  const std::vector<std::string> names = {"Embedding_1/embeddings", "hidden/kernel", "out/kernel",
                                          "out/bias"};
  const auto kinds_of = [&](const char* config) {
    std::string kinds;
    for (const OptimizerSlot& slot : optimizer_slots(Json::parse(config), shapes, names)) {
      if (slot.variable >= 0) kinds += str_cat(slot.variable, slot.kind[0], ' ');
    }
    return kinds;
  };
  EXPECT_EQ(kinds_of(R"({"class_name": "Muon", "config": {"exclude_layers": ["^out"]}})"),
            "0m 0v 1m 2m 2v 3m 3v ");
  EXPECT_EQ(kinds_of(R"({"class_name": "Muon", "config": {"exclude_embeddings": false}})"),
            "0m 1m 2m 3m 3v ");
}

TEST(OptimizerSlotsTest, TakesNamesAndRefusesWhatItDoesNotKnow) {
  const std::vector<std::vector<int64_t>> shapes = {{2}};
  EXPECT_EQ(optimizer_slots(Json("rmsprop"), shapes).size(), 3U);
  EXPECT_EQ(find_slot(optimizer_slots(Json("adam"), shapes), "velocity_hat", 0), -1);
  expect_error([&] { optimizer_slots(Json("mine"), shapes); }, ErrorCode::kUnimplemented,
               "[keras_files] optimizer_slots: got optimizer mine; expected SGD, Adam, AdamW, "
               "Adamax, Nadam, Lamb, LARS, Lion, Muon, ScheduleFreeAdamW, Adagrad, Adadelta, "
               "Adafactor, Ftrl, RMSprop or LossScaleOptimizer");
}

}  // namespace
}  // namespace strata::keras_files
