#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>

#include "keras/golden_applications.h"
#include "strata/keras/applications.h"
#include "strata/keras/layer.h"
#include "strata/keras/saving.h"

namespace strata::applications {
namespace {

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

/// As `canonical` and `digest` of tests/golden/make_keras_applications.py.
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
/// The cases that are compared alike: with predictions, with options, or the usual ones of the
/// networks that have no others.
std::vector<size_t> cases_of(const std::string& kind) {
  std::vector<size_t> cases;
  const Json::Array& all = golden_applications().at("cases").as_array();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].at("kind").as_string() == kind) cases.push_back(i);
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Predicting, GoldenApplication, testing::ValuesIn(cases_of("predicting")),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Others, GoldenApplication, testing::ValuesIn(cases_of("other")),
                         case_name);
INSTANTIATE_TEST_SUITE_P(WithOptions, GoldenApplication,
                         testing::ValuesIn(cases_of("with options")), case_name);

TEST(GoldenApplicationsTest, HaveEveryNetwork) {
  std::map<std::string, Maker> missing = makers();
  for (const Json& each : golden_applications().at("cases").as_array()) {
    missing.erase(each.at("network").as_string());
  }
  EXPECT_TRUE(missing.empty()) << missing.begin()->first;
}

}  // namespace
}  // namespace strata::applications
