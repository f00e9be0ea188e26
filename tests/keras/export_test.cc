// Models exported as ONNX, computed by real onnxruntime.
#include "strata/keras/export.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>

#include "keras/golden_models.h"
#include "strata/graph/saved_graph.h"
#include "strata/keras/applications.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/attention.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/recurrent.h"
#include "strata/keras/layers/regularization.h"
#include "strata/keras/layers/reshaping.h"
#include "strata/keras/layers/wrappers.h"
#include "strata/keras/ops.h"
#include "strata/keras/saving.h"
#include "strata/keras/sequential.h"
#include "support/expect_error.h"
#include "support/onnxruntime.h"
#include "support/temp_folder.h"

namespace strata::keras {
namespace {

/// No weight has the value that it begins with, and numbers stay of a size.
void fill(const Model& model) {
  for (const Weight& weight : model->weights()) {
    Variable variable = weight.variable;
    const at::Tensor now = variable.value().detach();
    const bool spread = weight.name == "gamma" || weight.name == "moving_variance";
    const bool centre =
        weight.name == "beta" || weight.name == "moving_mean" || weight.name == "bias";
    if (spread) variable.assign(at::rand(now.sizes()).to(now.scalar_type()) + 0.5);
    if (centre) variable.assign(at::randn(now.sizes()).to(now.scalar_type()) * 0.1);
  }
}

Tensors examples(const Model& model, int64_t batch) {
  Tensors inputs;
  for (const SymbolicTensor& input : model.inputs()) {
    Shape shape = input.shape();
    if (shape[0] == kNone) shape[0] = batch;
    for (int64_t& size : shape) size = size == kNone ? 7 : size;
    inputs.push_back(c10::isIntegralType(input.dtype(), true)
                         ? at::randint(0, 7, shape).to(input.dtype())
                         : at::randn(shape).to(input.dtype()));
  }
  return inputs;
}

/// Exports the model for any batch, and keeps what it computes for one of `batch`.
void write(const Model& model, const std::string& folder, const std::string& name, int64_t batch) {
  const at::NoGradGuard no_grad;
  const std::string stem = join_path(folder, name);
  const Tensors inputs = examples(model, batch);
  bool known = true;
  for (const SymbolicTensor& input : model.inputs()) {
    for (size_t d = 1; d < input.shape().size(); ++d) known = known && input.shape()[d] != kNone;
  }
  ExportOptions options;
  if (!known) options = {.inputs = inputs, .any_batch = true};
  export_model(model, stem + ".onnx", options);
  test::write_onnx_case(stem, inputs, model.call(inputs, Call{}));
}

Model mlp() {
  return Sequential(Input({8}), {layers::Dense(5, "relu"), layers::Dropout(0.3),
                                 layers::BatchNormalization(), layers::Dense(3, "softmax")});
}

Model cnn() {
  return Sequential(
      Input({12, 12, 2}),
      {layers::Conv2D(4, 3, {.padding = "same"}), layers::BatchNormalization(), layers::ReLU(),
       layers::MaxPooling2D(), layers::DepthwiseConv2D(3), layers::SeparableConv2D(5, 2),
       layers::Conv2DTranspose(2, 2, {.strides = 2}), layers::Flatten(), layers::Dense(2)});
}

Model lstm() {
  const SymbolicTensor x = Input({6, 4});
  SymbolicTensor y = layers::Bidirectional(layers::LSTM(3, {.return_sequences = true}))(x);
  y = layers::GRU(5, {.return_sequences = true})(y);
  return {x,
          layers::Dense(2)(layers::SimpleRNN(3)(layers::LSTM(5, {.return_sequences = true})(y)))};
}

/// Words, of which some are padding that the layers behind leave out.
Model words() {
  const SymbolicTensor x = Input({6}, {.dtype = at::kInt});
  SymbolicTensor y = layers::Embedding(7, 4, {.mask_zero = true})(x);
  y = layers::Bidirectional(layers::LSTM(3, {.return_sequences = true}))(y);
  return {x, layers::Dense(2)(layers::GRU(3)(y))};
}

Model transformer() {
  const SymbolicTensor x = Input({5, 6});
  SymbolicTensor y = layers::MultiHeadAttention(2, 3)(x, x, {.use_causal_mask = true});
  y = layers::LayerNormalization()(x + y);
  const SymbolicTensor z = layers::Dense(6)(layers::Dense(12, "gelu")(y));
  return {x, layers::GlobalAveragePooling1D()(layers::LayerNormalization()(y + z))};
}

void expect_onnxruntime_agrees_on(
    const std::vector<std::pair<std::string, std::function<Model()>>>& models,
    const std::string& tolerance) {
  if (!test::why_no_onnxruntime().empty()) GTEST_SKIP() << test::why_no_onnxruntime();
  const test::TempFolder folder;
  for (const auto& [name, make] : models) {
    set_random_seed(7);
    try {
      const Model model = make();
      fill(model);
      write(model, folder.path(), name, 3);
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
  test::expect_onnxruntime_agrees(folder.path(), tolerance);
}

TEST(OnnxModelsTest, ComputeInOnnxruntimeWhatTheyDoHere) {
  expect_onnxruntime_agrees_on(
      {{"mlp", mlp}, {"cnn", cnn}, {"lstm", lstm}, {"words", words}, {"transformer", transformer}},
      "1e-5");
}

TEST(OnnxModelsTest, ThoseOfRealKerasToo) {
  // On the CPU onnxruntime has no erf of doubles and no products of bfloat16; it rounds half precision elsewhere.
  const std::set<std::string> not_there = {"double", "mixed_bfloat16", "mixed_float16"};
  std::vector<std::pair<std::string, std::function<Model()>>> models;
  for (const Json& each : golden::golden_models().at("models").as_array()) {
    const std::string file = golden::golden_file(each.at("file").as_string());
    if (not_there.contains(each.at("name").as_string())) continue;
    models.emplace_back(each.at("name").as_string(),
                        [file] { return load_model(file, {.compile = false}); });
  }
  expect_onnxruntime_agrees_on(models, "1e-5");
}

TEST(OnnxModelsTest, ApplicationsToo) {
  using namespace applications;  // NOLINT
  expect_onnxruntime_agrees_on({{"resnet50",
                                 [] {
                                   return ResNet50({.input_shape = {64, 64, 3}, .classes = 10});
                                 }},
                                {"inception_v3",
                                 [] {
                                   return InceptionV3({.input_shape = {96, 96, 3}, .classes = 10});
                                 }},
                                {"mobilenet_v2",
                                 [] {
                                   return MobileNetV2({.input_shape = {64, 64, 3}, .classes = 10});
                                 }},
                                {"vgg16",
                                 [] {
                                   return VGG16({.input_shape = {32, 32, 3}, .classes = 10});
                                 }}},
                               "1e-4");
}

TEST(ExportModelTest, IsServedWithoutTheModel) {
  const test::TempFolder folder;
  const std::string onnx = join_path(folder.path(), "model.onnx");
  const std::string saved = join_path(folder.path(), "model.graph");
  const keras::Model model = cnn();
  fill(model);
  const at::Tensor images = at::randn({5, 12, 12, 2});
  keras::export_model(model, onnx);  // for onnxruntime and others
  keras::export_model(model, saved, {.format = "strata"});

  const graph::LoadedGraph served = graph::load_graph(saved);  // in any program of libtorch's
  const at::Tensor scores = served({images}).at(0);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(scores.equal(model.call({images}, Call{}).at(0)));
  EXPECT_TRUE(std::filesystem::exists(onnx));
}

TEST(ExportModelTest, RefusesWhatItCannotExport) {
  const test::TempFolder folder;
  const std::string path = join_path(folder.path(), "model.onnx");
  expect_error_containing([&] { export_model(mlp(), path, {.format = "tf_saved_model"}); },
                          ErrorCode::kUnimplemented,
                          "got format 'tf_saved_model'; expected 'onnx' or 'strata'");
  const SymbolicTensor x = Input({kNone, 3});
  expect_error_containing([&] { export_model(Model(x, layers::LSTM(2)(x)), path); },
                          ErrorCode::kInvalidArgument, "pass .inputs, examples");
  expect_error_containing([&] { export_model(Sequential({layers::Dense(3)}), path); },
                          ErrorCode::kFailedPrecondition, "has no inputs of known shapes");
  const SymbolicTensor fixed = Input({5, 2}, {.batch_size = 3});
  expect_error_containing(
      [&] { export_model(Model(fixed, layers::LSTM(2, {.stateful = true})(fixed)), path); },
      ErrorCode::kUnimplemented, "writes a variable");
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace strata::keras
