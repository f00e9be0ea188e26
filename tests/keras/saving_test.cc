#include "strata/keras/saving.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "keras/call_options.h"
#include "keras_files/keras_archive.h"
#include "runtime/replica_group.h"
#include "strata/core/file_system.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/layers/attention.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/recurrent.h"
#include "strata/keras/layers/wrappers.h"
#include "strata/keras/ops.h"
#include "strata/keras/printing.h"
#include "strata/keras/sequential.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"
#include "support/source_path.h"
#include "support/temp_folder.h"

namespace strata::keras {
namespace {

class SavingTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return join_path(folder_.path(), name); }

 private:
  strata::test::TempFolder folder_;
};

Sequential small(int64_t units = 3) {
  return Sequential(
      Input({4}),
      {layers::Dense(5, {.activation = "relu", .name = "hidden"}),
       layers::BatchNormalization({.name = "norm"}), layers::Dense(units, {.name = "out"})},
      "small");
}

void write_bytes(const std::string& path, const std::string& bytes) {
  const auto file = local_file_system().create(path);
  file->append(std::as_bytes(std::span(bytes)));
  file->close();
}

TEST_F(SavingTest, LoadsUnderEveryStrategy) {
  const Sequential model = small();
  const at::Tensor x = at::randn({6, 4});
  const at::Tensor expected = model(x);
  save_model(model, path("m.keras"));
  MirroredStrategy strategy({.devices = {"cpu:0", "cpu:1"}});
  const Model loaded = strategy.scope([&] { return load_model(path("m.keras")); });
  EXPECT_EQ(&loaded->strategy(), &strategy);
  for (const Weight& weight : loaded->weights()) {
    EXPECT_EQ(weight.variable.group().num_replicas(), 2) << weight.name;
    EXPECT_TRUE(weight.variable.on_replica(0).equal(weight.variable.on_replica(1)));
  }
  // Replicas have kernels of their own.
  strategy.run([&] {
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(loaded(x).allclose(expected, 1e-5, 1e-6));
  });
  // And back: what two replicas hold is one file's.
  save_model(loaded, path("again.keras"));
  EXPECT_TRUE(load_model(path("again.keras"))(x).equal(expected));
}

TEST_F(SavingTest, FromKerasAndBack) {
  const std::string reference = strata::test::source_path("tests/golden/keras_models_cnn.keras");
  const std::string actual = path("ours.keras");
  const std::string weights = path("w.safetensors");
  MirroredStrategy strategy({.devices = {"cpu:0", "cpu:1"}});
  // Quoted in docs/keras_files.md.
  const keras::Model model = strategy.scope([&] { return keras::load_model(reference); });
  model.save(actual);             // keras.saving.load_model opens it
  model.save_weights(weights);    // NAME.weights.h5, or safetensors
  model.load_weights(reference);  // any of them

  const at::Tensor x = at::randn({2, 8, 8, 2});
  EXPECT_TRUE(load_model(actual)(x).equal(model(x)));
  EXPECT_EQ(Json::parse(model.to_json()).at("class_name").as_string(), "Sequential");
  std::ostringstream text;
  model.summary(text);
  EXPECT_EQ(text.str(), summary(model));
}

TEST_F(SavingTest, WrongShapesAreNamed) {
  save_weights(small(3), path("w.weights.h5"));
  save_weights(small(3), path("w.safetensors"));
  const Sequential other = small(2);
  const at::Tensor before = other(at::ones({1, 4}));
  expect_error([&] { load_weights(other, path("w.weights.h5")); }, ErrorCode::kInvalidArgument,
               str_cat("[keras] load_weights '", path("w.weights.h5"),
                       "': layer 'out': got kernel of shape (5, 3); the model's has shape (5, 2)"));
  expect_error([&] { load_weights(other, path("w.safetensors")); }, ErrorCode::kInvalidArgument,
               str_cat("[keras] load_weights '", path("w.safetensors"),
                       "': layer 'out': got kernel of shape (5, 3); the model's has shape (5, 2)"));
  EXPECT_TRUE(other(at::ones({1, 4})).equal(before));  // all or nothing
  const Sequential less(Input({4}), {layers::Dense(5, {.use_bias = false, .name = "hidden"})});
  expect_error([&] { load_weights(less, path("w.weights.h5")); }, ErrorCode::kInvalidArgument,
               str_cat("[keras] load_weights '", path("w.weights.h5"),
                       "': layer 'hidden' (group layers/dense): got 2 variables; the model's layer "
                       "has 1"));
  expect_error([&] { load_weights(less, path("w.safetensors")); }, ErrorCode::kInvalidArgument,
               str_cat("[keras] load_weights '", path("w.safetensors"),
                       "': got tensor 'hidden/bias' and others, which the model does not have"));
}

TEST_F(SavingTest, NamesAndStatesThatCannotBe) {
  expect_error([&] { save_model(small(), path("m.h5")); }, ErrorCode::kInvalidArgument,
               str_cat("[keras] save: got '", path("m.h5"),
                       "'; expected a name that ends in .keras (save_weights writes .weights.h5 "
                       "and .safetensors)"));
  expect_error([&] { save_weights(small(), path("m.h5")); }, ErrorCode::kInvalidArgument,
               str_cat("[keras] save_weights: got '", path("m.h5"),
                       "'; expected a name that ends in .weights.h5 or .safetensors"));
  const Sequential unbuilt({layers::Dense(3)}, "unbuilt");
  expect_error([&] { save_model(unbuilt, path("m.keras")); }, ErrorCode::kFailedPrecondition,
               "[keras] save: Model 'unbuilt' has no weights yet; call it once, or give it an "
               "Input");
}

TEST_F(SavingTest, CorruptArchives) {
  const std::string file = path("m.keras");
  save_model(small(), file);
  const std::string bytes = read_file(file);
  write_bytes(file, bytes.substr(0, bytes.size() / 2));
  expect_error_containing([&] { load_model(file); }, ErrorCode::kDataLoss, file);
  write_bytes(file, "no zip at all");
  expect_error_containing([&] { load_model(file); }, ErrorCode::kDataLoss, file);
  std::string damaged = bytes;
  const size_t at = damaged.find("class_name");
  ASSERT_NE(at, std::string::npos);
  damaged[at] ^= 1;
  write_bytes(file, damaged);
  expect_error_containing([&] { load_model(file); }, ErrorCode::kDataLoss, "config.json");
  expect_error_containing([&] { load_model(path("none.keras")); }, ErrorCode::kNotFound,
                          "none.keras");
}

/// The archive of `small` with a layer's entry changed.
void rewrite(const std::string& file, const std::string& from, const std::string& to) {
  keras_files::KerasArchive archive = keras_files::load_keras_archive(file);
  std::string text = archive.config.dump();
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << text;
  archive.config = Json::parse(text.replace(at, from.size(), to));
  keras_files::save_keras_archive(archive, file);
}

TEST_F(SavingTest, LimitsOfReadersAreTheCallers) {
  const Sequential model = small();
  save_model(model, path("m.keras"));
  save_weights(model, path("m.weights.h5"));
  const ReadLimits few{.parts = 3};
  for (const auto& load : {std::function([&] { load_model(path("m.keras"), {.limits = few}); }),
                           std::function([&] { load_weights(model, path("m.keras"), few); }),
                           std::function([&] { model.load_weights(path("m.weights.h5"), few); })}) {
    expect_error_containing(load, ErrorCode::kResourceExhausted, "parts");
  }
  load_model(path("m.keras"));
  load_weights(model, path("m.weights.h5"));
}

TEST_F(SavingTest, ClassesAndOptionsThatAreNotKnown) {
  const std::string file = path("m.keras");
  save_model(small(), file);
  rewrite(file, R"("class_name":"BatchNormalization")", R"("class_name":"MyNorm")");
  expect_error([&] { load_model(file); }, ErrorCode::kUnimplemented,
               str_cat("[keras] load_model '", file,
                       "': layer 'norm' is of class MyNorm, which is unknown to strata; "
                       "register_layer(\"MyNorm\", ...) tells it how to make one"));
  save_model(small(), file);
  rewrite(file, R"("units":5)", R"("units":5,"lora_rank":2)");
  expect_error_containing([&] { load_model(file); }, ErrorCode::kUnimplemented,
                          "config of Dense layer 'hidden': got option 'lora_rank' = 2");
}

/// y = scale x; a class of the user's.
class GainImpl : public UnaryLayerImpl {
 public:
  explicit GainImpl(LayerOptions options) : UnaryLayerImpl(std::move(options)) {}
  std::string_view class_name() const override { return "Gain"; }

 private:
  void describe(ConfigWriter&) const override {}
  void build(const Shape& input) override {
    scale_ = add_weight("scale", {input.back()}, {.initializer = "ones"});
  }
  at::Tensor call(const at::Tensor& x, const Call&) override { return x * scale_->value(); }
  std::optional<Variable> scale_;
};

Layer gain_of(const Json& config) {
  return make_layer<GainImpl>(LayerOptions{.name = config.at("name").as_string()});
}

TEST_F(SavingTest, LayersOfTheUsersOnceRegistered) {
  const Sequential model(Input({4}),
                         {make_layer<GainImpl>(LayerOptions{.name = "mine"}), layers::Dense(2)});
  model->weights()[0].variable.assign(at::arange(4).to(at::kFloat));
  save_model(model, path("m.keras"));
  expect_error_containing([&] { load_model(path("m.keras")); }, ErrorCode::kUnimplemented,
                          "layer 'mine' is of class Gain, which is unknown to strata; "
                          "register_layer(\"Gain\", ...)");
  register_layer("Gain", gain_of);
  const at::Tensor x = at::randn({3, 4});
  EXPECT_TRUE(load_model(path("m.keras"))(x).equal(model(x)));
  expect_error_containing([&] { register_layer("Gain", gain_of); }, ErrorCode::kAlreadyExists,
                          "there is a layer class 'Gain' already");
  expect_error_containing([&] { register_layer("Dense", gain_of); }, ErrorCode::kAlreadyExists,
                          "'Dense'");
  expect_error_containing([&] { register_layer(">Gain", gain_of); }, ErrorCode::kInvalidArgument,
                          "expected \"Class\" or \"package>Class\"");
  expect_error_containing([&] { register_layer("Other", {}); }, ErrorCode::kInvalidArgument,
                          "an empty function");
}

TEST_F(SavingTest, WhatAModelWasCompiledWithMayBeLeftOut) {
  const std::string file = path("m.keras");
  const Sequential model = small();
  model.compile({.optimizer = "sgd", .loss = "mse"});
  save_model(model, file);
  rewrite(file, R"("loss":"mse")", R"("loss":"my_loss")");
  expect_error_containing([&] { load_model(file); }, ErrorCode::kInvalidArgument,
                          str_cat("load_model(\"", file, "\", {.compile = false})"));
  EXPECT_EQ(load_model(file, {.compile = false}).compiled(), nullptr);
}

class AmplifierImpl final : public GainImpl {
 public:
  using GainImpl::GainImpl;
  std::string_view class_name() const override { return "Amplifier"; }
};

/// What Keras looks a class of the user's up by is in its entry, and back.
TEST_F(SavingTest, ClassesAreSavedByTheirRegisteredName) {
  const Layer layer = make_layer<AmplifierImpl>(LayerOptions{.name = "a"});
  EXPECT_EQ(to_config(layer).at("registered_name").as_string(), "Custom>Amplifier");
  register_layer("audio>Amplifier", [](const Json& config) {
    return make_layer<AmplifierImpl>(LayerOptions{.name = config.at("name").as_string()});
  });
  Json entry = to_config(layer);
  EXPECT_EQ(entry.at("registered_name").as_string(), "audio>Amplifier");
  EXPECT_TRUE(entry.at("module").is_null());
  EXPECT_EQ(layer_from_config(entry)->class_name(), "Amplifier");
  // Another package's class is another one, which has Keras's own name here.
  entry.set("registered_name", "video>Amplifier");
  expect_error_containing([&] { layer_from_config(entry); }, ErrorCode::kUnimplemented,
                          "register_layer(\"video>Amplifier\", ...)");
  const Json dense = to_config(layers::Dense(3));
  EXPECT_TRUE(dense.at("registered_name").is_null());
  EXPECT_EQ(dense.at("module").as_string(), "keras.layers");
  entry = dense;
  entry.set("registered_name", "mine>Dense");
  expect_error_containing([&] { layer_from_config(entry); }, ErrorCode::kUnimplemented,
                          "register_layer(\"mine>Dense\", ...)");
}

TEST_F(SavingTest, OperationsOnceRegistered) {
  const Json entry = Json::parse(
      R"({"module":"keras.src.ops.numpy","class_name":"Whirl","registered_name":"Whirl",)"
      R"("config":{"name":"c","shift":1,"axis":1}})");
  expect_error_containing([&] { layer_from_config(entry); }, ErrorCode::kUnimplemented,
                          "node 'c' is operation Whirl, which is unknown to strata; "
                          "register_operation(\"Whirl\", ...)");
  register_operation("Whirl", [](const Tensors& x, const OperationArguments& arguments) {
    return Tensors{at::roll(x[0], arguments.config.at("shift").as_int(),
                            arguments.config.at("axis").as_int())};
  });
  const SymbolicTensor x = Input({3});
  const Layer roll = layer_from_config(entry);
  const SymbolicTensor y = roll.call({x}, Json::parse(R"({"args":[{"tensor":0}]})"))[0];
  EXPECT_EQ(to_string(y.shape()), "(None, 3)");
  const Model model(x, y, "rolled");
  save_model(model, path("m.keras"));
  EXPECT_TRUE(load_model(path("m.keras"))(at::tensor({1.0F, 2.0F, 3.0F}).unsqueeze(0))
                  .equal(at::tensor({3.0F, 1.0F, 2.0F}).unsqueeze(0)));
  expect_error_containing(
      [&] { register_operation("Whirl", [](const Tensors& x, const auto&) { return x; }); },
      ErrorCode::kAlreadyExists, "there is an operation 'Whirl' already");
  expect_error_containing(
      [&] { register_operation("Add", [](const Tensors& x, const auto&) { return x; }); },
      ErrorCode::kAlreadyExists, "there is an operation 'Add' already");
  expect_error_containing([&] { register_operation("", {}); }, ErrorCode::kInvalidArgument,
                          "expected a name, and a function");
}

at::Tensor constant(const std::string& value, const std::string& dtype = "float32") {
  return detail::constant_tensor(Json::parse(str_cat(
      R"({"class_name":"__numpy__","config":{"value":)", value, R"(,"dtype":")", dtype, R"("}})")));
}

TEST(ModelConfigTest, ConstantsInCalls) {
  EXPECT_TRUE(
      constant("[[1,2],[3,4.5]]").equal(at::tensor({1.0F, 2.0F, 3.0F, 4.5F}).reshape({2, 2})));
  EXPECT_TRUE(constant("[true,false]", "bool").equal(at::tensor({1, 0}).to(at::kBool)));
  EXPECT_EQ(constant("7", "int32").sizes().size(), 0u);
  EXPECT_EQ(constant("[[],[]]").sizes(), (at::IntArrayRef{2, 0}));
  EXPECT_FALSE(detail::constant_tensor(Json::parse(R"({"tensor":0})")).defined());
  for (const char* ragged : {"[[1],[2,3]]", "[[1,2],[3]]", "[1,[2]]", "[[1],2]", "[[1],[[2]]]"}) {
    expect_error_containing([&] { constant(ragged); }, ErrorCode::kDataLoss, "a ragged array");
  }
}

Json build_config_in(const Model& model, const std::string& layer) {
  const Json config = model_to_config(model);
  for (const Json& entry : config.at("config").at("layers").as_array()) {
    if (entry.at("config").at("name").as_string() == layer) return entry.at("build_config");
  }
  return {};
}

TEST(ModelConfigTest, AMaskIsNoKey) {
  const SymbolicTensor x = Input({4, 6});
  const SymbolicTensor mask = Input({4, 4});
  const layers::MultiHeadAttention alone(2, 3, {.name = "alone"}), both(2, 3, {.name = "both"});
  const layers::GroupQueryAttention group(3, 2, 1, {.name = "group"});
  const SymbolicTensor y =
      group(alone(x, x, {.attention_mask = mask}), x, {.attention_mask = mask});
  const Model model({x, mask}, {both(y, x, {.key = y, .attention_mask = mask})});
  const std::string two = R"({"shapes_dict":{"query_shape":[null,4,6],"value_shape":[null,4,6]}})";
  EXPECT_EQ(build_config_in(model, "alone").dump(), two);
  EXPECT_EQ(build_config_in(model, "group").dump(), two);
  EXPECT_EQ(build_config_in(model, "both").at("shapes_dict").at("key_shape").dump(), "[null,4,6]");
}

TEST(ModelConfigTest, StatefulLayersKeepTheSizeOfTheBatch) {
  const SymbolicTensor x = Input({5, 3}, {.batch_size = 2});
  SymbolicTensor y = layers::LSTM(4, {.return_sequences = true, .name = "free"})(x);
  y = layers::LSTM(4, {.return_sequences = true, .stateful = true, .name = "held"})(y);
  const layers::Bidirectional around(layers::GRU(2, {.stateful = true}), {.name = "around"});
  const Model model(x, around(y));
  EXPECT_EQ(build_config_in(model, "free").at("input_shape").dump(), "[null,5,3]");
  EXPECT_EQ(build_config_in(model, "held").at("input_shape").dump(), "[2,5,4]");
  EXPECT_EQ(build_config_in(model, "around").at("input_shape").dump(), "[2,5,4]");
}

TEST(ModelConfigTest, NodesOfTheOldForm) {
  const SymbolicTensor a = Input({3}, {.name = "a"});
  const layers::Dense dense(3, {.name = "dense"});
  const Model model(a, dense(dense(a)), "twice");
  std::string text = model_to_config(model).dump();
  const Json json = Json::parse(text);
  Json layers = Json::array();
  for (const Json& entry : json.at("config").at("layers").as_array()) {
    Json old = entry;
    if (entry.at("name").as_string() == "dense") {
      old.set("inbound_nodes", Json::parse(R"([[["a",0,0,{}]],[["dense",0,0,{}]]])"));
    }
    layers.push_back(old);
  }
  Json config = json.at("config");
  config.set("layers", layers);
  Json object = json;
  object.set("config", config);
  const Model loaded = model_from_config(object);
  EXPECT_EQ(model_to_config(loaded).dump(), text);
}

TEST(ModelConfigTest, DamageIsNamed) {
  const SymbolicTensor a = Input({3}, {.name = "a"});
  const Model model(a, layers::Dense(3, {.name = "dense"})(a), "m");
  const std::string text = model_to_config(model).dump();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << text;
    return Json::parse(changed.replace(at, from.size(), to));
  };
  expect_error_containing([&] { model_from_config(with(R"(["a",0,0])", R"(["b",0,0])")); },
                          ErrorCode::kDataLoss, "got a tensor of 'b'; there is no such layer");
  expect_error_containing([&] { model_from_config(with(R"(["a",0,0])", R"(["dense",0,0])")); },
                          ErrorCode::kDataLoss, "needs a tensor that nothing makes");
  expect_error_containing(
      [&] {
        model_from_config(
            with(R"("output_layers":["dense",0,0])", R"("output_layers":["dense",1,0])"));
      },
      ErrorCode::kDataLoss, "an output is call 1, output 0 of layer 'dense'");
  expect_error_containing([&] { model_from_config(Json::parse(R"({"class_name":"Mine"})")); },
                          ErrorCode::kUnimplemented, "is of class Mine");
}

TEST(ModelConfigTest, NamesMustDiffer) {
  const SymbolicTensor a = Input({3});
  const Model model(a, layers::Dense(3, {.name = "d"})(layers::Dense(3, {.name = "d"})(a)), "m");
  expect_error([&] { model_to_config(model); }, ErrorCode::kInvalidArgument,
               "[keras] Model 'm': got two layers named 'd'; names in a file must differ (option "
               "`name`)");
}

TEST(SummaryTest, ModelsWithoutWeights) {
  const Sequential model({layers::Dense(3, {.name = "one"})}, "empty");
  EXPECT_EQ(summary(model, {.line_length = 60, .console_width = 80}),
            R"(Model: "empty"
┏━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━┓
┃ Layer (type)             ┃ Output Shape      ┃   Param # ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━┩
│ one (Dense)              │ ?                 │         0 │
│                          │                   │ (unbuilt) │
└──────────────────────────┴───────────────────┴───────────┘
 Total params: 0 (0.00 B)
 Trainable params: 0 (0.00 B)
 Non-trainable params: 0 (0.00 B)
)");
  expect_error_containing([&] { summary(model, {.line_length = 12}); }, ErrorCode::kInvalidArgument,
                          "got 12 columns");
}

size_t count(const std::string& text, const std::string& part) {
  size_t number = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++number;
  return number;
}

Model branched() {
  const SymbolicTensor x = Input({4}, {.name = "x"});
  const Sequential inner(
      Input({4}), {layers::Dense(4, {.name = "in1"}), layers::Dense(4, {.name = "in2"})}, "inner");
  const SymbolicTensor y = inner(layers::Dense(4, {.name = "below"})(x));
  return {x, x + y, "branched"};
}

TEST(PlotModelTest, DotHasBoxesAndEdgesOfKeras) {
  const std::string dot = model_to_dot(branched(), {.show_shapes = true});
  EXPECT_EQ(count(dot, " -> "), 4u);
  EXPECT_EQ(count(dot, "label=<"), 4u);
  EXPECT_NE(dot.find("<b>below</b> (Dense)"), std::string::npos);
  EXPECT_NE(dot.find("Input shape: <b>(None, 4)</b>"), std::string::npos);
  const std::string nested = model_to_dot(branched(), {.expand_nested = true});
  EXPECT_EQ(count(nested, "subgraph cluster_0"), 1u);
  EXPECT_EQ(count(nested, "label=<"), 5u);
  EXPECT_EQ(count(nested, " -> "), 5u);
  EXPECT_EQ(count(nested, "{"), count(nested, "}"));
}

TEST(PlotModelTest, SvgHasEveryBoxWithoutOverlap) {
  for (const bool left_to_right : {false, true}) {
    const std::string svg = model_to_svg(
        branched(), {.show_shapes = true, .expand_nested = true, .left_to_right = left_to_right});
    EXPECT_EQ(count(svg, "<path d=\"M"), 5u + 1u);  // and the arrow's head
    struct Box {
      double x, y, width, height;
    };
    std::vector<Box> boxes;
    const std::string start = "<rect x=\"";
    for (size_t at = svg.find(start); at != std::string::npos; at = svg.find(start, at + 1)) {
      Box box{};
      ASSERT_EQ(
          std::sscanf(svg.c_str() + at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"",
                      &box.x, &box.y, &box.width, &box.height),
          4);
      if (svg.substr(at, 200).find("fill=\"white\" stroke=\"black\"") < 120) boxes.push_back(box);
    }
    ASSERT_EQ(boxes.size(), 5u);
    for (size_t i = 0; i < boxes.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        const bool apart = boxes[i].x + boxes[i].width <= boxes[k].x ||
                           boxes[k].x + boxes[k].width <= boxes[i].x ||
                           boxes[i].y + boxes[i].height <= boxes[k].y ||
                           boxes[k].y + boxes[k].height <= boxes[i].y;
        EXPECT_TRUE(apart) << i << " and " << k;
      }
    }
  }
}

TEST_F(SavingTest, PlotsGoByTheirEnding) {
  const Model model = branched();
  plot_model(model, path("m.dot"));
  EXPECT_EQ(read_file(path("m.dot")), model_to_dot(model));
  plot_model(model, path("m.svg"));
  EXPECT_TRUE(read_file(path("m.svg")).starts_with("<svg"));
  expect_error([&] { plot_model(model, path("m.png")); }, ErrorCode::kInvalidArgument,
               str_cat("[keras] plot_model: got '", path("m.png"),
                       "'; expected a name that ends in .dot or .svg"));
}

}  // namespace
}  // namespace strata::keras
