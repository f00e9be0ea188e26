#include "strata/keras/applications.h"

#include <gtest/gtest.h>

#include "strata/core/file_system.h"
#include "strata/keras/layer.h"
#include "support/expect_error.h"
#include "support/source_path.h"

namespace strata::applications {
namespace {

keras::Model make(const std::string& network, const Json& given) {
  Options options;
  double alpha = 1;
  for (const auto& [key, value] : given.as_object()) {
    if (key == "include_top") options.include_top = value.as_bool();
    if (key == "pooling") options.pooling = value.as_string();
    if (key == "classes") options.classes = value.as_int();
    if (key == "classifier_activation") options.classifier_activation = value.as_string();
    if (key == "name") options.name = value.as_string();
    if (key == "alpha") alpha = value.as_double();
    if (key == "input_shape") {
      for (const Json& size : value.as_array()) options.input_shape.push_back(size.as_int());
    }
  }
  if (network == "ResNet50") return ResNet50(options);
  if (network == "InceptionV3") return InceptionV3(options);
  if (network == "VGG16") return VGG16(options);
  return MobileNetV2(options, alpha);
}

keras::Shape shape_of(const Json& json) {
  keras::Shape shape;
  for (const Json& size : json.as_array()) {
    shape.push_back(size.is_null() ? keras::kNone : size.as_int());
  }
  return shape;
}

TEST(ApplicationsTest, LayersNamesAndWeightsAreThoseOfKeras) {
  const Json golden =
      Json::parse(read_file(strata::test::source_path("tests/golden/keras_applications.json")));
  ASSERT_EQ(golden.at("cases").as_array().size(), 9u);
  for (const Json& each : golden.at("cases").as_array()) {
    keras::clear_session();
    const std::string network = each.at("network").as_string();
    SCOPED_TRACE(network + " " + each.at("options").dump());
    const keras::Model model = make(network, each.at("options"));
    EXPECT_EQ(model.name(), each.at("name").as_string());
    EXPECT_EQ(model->count_params(), each.at("parameters").as_int());
    EXPECT_EQ(model.outputs().at(0).shape(), shape_of(each.at("output")));
    const Json::Array& layers = each.at("layers").as_array();
    ASSERT_EQ(model.layers().size(), layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      const keras::Layer layer = model.get_layer(i);
      EXPECT_EQ(str_cat(layer.name(), " ", layer->class_name()), layers[i].as_string());
    }
    const std::vector<keras::Weight> weights = model->weights();
    const Json::Array& shapes = each.at("shapes").as_array();
    ASSERT_EQ(weights.size(), shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_EQ(weights[i].variable.sizes(), at::IntArrayRef(shape_of(shapes[i]))) << i;
    }
  }
}

TEST(ApplicationsTest, ShapesThatAreTooSmall) {
  expect_error(
      [] {
        InceptionV3({.input_shape = {74, 80, 3}});
      },
      ErrorCode::kInvalidArgument,
      "[applications] InceptionV3: got input_shape (74, 80, 3); expected at least 75 x 75");
  expect_error(
      [] {
        VGG16({.input_shape = {64, 64}});
      },
      ErrorCode::kInvalidArgument,
      "[applications] VGG16: got input_shape (64, 64); expected height, width and channels");
  expect_error(
      [] {
        ResNet50({.input_shape = {keras::kNone, 64, 3}});
      },
      ErrorCode::kInvalidArgument,
      "[applications] ResNet50: got input_shape (None, 64, 3); with include_top all sizes "
      "must be known");
  expect_error([] { ResNet50({.include_top = false, .pooling = "sum"}); },
               ErrorCode::kInvalidArgument,
               "[applications] got pooling 'sum'; expected avg, max or none");
}

}  // namespace
}  // namespace strata::applications
