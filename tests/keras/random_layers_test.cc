#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/diag.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/selu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "strata/graph/function.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/layers/augmentation_policies.h"
#include "strata/keras/layers/batch_mixing.h"
#include "strata/keras/layers/color_augmentation.h"
#include "strata/keras/layers/histogram_equalization.h"
#include "strata/keras/layers/image_augmentation.h"
#include "strata/keras/layers/image_preprocessing.h"
#include "strata/keras/layers/regularization.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"
#include "support/replicas.h"

namespace strata::layers {
namespace {

const keras::Call kTraining{.training = true};

at::Tensor train(const keras::Layer& layer, const at::Tensor& x) {
  return layer.call({x}, kTraining)[0];
}

double share_of_zeros(const at::Tensor& x) {
  return (x == 0).to(at::kDouble).mean().item<double>();
}
double number(const at::Tensor& x) { return x.item<double>(); }

struct Case {
  const char* name;
  keras::Layer layer;
  std::vector<int64_t> shape;
};

std::vector<Case> all_layers() {
  const std::vector<int64_t> image = {6, 8, 9, 3};
  return {
      {"dropout", Dropout(0.4), {20, 30}},
      {"dropout_shape", Dropout(0.4, {.noise_shape = {{std::nullopt, 1}}}), {20, 30}},
      {"spatial1d", SpatialDropout1D(0.4), {20, 3, 9}},
      {"spatial2d", SpatialDropout2D(0.4), image},
      {"spatial3d", SpatialDropout3D(0.4), {6, 2, 3, 2, 5}},
      {"gaussian_dropout", GaussianDropout(0.4), {20, 30}},
      {"gaussian_noise", GaussianNoise(0.4), {20, 30}},
      {"alpha_dropout", AlphaDropout(0.4), {20, 30}},
      {"flip", RandomFlip("horizontal"), {64, 8, 9, 3}},  // One of them is flipped, surely.
      {"crop", RandomCrop(5, 4), image},
      {"rotation", RandomRotation(0.2), image},
      {"translation", RandomTranslation(0.3, {-0.1, 0.4}), image},
      {"zoom", RandomZoom(0.3), image},
      {"contrast", RandomContrast(0.5, {.value_range = {-9, 9}}), image},
      {"brightness", RandomBrightness(0.5, {.value_range = {-9, 9}}), image},
      {"grayscale", RandomGrayscale(0.5), {64, 8, 9, 3}},
      {"invert", RandomInvert(0.9, {.value_range = {-9, 9}}), {64, 8, 9, 3}},
      {"posterization", RandomPosterization({2, 6}, {.value_range = {-9, 9}}), image},
      {"saturation", RandomSaturation(0.5, {.value_range = {-9, 9}}), image},
      {"hue", RandomHue(0.5, {.value_range = {-9, 9}}), image},
      {"degeneration", RandomColorDegeneration(0.5, {.value_range = {-9, 9}}), image},
      {"sharpness", RandomSharpness(0.4, {.value_range = {-9, 9}}), image},
      {"solarization", Solarization(0.3, 0.4, {.value_range = {-9, 9}}), image},
      {"shear", RandomShear(0.4, {0.1, 0.3}), image},
      {"perspective", RandomPerspective({0.9, 1.0}), image},
      {"elastic", RandomElasticTransform({0.9, 1.0}, {.value_range = {-9, 9}}), image},
      {"blur", RandomGaussianBlur({0.9, 1.0}, {.sigma = {0.5, 1.0}, .value_range = {-9, 9}}),
       image},
      {"mix up", MixUp({.alpha = 0.8}), {64, 8, 9, 3}},
      {"cut mix", CutMix(), {64, 8, 9, 3}},
      {"erasing", RandomErasing({0.9, 1.0}, {.value_range = {-9, 9}}), image},
      {"jitter",
       RandomColorJitter({.value_range = {-9, 9},
                          .brightness_factor = 0.5,
                          .contrast_factor = 0.5,
                          .saturation_factor = 0.5,
                          .hue_factor = 0.5}),
       image},
      {"rand augment", RandAugment({.value_range = {-9, 9}, .num_ops = 4}), image},
      {"aug mix", AugMix({.value_range = {-9, 9}}), image},
  };
}

TEST(RandomLayersTest, LeaveInputsAloneAtInferenceAndChangeThemInTraining) {
  for (const Case& each : all_layers()) {
    SCOPED_TRACE(each.name);
    const at::Tensor x = at::randn(each.shape);
    const at::Tensor calm = each.layer(x);
    if (std::string(each.name) != "crop") {
      EXPECT_TRUE(at::equal(calm, x));
    }
    const at::Tensor changed = train(each.layer, x);
    EXPECT_EQ(changed.sizes().vec(), each.layer->output_shapes({each.shape})[0]);
    EXPECT_FALSE(changed.sizes() == x.sizes() && at::equal(changed, x));
    EXPECT_EQ(changed.scalar_type(), at::kFloat);
    // Nothing to change in a batch without rows.
    const at::Tensor none = train(each.layer, x.narrow(0, 0, 0));
    EXPECT_EQ(none.size(0), 0);
    EXPECT_EQ(none.dim(), x.dim());
  }
}

TEST(RandomLayersTest, SameBitsOnReplayAndWithFewerPermits) {
  set_logical_devices("cpu", 3);
  for (const Case& each : all_layers()) {
    SCOPED_TRACE(each.name);
    const at::Tensor x = at::randn(each.shape);
    each.layer->ensure_built({each.shape});
    const auto three_steps = [&](int permits) {
      MirroredStrategy strategy({.devices = cpus(3), .seed = 11, .replicas = {.permits = permits}});
      std::vector<PerReplica<at::Tensor>> steps;
      for (int step = 0; step < 3; ++step) {
        steps.push_back(strategy.run([&] { return train(each.layer, x); }));
      }
      return steps;
    };
    const auto first = three_steps(3), again = three_steps(1);
    bool replicas_differ = false, steps_differ = false;
    const auto same = [](const at::Tensor& a, const at::Tensor& b) { return at::equal(a, b); };
    for (size_t step = 0; step < 3; ++step) {
      for (int r = 0; r < 3; ++r) {
        EXPECT_TRUE(same(first[step].get(r), again[step].get(r)));
        replicas_differ |= !same(first[step].get(r), first[step].get(0));
        steps_differ |= !same(first[step].get(r), first[0].get(r));
      }
    }
    EXPECT_TRUE(replicas_differ);
    EXPECT_TRUE(steps_differ);
  }
}

TEST(DropoutTest, DropsItsShareAndScalesTheRest) {
  at::manual_seed(1);
  for (const double rate : {0.1, 0.5, 0.9}) {
    const at::Tensor y = train(Dropout(rate), at::ones({300, 300}));
    EXPECT_NEAR(share_of_zeros(y), rate, 0.01);
    const at::Tensor kept = y.masked_select(y != 0);
    EXPECT_TRUE(at::allclose(kept, at::full_like(kept, 1 / (1 - rate))));
  }
  EXPECT_EQ(share_of_zeros(train(Dropout(1), at::ones({9, 9}))), 1);
  const at::Tensor x = at::ones({4, 4});
  EXPECT_TRUE(train(Dropout(0), x).is_same(x));
}

TEST(DropoutTest, NoiseShapeDropsRowsTogether) {
  at::manual_seed(2);
  const at::Tensor y =
      train(Dropout(0.5, {.noise_shape = {{std::nullopt, 1, 4}}}), at::ones({50, 20, 4}));
  EXPECT_TRUE(at::equal(y.amax(1), y.amin(1)));
  EXPECT_NEAR(share_of_zeros(y), 0.5, 0.15);
}

TEST(DropoutTest, KeepsTheMemoryOfImages) {
  // NHWC-shaped, planes below.
  const at::Tensor x = at::ones({2, 3, 4, 5}).permute({0, 2, 3, 1});
  for (const keras::Layer& layer :
       std::vector<keras::Layer>{Dropout(0.5), GaussianNoise(0.5), SpatialDropout2D(0.5)}) {
    EXPECT_EQ(train(layer, x).strides(), x.strides()) << layer.name();
  }
}

TEST(SpatialDropoutTest, DropsWholeChannels) {
  at::manual_seed(3);
  const auto check = [](const keras::Layer& layer, at::IntArrayRef shape,
                        std::vector<int64_t> spatial) {
    const at::Tensor y = train(layer, at::ones(shape));
    EXPECT_TRUE(at::equal(y.amax(spatial), y.amin(spatial)));
    EXPECT_NEAR(share_of_zeros(y), 0.25, 0.05);
    EXPECT_NEAR(number(y.max()), 1 / 0.75, 1e-6);
  };
  check(SpatialDropout1D(0.25), {50, 3, 40}, {1});
  check(SpatialDropout2D(0.25), {50, 3, 2, 40}, {1, 2});
  check(SpatialDropout2D(0.25, {.data_format = "channels_first"}), {50, 40, 3, 2}, {2, 3});
  check(SpatialDropout3D(0.25), {50, 2, 3, 2, 40}, {1, 2, 3});
}

TEST(GaussianTest, MomentsOfTheNoise) {
  at::manual_seed(4);
  const at::Tensor x = at::full({400, 400}, 3.0);
  const at::Tensor times = train(GaussianDropout(0.2), x);
  EXPECT_NEAR(number(times.mean()), 3, 0.03);
  EXPECT_NEAR(number(times.std()), 3 * std::sqrt(0.2 / 0.8), 0.03);
  const at::Tensor plus = train(GaussianNoise(0.7), x);
  EXPECT_NEAR(number(plus.mean()), 3, 0.03);
  EXPECT_NEAR(number(plus.std()), 0.7, 0.01);
}

TEST(AlphaDropoutTest, KeepsMeanAndVarianceOfWhatSeluGives) {
  at::manual_seed(5);
  const at::Tensor x = at::selu(at::randn({600, 600}));
  const at::Tensor y = train(AlphaDropout(0.3), x);
  EXPECT_NEAR(number(y.mean()), number(x.mean()), 0.02);
  EXPECT_NEAR(number(y.var()), number(x.var()), 0.03);
  const double lowest = number(y.min());
  EXPECT_NEAR(number((y == lowest).to(at::kDouble).mean()), 0.3, 0.01);
}

TEST(RandomFlipTest, FlipsHalfOfTheImages) {
  at::manual_seed(6);
  const at::Tensor x = at::randn({400, 3, 4, 2});
  for (const auto& [mode, axes] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
           {"horizontal", {2}}, {"vertical", {1}}, {"horizontal_and_vertical", {1, 2}}}) {
    const at::Tensor y = train(RandomFlip(mode), x), flipped = x.flip(axes);
    int count = 0;
    for (int64_t i = 0; i < x.size(0); ++i) {
      const bool is_flipped = at::equal(y[i], flipped[i]);
      EXPECT_TRUE(is_flipped || at::equal(y[i], x[i]));
      count += is_flipped ? 1 : 0;
    }
    EXPECT_NEAR(count, 200, 50) << mode;
  }
}

TEST(RandomCropTest, TakesOnePartOfAllImagesAndReachesEveryPlace) {
  at::manual_seed(7);
  // Each pixel says where it is.
  const at::Tensor x = (at::arange(4).view({4, 1}) * 10 + at::arange(5).view({1, 5}))
                           .to(at::kFloat)
                           .view({1, 4, 5, 1})
                           .expand({2, 4, 5, 1});
  const RandomCrop crop(2, 3);
  std::set<int> seen;
  for (int i = 0; i < 300; ++i) {
    const at::Tensor y = train(crop, x);
    const int start = y[0][0][0][0].item<int>();
    seen.insert(start);
    const at::Tensor wanted = x.narrow(1, start / 10, 2).narrow(2, start % 10, 3);
    EXPECT_TRUE(at::equal(y, wanted));
  }
  EXPECT_EQ(seen.size(), 9U);
}

TEST(RandomCropTest, ResizesTheMiddleAtInference) {
  const at::Tensor x = at::randn({2, 6, 10, 3});
  const RandomCrop crop(3, 3);
  const at::Tensor middle = x.narrow(2, 2, 6).permute({0, 3, 1, 2});
  const at::Tensor wanted = at::upsample_bilinear2d(middle, {3, 3}, false).permute({0, 2, 3, 1});
  EXPECT_TRUE(at::allclose(crop(x), wanted));
  EXPECT_EQ(train(RandomCrop(8, 8), x).sizes(), at::IntArrayRef({2, 8, 8, 3}));
  const Json config = keras::to_config(RandomCrop(8, 9, {.seed = 3, .name = "c"})).at("config");
  EXPECT_EQ(config.at("height").as_int(), 8);
  EXPECT_EQ(config.at("width").as_int(), 9);
  EXPECT_EQ(config.at("seed").as_int(), 3);
}

TEST(RandomColorTest, EachImageIsDrawnForByItself) {
  at::manual_seed(9);
  const at::Tensor x = at::rand({400, 2, 2, 3}) * 255;
  const auto share_changed = [&](const keras::Layer& layer) {
    return number((train(layer, x) != x).flatten(1).any(1).to(at::kDouble).mean());
  };
  EXPECT_NEAR(share_changed(RandomGrayscale(0.3)), 0.3, 0.08);
  EXPECT_NEAR(share_changed(RandomInvert({0.6, 0.6})), 0.6, 0.08);
  // The probability itself is drawn from 0 to 0.5.
  EXPECT_NEAR(share_changed(RandomInvert(0.5)), 0.25, 0.07);
  const at::Tensor erased = train(RandomErasing({1, 1}, {.scale = {0.25, 0.25}, .fill_value = 0.0}),
                                  at::full({400, 20, 20, 1}, 1.0));
  EXPECT_NEAR(share_of_zeros(erased), 0.25, 0.02);  // sides of half the length
  const at::Tensor bits = train(RandomPosterization({1, 4}), at::full({400, 1, 1, 1}, 255.0));
  for (const double level : {128.0, 192.0, 224.0}) {
    EXPECT_NEAR(number((bits == level).to(at::kDouble).mean()), 1.0 / 3, 0.09) << level;
  }
}

/// Of many calls, each of which is one batch.
double share_of_calls(const keras::Layer& layer, const at::Tensor& x,
                      const std::function<bool(const at::Tensor& y)>& is_counted) {
  constexpr int kCalls = 400;
  int counted = 0;
  for (int i = 0; i < kCalls; ++i) counted += is_counted(train(layer, x)) ? 1 : 0;
  return counted / static_cast<double>(kCalls);
}

TEST(AugmentationPoliciesTest, ChangesAreChosenEquallyOften) {
  at::manual_seed(6);
  // Only solarization makes other values of an image of one value, and of these it makes white.
  const at::Tensor flat = at::zeros({2, 4, 4, 3});
  const auto is_white = [](const at::Tensor& y) { return y.mean().item<double>() > 200; };
  const RandAugment one({.num_ops = 1, .factor = {0, 0}});
  EXPECT_NEAR(share_of_calls(one, flat, is_white), 1.0 / 11, 0.05);
  const RandAugment two({.num_ops = 2, .factor = {0, 0}});  // twice is black again
  EXPECT_NEAR(share_of_calls(two, flat, is_white), 20.0 / 121, 0.06);
  EXPECT_TRUE(at::equal(train(RandAugment({.num_ops = 0}), flat), flat));
}

TEST(AugmentationPoliciesTest, AugMixIsAMeanOfTheImageAndItsChains) {
  at::manual_seed(7);
  const at::Tensor flat = at::zeros({2, 4, 4, 3});
  // One chain of one change, which is white with a probability of 1/8 (seven changes, or none).
  const AugMix mix({.num_chains = 1, .chain_depth = 1, .factor = {0, 0}, .all_ops = false});
  const auto is_changed = [](const at::Tensor& y) { return y.abs().max().item<double>() > 0; };
  EXPECT_NEAR(share_of_calls(mix, flat, is_changed), 1.0 / 8, 0.05);
  double sum = 0, calls = 0;
  for (int i = 0; i < 2000; ++i) {
    const double level = train(mix, flat).mean().item<double>() / 255;
    EXPECT_GE(level, 0);
    EXPECT_LE(level, 1);
    if (level > 0) sum += level, ++calls;
  }
  EXPECT_NEAR(sum / calls, 0.5, 0.07);  // the weight is uniform, with alpha 1
}

TEST(AugmentationPoliciesTest, RecordedStepsChooseAnewInEachRun) {
  at::manual_seed(8);
  const RandAugment layer({.num_ops = 1, .factor = {0, 0}});
  const at::Tensor flat = at::zeros({2, 4, 4, 3});
  const auto step = strata::function([&](const at::Tensor& x) { return train(layer, x); });
  int white = 0;
  for (int i = 0; i < 300; ++i) white += step(flat).mean().item<double>() > 200 ? 1 : 0;
  EXPECT_NEAR(white / 300.0, 1.0 / 11, 0.06);
}

TEST(AugmentationPoliciesTest, BadOptionsAreRefused) {
  const auto refused = [](const char* why, const std::function<void()>& make) {
    expect_error_containing(make, ErrorCode::kInvalidArgument, why);
  };
  refused("RandAugment: got num_ops=-1; expected 0 or more", [] { RandAugment({.num_ops = -1}); });
  refused("RandAugment: The `factor` argument should be a number",
          [] { RandAugment({.factor = 1.5}); });
  refused("RandAugment: got interpolation='bicubic'; expected 'nearest' or 'bilinear'",
          [] { RandAugment({.interpolation = "bicubic"}); });
  refused("AugMix: got num_chains=0", [] { AugMix({.num_chains = 0}); });
  refused("AugMix: got alpha=0", [] { AugMix({.alpha = 0}); });
  refused("RandomHue: The `factor` argument", [] { RandomColorJitter({.hue_factor = 1.5}); });
  refused("Equalization: got bins=1; expected 2 or more", [] { Equalization({.bins = 1}); });
  refused("Equalization: The `value_range` argument should be a list of two numbers", [] {
    Equalization({.value_range = {3, 3}});
  });
  using Clahe = ContrastLimitedAdaptiveHistogramEqualization;
  refused("got clip_limit=-1; expected 0 (none) or more", [] { Clahe({.clip_limit = -1}); });
  refused("got tile_grid_size (0, 0); expected 1 or more of each",
          [] { Clahe({.tile_grid_size = 0}); });
  refused("Expected image tensor to have rank 3", [] { Clahe()(at::zeros({2, 3})); });
}

TEST(RandomColorTest, BadFactorsAreRefused) {
  expect_error_containing([] { RandomHue(1.5); }, ErrorCode::kInvalidArgument,
                          "RandomHue: The `factor` argument should be a number (or a list of two "
                          "numbers) in the range [0, 1]");
  expect_error_containing([] { RandomPosterization(9.0); }, ErrorCode::kInvalidArgument,
                          "in the range [1, 8]");
  expect_error_containing([] { RandomGrayscale(-0.1); }, ErrorCode::kInvalidArgument,
                          "`factor` should be between 0 and 1");
}

TEST(RandomColorTest, StaysWithinFactorAndRange) {
  at::manual_seed(8);
  const at::Tensor x = at::full({200, 1, 1, 1}, 100.0);
  const at::Tensor y = train(RandomBrightness(0.5), x);
  EXPECT_GE(number(y.min()), 0);
  EXPECT_LE(number(y.max()), 227.5);
  EXPECT_GT(number(y.std()), 30);
  const at::Tensor stripes =
      at::tensor({50.0, 150.0}, at::kFloat).view({1, 2, 1, 1}).repeat({200, 1, 1, 1});
  const at::Tensor z = train(RandomContrast({0.5, 0.5}), stripes);
  EXPECT_TRUE(((z - 100).abs() <= 75.01).all().item<bool>());
  EXPECT_GT(number((z - 100).abs().std()), 5);
}

TEST(BatchMixingTest, MixUpIsAMeanWithAnotherImageAndItsLabel) {
  at::manual_seed(4);
  const int64_t n = 500;
  const at::Tensor numbers = at::arange(n, at::kFloat);
  const at::Tensor images = numbers.view({n, 1, 1, 1}).expand({n, 2, 3, 1});
  const at::Tensor labels = at::eye(n);
  const keras::Tensors mixed = MixUp({.alpha = 0.5}).call({images, labels}, kTraining);
  // The label says of which images, and how much of each.
  const at::Tensor wanted = at::matmul(mixed[1], numbers);
  EXPECT_TRUE(at::allclose(mixed[0].select(3, 0).flatten(1).mean(1), wanted, 1e-4, 1e-3));
  EXPECT_TRUE(at::allclose(mixed[1].sum(1), at::ones({n})));
  EXPECT_LE(number((mixed[1] > 0).sum(1).max()), 2);
  // The weight of the image itself has a beta distribution: mean 1/2, variance 1 / (4 (2 alpha + 1)).
  const at::Tensor weights = mixed[1].diagonal();
  EXPECT_NEAR(number(weights.mean()), 0.5, 0.05);
  EXPECT_NEAR(number(weights.var()), 0.125, 0.02);
  // Every image is another's partner once.
  EXPECT_TRUE(at::allclose((mixed[1] - at::diag(weights)).gt(0).sum(0).to(at::kFloat).mean(),
                           at::ones({}), 0.02));
}

TEST(BatchMixingTest, CutMixPutsARectangleOfAnotherImageThere) {
  at::manual_seed(6);
  const int64_t n = 300, size = 20;
  const at::Tensor numbers = at::arange(n, at::kFloat);
  const at::Tensor images = numbers.view({n, 1, 1, 1}).expand({n, size, size, 1}).contiguous();
  const at::Tensor labels = at::eye(n);
  const keras::Tensors mixed = CutMix({1, 1}).call({images, labels}, kTraining);
  const at::Tensor changed = (mixed[0] != images).select(3, 0);
  // A rectangle has as many pixels as rows times columns that it is in.
  const at::Tensor rows = changed.any(2).sum(1), columns = changed.any(1).sum(1);
  EXPECT_TRUE(at::equal(changed.sum({1, 2}), rows * columns));
  EXPECT_TRUE(at::allclose(1 - mixed[1].diagonal(),
                           changed.to(at::kFloat).mean(at::IntArrayRef({1, 2})), 0, 0.11));
  // Its area is uniform with the parameter 1.
  EXPECT_NEAR(number(mixed[1].diagonal().mean()), 0.5, 0.06);
  EXPECT_NEAR(number(mixed[1].diagonal().var()), 1.0 / 12, 0.02);
}

TEST(BatchMixingTest, WhatDoesNotMatchIsAnError) {
  expect_error_containing([] { MixUp({.alpha = 0}); }, ErrorCode::kInvalidArgument,
                          "MixUp: got alpha=0; expected a number above 0");
  expect_error_containing([] { CutMix(2.0); }, ErrorCode::kInvalidArgument, "in the range [0, 1]");
  const at::Tensor images = at::rand({3, 2, 2, 1});
  expect_error_containing(
      [&] {
        (void)MixUp().call({images, at::arange(3)}, kTraining);
      },
      ErrorCode::kInvalidArgument, "expected floating ones [batch, classes]");
  expect_error_containing(
      [&] {
        (void)MixUp()(at::rand({3, 2}));
      },
      ErrorCode::kInvalidArgument, "expected images [batch, height, width, channels]");
}

TEST(DistortionTest, ShearsAlongOneAxisInBothDirections) {
  at::manual_seed(2);
  // A vertical line: with a shear of 0.5 row y has it 0.5 y pixels further to one side.
  at::Tensor line = at::zeros({40, 9, 21, 1});
  line.select(2, 10).fill_(1);
  const at::Tensor y =
      train(RandomShear({0.5, 0.5}, 0.0, {.fill_mode = "constant"}), line).select(3, 0);
  const at::Tensor place = (y * at::arange(21, at::kFloat)).sum(2) / y.sum(2);
  const at::Tensor moved = (place - 10) / at::arange(9, at::kFloat).clamp_min(1);
  EXPECT_TRUE(at::allclose(moved.narrow(1, 1, 8).abs(), at::full({40, 8}, 0.5), 0, 1e-3));
  EXPECT_GT(number((moved.select(1, 4) > 0).sum()), 5);
  EXPECT_GT(number((moved.select(1, 4) < 0).sum()), 5);
}

TEST(DistortionTest, NothingMovesWithoutAScale) {
  const at::Tensor x = at::rand({4, 7, 9, 2}) * 255;
  EXPECT_TRUE(at::allclose(train(RandomPerspective({1, 1}, {.scale = 0}), x), x, 1e-4, 1e-2));
  EXPECT_TRUE(at::equal(train(RandomElasticTransform({1, 1}, {.scale = 0.0}), x), x));
}

TEST(DistortionTest, BadOptionsAreRefused) {
  const auto fails = [](const std::function<void()>& make, const std::string& part) {
    expect_error_containing(make, ErrorCode::kInvalidArgument, part);
  };
  fails([] { RandomShear(1.5); }, "RandomShear: The `factor` argument should be a number");
  fails([] { RandomPerspective(1.0, {.scale = 2}); }, "in the range [0,1]. Received: scale=2");
  fails([] { RandomGaussianBlur(1.0, {.kernel_size = 4}); },
        "kernel_size must be an odd number. Received: kernel_size=4");
  fails([] { RandomGaussianBlur(1.0, {.sigma = 2.0}); }, "in the range [0, 1]");
  fails([] { RandomElasticTransform(1.0, {.interpolation = "bicubic"}); },
        "RandomElasticTransform: got interpolation='bicubic'");
  fails([] { RandomElasticTransform(1.0, {.fill_mode = "mirror"}); }, "got fill_mode='mirror'");
}

}  // namespace
}  // namespace strata::layers
