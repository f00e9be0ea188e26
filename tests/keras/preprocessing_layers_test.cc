#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "strata/keras/layer_impl.h"
#include "strata/keras/layers/categories.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/image_preprocessing.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/preprocessing.h"
#include "strata/keras/layers/reshaping.h"
#include "support/expect_error.h"

namespace strata::layers {
namespace {

TEST(NormalizationTest, AdaptsToATensorAndToADatasetAlike) {
  at::manual_seed(1);
  const at::Tensor data = at::randn({103, 4, 3}) * at::tensor({1.0, 5.0, 0.1}, at::kFloat) + 7;
  const at::Tensor rows = data.view({-1, 3});
  Normalization by_tensor, by_dataset;
  by_tensor.adapt(data);
  by_dataset.adapt(data::Dataset::from_tensor_slices({data}).batch(10));
  for (const Normalization& layer : {by_tensor, by_dataset}) {
    const std::vector<keras::Weight> weights = layer->weights();
    ASSERT_EQ(weights.size(), 3U);
    EXPECT_EQ(weights[0].name, "mean");
    EXPECT_EQ(weights[2].variable.dtype(), at::kLong);
    EXPECT_TRUE(at::allclose(weights[0].variable.value(), rows.mean(0), 1e-5));
    EXPECT_TRUE(at::allclose(weights[1].variable.value(), rows.var(0, false), 1e-5));
    const at::Tensor y = layer(data).view({-1, 3});
    EXPECT_TRUE(at::allclose(y.mean(0), at::zeros({3}), 0, 1e-3));
    EXPECT_TRUE(at::allclose(y.std(0, false), at::ones({3}), 1e-3));
    EXPECT_TRUE(layer->trainable_variables().empty());
  }
}

TEST(NormalizationTest, RowsOfADatasetAreBatched) {
  const at::Tensor data = at::randn({300, 2});
  Normalization layer;
  layer.adapt(data::Dataset::from_tensor_slices({data}));
  EXPECT_TRUE(at::allclose(layer->weights()[0].variable.value(), data.mean(0), 1e-4, 1e-6));
}

TEST(NormalizationTest, WrongDataNamesTheLayer) {
  Normalization given({.mean = 1.0, .variance = 2.0, .name = "given"});
  expect_error_containing(
      [&] {
        given.adapt(at::zeros({3, 2}));
      },
      ErrorCode::kFailedPrecondition,
      "layer 'given': adapt() on a layer whose mean and variance were given");
  Normalization layer({.name = "norm"});
  expect_error_containing(
      [&] {
        layer.adapt(at::zeros({0, 2}));
      },
      ErrorCode::kInvalidArgument, "layer 'norm': adapt() received no rows");
  expect_error_containing(
      [&] {
        layer.adapt(at::zeros({5, 3}));
      },
      ErrorCode::kInvalidArgument, "the layer was built with size 2 along axis 1");
  expect_error_containing(
      [&] {
        layer.adapt(data::Dataset::from_tensor_slices({at::zeros({4, 2})}).take(0));
      },
      ErrorCode::kInvalidArgument, "layer 'norm': adapt() received an empty dataset");
}

TEST(ResizingTest, WholeNumbersStayWhole) {
  const at::Tensor bytes = at::randint(0, 256, {2, 6, 5, 3}, at::kByte);
  const Resizing resizing(4, 4);
  const at::Tensor y = resizing(bytes);
  EXPECT_EQ(y.scalar_type(), at::kByte);
  const at::Tensor wanted = resizing(bytes.to(at::kFloat));
  EXPECT_LE((y.to(at::kFloat) - wanted).abs().max().item<double>(), 0.5001);
  EXPECT_EQ(resizing->output_dtypes({at::kByte})[0], at::kByte);
  EXPECT_EQ(resizing->output_dtypes({at::kDouble})[0], at::kFloat);
}

TEST(ImageLayersTest, TakeOneImage) {
  const at::Tensor x = at::randn({6, 5, 3});
  for (const keras::Layer& layer : std::vector<keras::Layer>{
           Resizing(4, 3), CenterCrop(4, 3), RandomCrop(4, 3), RandomRotation({0.1, 0.1})}) {
    const at::Tensor one = layer.call({x}, {.training = true})[0];
    EXPECT_EQ(one.dim(), 3) << layer.name();
    EXPECT_EQ(layer->output_shapes({{6, 5, 3}})[0], one.sizes().vec()) << layer.name();
  }
}

/// The shape is `[batch, height, width, channels]`, and each plane lies in one piece.
bool planes_below(const at::Tensor& x) {
  return x.permute({0, 3, 1, 2}).is_contiguous() &&
         x.permute({0, 3, 1, 2}).suggest_memory_format() == at::MemoryFormat::Contiguous;
}

TEST(ImageLayoutTest, StaysFromLayerToLayer) {
  const at::Tensor batch = at::randn({2, 12, 12, 3});
  const at::Tensor x = Conv2D(8, 3, {.padding = "same"})(batch);
  EXPECT_TRUE(planes_below(x));
  const std::vector<keras::Layer> layers = {
      Conv2D(4, 3),
      Conv2D(4, 3, {.strides = 2, .padding = "same"}),
      Conv2DTranspose(4, 2, {.strides = 2}),
      DepthwiseConv2D(3, {.padding = "same"}),
      SeparableConv2D(4, 3),
      MaxPooling2D(2),
      AveragePooling2D(3, {.strides = 2, .padding = "same"}),
      ZeroPadding2D(1),
      UpSampling2D(2),
      UpSampling2D(2, {.interpolation = "bilinear"}),
  };
  for (const keras::Layer& layer : layers) {
    EXPECT_TRUE(planes_below(layer(x))) << layer.name();
  }
  // A view costs nothing: what comes back to the planes is the same memory.
  EXPECT_EQ(Permute({3, 1, 2})(x).data_ptr(), x.data_ptr());
}

TEST(ImageLayoutTest, KernelsLieAsTheirOperatorsWantThem) {
  const Conv2D conv(5, {3, 2});
  conv->ensure_built({{keras::kNone, 8, 8, 4}});
  const at::Tensor kernel = conv->weights()[0].variable.value();
  EXPECT_EQ(kernel.sizes(), at::IntArrayRef({3, 2, 4, 5}));
  EXPECT_TRUE(kernel.permute({3, 2, 0, 1}).is_contiguous());
  const DepthwiseConv2D depthwise({3, 2}, {.depth_multiplier = 2});
  depthwise->ensure_built({{keras::kNone, 8, 8, 4}});
  EXPECT_TRUE(depthwise->weights()[0].variable.value().permute({2, 3, 0, 1}).is_contiguous());
}

TEST(ImageLayoutTest, FlattenGivesTheOrderOfTheShape) {
  const at::Tensor planes = at::arange(24).view({1, 2, 3, 4});
  const at::Tensor image = planes.permute({0, 2, 3, 1});
  EXPECT_TRUE(at::equal(Flatten()(image), image.contiguous().view({1, 24})));
  EXPECT_TRUE(at::equal(Reshape({4, 6})(image), image.contiguous().view({1, 4, 6})));
}

TEST(DiscretizationTest, AdaptsToQuantiles) {
  Discretization layer({.num_bins = 4});
  expect_error_containing([&] { layer(at::ones({2})); }, ErrorCode::kFailedPrecondition,
                          "has no boundaries; call adapt(data) first");
  layer.adapt(at::arange(100));
  // As Keras's layer has them for the same numbers, in float32.
  const auto boundaries = [](const keras::Layer& of) {
    std::vector<double> values;
    keras::from_config(of->config().at("bin_boundaries"), values);
    return at::tensor(values, at::kDouble);
  };
  EXPECT_TRUE(at::allclose(
      boundaries(layer),
      at::tensor({23.999982833862305, 48.99998092651367, 73.99998474121094}, at::kDouble), 1e-5));
  EXPECT_TRUE(layer(at::tensor({0.0, 30.0, 99.0})).equal(at::tensor({0, 1, 3}, at::kInt)));
  Discretization rough({.num_bins = 3, .epsilon = 0.1});
  rough.adapt(at::arange(50).square());
  EXPECT_TRUE(
      at::allclose(boundaries(rough), at::tensor({250.99996948242188, 1051.0}, at::kDouble), 1e-5));
}

TEST(DiscretizationTest, WhatDoesNotFitIsRefused) {
  expect_error_containing([] { Discretization({}); }, ErrorCode::kInvalidArgument,
                          "You need to set either `num_bins` or `bin_boundaries`.");
  expect_error_containing([] { Discretization({.bin_boundaries = {1}, .num_bins = 2}); },
                          ErrorCode::kInvalidArgument, "should not be set");
  expect_error_containing(
      [] {
        Discretization({.bin_boundaries = {2, 1}});
      },
      ErrorCode::kInvalidArgument, "got bin_boundaries that fall");
  expect_error_containing([] { Discretization({.bin_boundaries = {1}}).adapt(at::ones({2})); },
                          ErrorCode::kFailedPrecondition, "use `num_bins` instead");
}

TEST(CategoryEncodingTest, CountsByWeights) {
  const CategoryEncoding layer(4, {.output_mode = "count"});
  const at::Tensor tokens = at::tensor({1, 2, 2, 0, 3, 1}).view({2, 3});
  const at::Tensor weights = at::tensor({0.5, 1.0, 2.0, 1.0, 0.0, 4.0}).view({2, 3});
  EXPECT_TRUE(
      layer(keras::Tensors{tokens, weights})
          .equal(at::tensor({0.0, 0.5, 3.0, 0.0, 1.0, 4.0, 0.0, 0.0}, at::kFloat).view({2, 4})));
  expect_error_containing(
      [&] {
        CategoryEncoding(4)(keras::Tensors{tokens, weights});
      },
      ErrorCode::kInvalidArgument, "`count_weights` is not used");
  expect_error_containing([] { CategoryEncoding(0); }, ErrorCode::kInvalidArgument,
                          "`num_tokens` must be >= 1");
  expect_error_containing([] { CategoryEncoding(3, {.output_mode = "int"}); },
                          ErrorCode::kInvalidArgument, "got output_mode='int'");
}

}  // namespace
}  // namespace strata::layers
