#include "strata/keras/applications.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "keras/applications/custom_layers.h"
#include "keras/golden_applications.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/reshaping.h"
#include "strata/keras/saving.h"
#include "strata/keras/sequential.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::applications {
namespace {

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST(ApplicationsTest, ImagesArePreprocessedAsByKeras) {
  // One network for each of Keras's modules.
  const std::map<std::string, std::string> modules = {
      {"convnext", "ConvNeXtBase"},
      {"densenet", "DenseNet169"},
      {"efficientnet", "EfficientNetB4"},
      {"efficientnet_v2", "EfficientNetV2M"},
      {"inception_resnet_v2", "InceptionResNetV2"},
      {"inception_v3", "InceptionV3"},
      {"mobilenet", "MobileNet"},
      {"mobilenet_v2", "MobileNetV2"},
      {"mobilenet_v3", "MobileNetV3Large"},
      {"nasnet", "NASNetLarge"},
      {"resnet", "ResNet152"},
      {"resnet50", "ResNet50"},
      {"resnet_v2", "ResNet101V2"},
      {"vgg16", "VGG16"},
      {"vgg19", "VGG19"},
      {"xception", "Xception"},
  };
  const at::Tensor images =
      at::tensor(doubles_of(golden_applications().at("images")), at::kFloat).view({1, 2, 4, 3});
  const auto& preprocessed = golden_applications().at("preprocessed").as_object();
  EXPECT_EQ(preprocessed.size(), modules.size());
  for (const auto& [module, values] : preprocessed) {
    SCOPED_TRACE(module);
    const at::Tensor expected = at::tensor(doubles_of(values), at::kFloat).view({1, 2, 4, 3});
    const at::Tensor y = preprocess_input(modules.at(module), images);
    EXPECT_TRUE(at::allclose(y, expected, 1e-5, 1e-5)) << y << expected;
  }
  for (const Json& each : golden_applications().at("cases").as_array()) {
    preprocess_input(each.at("network").as_string(), images);
  }
  EXPECT_EQ(preprocess_input("VGG16", images.to(at::kByte)).scalar_type(), at::kFloat);
  expect_error_containing([&] { preprocess_input("AlexNet", images); }, ErrorCode::kInvalidArgument,
                          "got network 'AlexNet'; expected one of ");
  expect_error(
      [&] {
        preprocess_input("VGG16", at::empty({2, 4, 1}));
      },
      "[applications] preprocess_input: got images of shape (2, 4, 1) for VGG16; expected "
      "three channels, red, green and blue, last");
}

TEST(ApplicationsTest, PredictionsAreDecodedByAnIndex) {
  const strata::test::TempFolder folder;
  const std::string path = join_path(folder.path(), "index.json");
  write(path, R"({"0":["n0","tench"],"1":["n1","goldfish"],"2":["n2","ray"]})");
  const at::Tensor predictions = at::tensor({0.2, 0.7, 0.1, 0.5, 0.1, 0.4}).view({2, 3});
  const auto decoded = decode_predictions(predictions, path, 2);
  ASSERT_EQ(decoded.size(), 2u);
  ASSERT_EQ(decoded[0].size(), 2u);
  EXPECT_EQ(decoded[0][0].class_name, "n1");
  EXPECT_EQ(decoded[0][0].description, "goldfish");
  EXPECT_DOUBLE_EQ(decoded[0][0].score, 0.7);
  EXPECT_EQ(decoded[0][1].description, "tench");
  EXPECT_EQ(decoded[1][0].description, "tench");
  EXPECT_EQ(decoded[1][1].description, "ray");
  EXPECT_EQ(decode_predictions(predictions, path)[0].size(), 3u);
  expect_error(
      [&] {
        decode_predictions(at::empty({1, 2}), path);
      },
      "[applications] decode_predictions: got shape (1, 2); expected [batch, 3], as many "
      "classes as '" +
          path + "' has");
  write(path, R"({"0":["n0","tench"],"1":7,"2":["n2","ray"]})");
  expect_error(
      [&] { decode_predictions(predictions, path); }, ErrorCode::kDataLoss,
      "[applications] decode_predictions: '" + path + "' has no entry \"1\": [class, description]");
}

TEST(ApplicationsTest, WeightsComeFromAFile) {
  const strata::test::TempFolder folder;
  const std::string path = join_path(folder.path(), "small.weights.h5");
  Options options = {.input_shape = {32, 32, 3}, .classes = 4};
  const MobileNetOptions mobile = {.alpha = 0.25};
  const keras::Model first = MobileNet(options, mobile);
  first.save_weights(path);
  options.weights = path;
  const keras::Model second = MobileNet(options, mobile);
  const at::NoGradGuard no_grad;
  const at::Tensor image = numbers(0, {2, 32, 32, 3}, [](double u) { return u; });
  EXPECT_TRUE(second(image).equal(first(image)));

  options.classifier_activation = "sigmoid";
  expect_error([&] { MobileNet(options, mobile); },
               "[applications] mobilenet_0.25_32: got classifier_activation 'sigmoid'; expected "
               "softmax or linear with weights of a file and the top");
  options.weights = "imagenet";
  expect_error([&] { MobileNet(options, mobile); },
               "[applications] mobilenet_0.25_32: got weights 'imagenet'; expected the path of a "
               "file: strata downloads nothing, Keras's downloads are in ~/.keras/models");
}

/// As `weights_alone` in make_keras_applications.py, with other default names.
keras::Model small_model(bool has_dense = true) {
  keras::clear_session();
  const keras::SymbolicTensor x = keras::Input({6, 6, 2});
  keras::SymbolicTensor y = layers::BatchNormalization()(layers::Conv2D(3, 3)(x));
  const layers::BatchNormalization norm;
  y = keras::Sequential({norm, layers::Conv2D(4, 2)})(y);
  y = layers::Flatten()(y);
  return {x, has_dense ? layers::Dense(2)(y) : y};
}

TEST(ApplicationsTest, FilesOfImageNetsFormatGoByTheOrderOfLayers) {
  const std::string path =
      strata::test::source_path("tests/golden/keras_applications_weights_alone.h5");
  const keras::Model model = small_model();
  model.load_weights(path);
  const at::NoGradGuard no_grad;
  const at::Tensor y = model(numbers(99, {1, 6, 6, 2}, [](double u) { return u; }));
  const at::Tensor expected =
      at::tensor(doubles_of(golden_applications().at("weights_alone")), at::kFloat).view({1, 2});
  EXPECT_TRUE(at::allclose(y, expected, 1e-5, 1e-6)) << y << expected;

  expect_error([&] { small_model(false).load_weights(path); },
               "[keras] load_weights '" + path + "': got 4 layers with weights; the model has 3");
  expect_error([&] { keras::load_model(path); },
               "[keras] load_model '" + path +
                   "': got weights alone; make the model, and load_weights reads them into it");
}

TEST(ApplicationsTest, LayersOfApplicationsAlone) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = numbers(0, {64, 2, 3}, [](double u) { return u + 2; });
  const LayerScale scale(0.5, 3);
  EXPECT_TRUE(scale(x).equal(x * 0.5));
  expect_error([&] { LayerScale(0.5, 0); },
               "[applications] LayerScale: got projection_dim=0; expected the size of the last "
               "dimension");
  EXPECT_TRUE(CustomScaleLayer(0.25)({x, x}).equal(x + x * 0.25));
  expect_error(
      [&] {
        CustomScaleLayer(0.25)({x, x.narrow(2, 0, 2)});
      },
      "[applications] CustomScaleLayer: got inputs of shapes (64, 2, 3), (64, 2, 2); "
      "expected two of one shape");

  EXPECT_TRUE(StochasticDepth(0.75)(x).equal(x));
  keras::set_random_seed(5);
  const at::Tensor y = StochasticDepth(0.75).call({x}, {.training = true})[0];
  const at::Tensor ratio = (y / x).flatten(1);  // 0 or 4, for whole examples
  EXPECT_TRUE(ratio.allclose(ratio.select(1, 0).unsqueeze(1).expand_as(ratio)));
  const int64_t kept = (ratio.select(1, 0) > 2).sum().item<int64_t>();
  EXPECT_GT(kept, 4);
  EXPECT_LT(kept, 32);
  EXPECT_TRUE(at::allclose(ratio.max(), at::tensor(4.0F)));
  EXPECT_EQ(StochasticDepth(1).call({x}, {.training = true})[0].abs().max().item<double>(), 0);
  expect_error([] { StochasticDepth(1.5); },
               "[applications] StochasticDepth: got drop_path_rate=1.5; expected a number between "
               "0 and 1");
  for (const keras::Layer& layer : std::vector<keras::Layer>{
           LayerScale(0.5, 3, {.name = "a"}), StochasticDepth(0.25, {.name = "b"}),
           CustomScaleLayer(0.125, {.name = "c"})}) {
    const Json config = keras::to_config(layer);
    EXPECT_EQ(keras::to_config(keras::layer_from_config(config)), config);
  }
}

TEST(ApplicationsTest, ShapesThatAreTooSmall) {
  expect_error(
      [] {
        InceptionV3({.input_shape = {74, 80, 3}});
      },
      "[applications] InceptionV3: got input_shape (74, 80, 3); expected at least 75 x 75");
  expect_error(
      [] {
        VGG16({.input_shape = {64, 64}});
      },
      "[applications] VGG16: got input_shape (64, 64); expected height, width and channels");
  expect_error(
      [] {
        ResNet50({.input_shape = {keras::kNone, 64, 3}});
      },
      "[applications] ResNet50: got input_shape (None, 64, 3); with include_top all sizes "
      "must be known");
  expect_error(
      [] {
        MobileNetV3Small({.input_shape = {64, 31, 3}});
      },
      "[applications] MobileNetV3Small: got input_shape (64, 31, 3); expected at least 32 x 32");
  expect_error(
      [] {
        NASNetLarge({.include_top = false, .input_shape = {64, keras::kNone, 3}});
      },
      "[applications] NASNetLarge: got input_shape (64, None, 3); expected known sizes, on which "
      "its cells depend");
  expect_error([] { MobileNetV2({.include_top = false, .pooling = "sum"}); },
               "[applications] got pooling 'sum'; expected avg, max or none");
}

}  // namespace
}  // namespace strata::applications
