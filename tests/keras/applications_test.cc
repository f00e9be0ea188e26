#include "strata/keras/applications.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>

#include "keras/applications/custom_layers.h"
#include "strata/core/file_system.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/reshaping.h"
#include "strata/keras/saving.h"
#include "strata/keras/sequential.h"
#include "support/expect_error.h"
#include "support/source_path.h"
#include "support/temp_folder.h"

namespace strata::applications {
namespace {

const Json& golden_applications() {
  static const Json golden =
      Json::parse(read_file(strata::test::source_path("tests/golden/keras_applications.json")));
  return golden;
}

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

/// What the networks take besides Options.
struct More {
  double alpha = 1;
  int64_t depth_multiplier = 1;
  std::optional<double> dropout = {};
  bool minimalistic = false;
  bool include_preprocessing = true;
};
using Maker = std::function<keras::Model(const Options&, const More&)>;

Maker plain(keras::Model (*network)(const Options&)) {
  return [network](const Options& options, const More&) { return network(options); };
}
Maker with_preprocessing(keras::Model (*network)(const Options&, bool)) {
  return [network](const Options& options, const More& more) {
    return network(options, more.include_preprocessing);
  };
}
Maker with_v3(keras::Model (*network)(const Options&, const MobileNetV3Options&)) {
  return [network](const Options& options, const More& more) {
    return network(options, {.alpha = more.alpha,
                             .minimalistic = more.minimalistic,
                             .dropout_rate = more.dropout.value_or(0.2),
                             .include_preprocessing = more.include_preprocessing});
  };
}

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> makers = {
      {"ConvNeXtBase", with_preprocessing(ConvNeXtBase)},
      {"ConvNeXtLarge", with_preprocessing(ConvNeXtLarge)},
      {"ConvNeXtSmall", with_preprocessing(ConvNeXtSmall)},
      {"ConvNeXtTiny", with_preprocessing(ConvNeXtTiny)},
      {"ConvNeXtXLarge", with_preprocessing(ConvNeXtXLarge)},
      {"DenseNet121", plain(DenseNet121)},
      {"DenseNet169", plain(DenseNet169)},
      {"DenseNet201", plain(DenseNet201)},
      {"EfficientNetB0", plain(EfficientNetB0)},
      {"EfficientNetB1", plain(EfficientNetB1)},
      {"EfficientNetB2", plain(EfficientNetB2)},
      {"EfficientNetB3", plain(EfficientNetB3)},
      {"EfficientNetB4", plain(EfficientNetB4)},
      {"EfficientNetB5", plain(EfficientNetB5)},
      {"EfficientNetB6", plain(EfficientNetB6)},
      {"EfficientNetB7", plain(EfficientNetB7)},
      {"EfficientNetV2B0", with_preprocessing(EfficientNetV2B0)},
      {"EfficientNetV2B1", with_preprocessing(EfficientNetV2B1)},
      {"EfficientNetV2B2", with_preprocessing(EfficientNetV2B2)},
      {"EfficientNetV2B3", with_preprocessing(EfficientNetV2B3)},
      {"EfficientNetV2L", with_preprocessing(EfficientNetV2L)},
      {"EfficientNetV2M", with_preprocessing(EfficientNetV2M)},
      {"EfficientNetV2S", with_preprocessing(EfficientNetV2S)},
      {"InceptionResNetV2", plain(InceptionResNetV2)},
      {"InceptionV3", plain(InceptionV3)},
      {"MobileNet",
       [](const Options& options, const More& more) {
         return MobileNet(options, {.alpha = more.alpha,
                                    .depth_multiplier = more.depth_multiplier,
                                    .dropout = more.dropout.value_or(1e-3)});
       }},
      {"MobileNetV2",
       [](const Options& options, const More& more) { return MobileNetV2(options, more.alpha); }},
      {"MobileNetV3Large", with_v3(MobileNetV3Large)},
      {"MobileNetV3Small", with_v3(MobileNetV3Small)},
      {"NASNetLarge", plain(NASNetLarge)},
      {"NASNetMobile", plain(NASNetMobile)},
      {"ResNet101", plain(ResNet101)},
      {"ResNet101V2", plain(ResNet101V2)},
      {"ResNet152", plain(ResNet152)},
      {"ResNet152V2", plain(ResNet152V2)},
      {"ResNet50", plain(ResNet50)},
      {"ResNet50V2", plain(ResNet50V2)},
      {"VGG16", plain(VGG16)},
      {"VGG19", plain(VGG19)},
      {"Xception", plain(Xception)},
  };
  return makers;
}

keras::Shape shape_of(const Json& json) {
  keras::Shape shape;
  for (const Json& size : json.as_array()) {
    shape.push_back(size.is_null() ? keras::kNone : size.as_int());
  }
  return shape;
}

std::vector<double> doubles_of(const Json& json) {
  std::vector<double> values;
  for (const Json& value : json.as_array()) values.push_back(value.as_double());
  return values;
}

keras::Model make(const Json& golden_case) {
  Options options;
  More more;
  for (const auto& [key, value] : golden_case.at("options").as_object()) {
    if (key == "include_top") options.include_top = value.as_bool();
    if (key == "pooling") options.pooling = value.as_string();
    if (key == "classes") options.classes = value.as_int();
    if (key == "classifier_activation") options.classifier_activation = value.as_string();
    if (key == "name") options.name = value.as_string();
    if (key == "input_shape") options.input_shape = shape_of(value);
    if (key == "alpha") more.alpha = value.as_double();
    if (key == "depth_multiplier") more.depth_multiplier = value.as_int();
    if (key == "dropout" || key == "dropout_rate") more.dropout = value.as_double();
    if (key == "minimalistic") more.minimalistic = value.as_bool();
    if (key == "include_preprocessing") more.include_preprocessing = value.as_bool();
  }
  keras::clear_session();
  return makers().at(golden_case.at("network").as_string())(options, more);
}

/// As `canonical`, `digest` and `numbers` of tests/golden/make_keras_applications.py.
std::string canonical(const Json& json) {
  if (json.is_string()) return json.as_string();
  if (json.is_number()) {
    std::array<char, 32> text = {};
    std::snprintf(text.data(), text.size(), "%.12g", json.as_double());
    return text.data();
  }
  if (json.is_array()) {
    std::string text;
    for (const Json& each : json.as_array()) text += (text.empty() ? "" : ",") + canonical(each);
    return "[" + text + "]";
  }
  if (!json.is_object()) return json.dump();
  std::map<std::string, std::string> members;
  for (const auto& [key, value] : json.as_object()) {
    const bool is_new = key == "renorm_momentum" || key == "compile_config";
    if (value != Json() && value != Json(false) && !is_new) members.emplace(key, canonical(value));
  }
  std::string text;
  for (const auto& [key, value] : members) text += (text.empty() ? "" : ",") + key + ":" + value;
  return "{" + text + "}";
}

std::string digest(const std::string& text) {
  uint32_t hashed = 2166136261U;
  for (const char c : text) hashed = (hashed ^ static_cast<uint8_t>(c)) * 16777619U;
  std::array<char, 9> hexadecimal = {};
  std::snprintf(hexadecimal.data(), hexadecimal.size(), "%08x", hashed);
  return hexadecimal.data();
}

double number(size_t which, int64_t index) {
  uint32_t h = static_cast<uint32_t>(index) + static_cast<uint32_t>(which) * 2654435769U;
  h = (h ^ h >> 16) * 0x7FEB352DU;
  h = (h ^ h >> 15) * 0x846CA68BU;
  h ^= h >> 16;
  return h / 2147483648.0 - 1;
}

/// `numbers` with a function of each.
template <typename Function>
at::Tensor numbers(size_t which, at::IntArrayRef shape, const Function& function) {
  at::Tensor values = at::empty(shape, at::kFloat);
  float* data = values.data_ptr<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    data[i] = static_cast<float>(function(number(which, i)));
  }
  return values;
}

void fill(const keras::Model& model) {
  const std::vector<keras::Weight> weights = model->weights();
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string& name = weights[i].name;
    Variable variable = weights[i].variable;
    const std::vector<int64_t> shape = variable.sizes().vec();
    if (name == "count") continue;
    at::Tensor value;
    if (name.find("kernel") != std::string::npos) {
      const size_t axes = name == "depthwise_kernel" ? 2 : shape.size() - 1;
      int64_t window = 1;
      for (size_t axis = 0; axis < axes; ++axis) window *= shape[axis];
      const double limit = std::sqrt(6.0 / static_cast<double>(window));
      value = numbers(i, shape, [&](double u) { return u * limit; });
    } else if (name == "gamma" || name == "variable" || name.ends_with("variance")) {
      value = numbers(i, shape, [](double u) { return 1 + 0.3 * u; });
    } else {
      value = numbers(i, shape, [](double u) { return u * 0.1; });
    }
    variable.assign(value);
  }
}

at::Tensor image_for(const Json& golden_case, const keras::Model& model) {
  const std::string& network = golden_case.at("network").as_string();
  const bool pixels = network.starts_with("MobileNetV3") || network.starts_with("EfficientNet") ||
                      network.starts_with("ConvNeXt");
  keras::Shape shape = shape_of(golden_case.at("options").at("input_shape"));
  shape.insert(shape.begin(), 1);
  const at::Tensor image = numbers(model->weights().size(), shape, [](double u) { return u; });
  return pixels ? (image + 1) * 127.5 : image;
}

class GoldenApplication : public testing::TestWithParam<size_t> {
 protected:
  const Json& golden() const { return golden_applications().at("cases").as_array()[GetParam()]; }
};

TEST_P(GoldenApplication, IsThatOfKeras) {
  SCOPED_TRACE(golden().at("network").as_string() + " " + golden().at("options").dump());
  const keras::Model model = make(golden());
  EXPECT_EQ(model.name(), golden().at("name").as_string());
  EXPECT_EQ(model->count_params(), golden().at("parameters").as_int());
  EXPECT_EQ(model.outputs().at(0).shape(), shape_of(golden().at("output")));

  const Json config = keras::model_to_config(model);
  const std::string& digests = golden().at("layers").as_string();
  const Json::Array& layers = config.at("config").at("layers").as_array();
  EXPECT_EQ(layers.size(), digests.size() / 8);
  for (size_t i = 0; i < std::min(layers.size(), digests.size() / 8); ++i) {
    Json entry = Json::object();
    for (const auto& [key, value] : layers[i].as_object()) {
      if (key != "build_config") entry.set(key, value);
    }
    ASSERT_EQ(digest(canonical(entry)), digests.substr(8 * i, 8))
        << "here: " << canonical(entry) << "\nthere: make_keras_applications.py --layer "
        << GetParam() << ' ' << i;
  }
  std::string shapes;
  for (const keras::Weight& weight : model->weights()) {
    std::string sizes;
    for (const int64_t size : weight.variable.sizes()) {
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    }
    shapes += "[" + sizes + "]";
  }
  EXPECT_EQ(digest(shapes), golden().at("weights").as_string());

  const Json* predicts = golden().find("predicts");
  if (predicts == nullptr) return;
  fill(model);
  const at::NoGradGuard no_grad;
  const at::Tensor y = model(image_for(golden(), model)).to(at::kDouble)[0];
  const at::Tensor expected = at::tensor(doubles_of(*predicts), at::kDouble);
  const double error = (y - expected).abs().max().item<double>();
  EXPECT_LE(error, 1e-4 * expected.abs().max().item<double>());
}

std::string case_name(const testing::TestParamInfo<size_t>& info) {
  const Json& each = golden_applications().at("cases").as_array()[info.param];
  return str_cat(each.at("network").as_string(), "_", info.param);
}
INSTANTIATE_TEST_SUITE_P(
    Networks, GoldenApplication,
    testing::Range<size_t>(0, golden_applications().at("cases").as_array().size()), case_name);

TEST(ApplicationsTest, GoldenCasesHaveEveryNetwork) {
  std::map<std::string, Maker> missing = makers();
  for (const Json& each : golden_applications().at("cases").as_array()) {
    missing.erase(each.at("network").as_string());
  }
  EXPECT_TRUE(missing.empty()) << missing.begin()->first;
}

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
  for (const auto& [network, maker] : makers()) preprocess_input(network, images);
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
  expect_error([] { ResNet50({.include_top = false, .pooling = "sum"}); },
               "[applications] got pooling 'sum'; expected avg, max or none");
}

}  // namespace
}  // namespace strata::applications
