// A Keras model in a loop of the program's own: the mode of a call, the losses that layers add.
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include "keras/custom_layer.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers.h"
#include "strata/keras/sequential.h"
#include "strata/optim/losses.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/runtime/replica_context.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"
#include "support/replicas.h"

namespace strata::keras {
namespace {

using data::Dataset;
using test::PenaltyImpl;
using test::waves;

/// True if a call with ones drops any.
bool drops(const at::Tensor& y) { return !y.equal(at::ones_like(y)); }

TEST(CallModeTest, ACallTrainsInsideRunWhereGradientsAreRecorded) {
  MirroredStrategy strategy({.devices = cpus(2)});
  const Model model =
      strategy.scope([] { return Sequential(Input({200}), {layers::Dropout(0.5)}); });
  const layers::Dropout layer(0.5);
  const at::Tensor x = at::ones({1, 200});
  EXPECT_FALSE(drops(model(x)));
  EXPECT_FALSE(drops(layer(x)));
  strategy.run([&] {
    EXPECT_TRUE(drops(model(x)));
    EXPECT_TRUE(drops(layer(x)));
    EXPECT_FALSE(drops(model.call({x}, {.training = false})[0]));
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(drops(model(x)));
    EXPECT_TRUE(drops(model.call({x}, {.training = true})[0]));
  });
  EXPECT_TRUE(drops(model.call({x}, {.training = true})[0]));
}

/// Calls a layer inside, without a word about the mode.
class AroundImpl final : public UnaryLayerImpl {
 public:
  std::string_view class_name() const override { return "Around"; }

 private:
  void describe(ConfigWriter&) const override {}
  at::Tensor call(const at::Tensor& x, const Call&) override { return inside_(x); }
  layers::Dropout inside_ = track("inside", layers::Dropout(0.5));
};

TEST(CallModeTest, LayersInsideHaveTheModeOfTheLayerAround) {
  MirroredStrategy strategy({.devices = cpus(2)});
  const Layer around = strategy.scope([] {
    Layer layer = make_layer<AroundImpl>();
    layer->ensure_built({{kNone, 200}});
    return layer;
  });
  const at::Tensor x = at::ones({1, 200});
  strategy.run([&] {
    EXPECT_TRUE(drops(around(x)));
    EXPECT_FALSE(drops(around.call({x}, {.training = false})[0]));
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(drops(around(x)));
    EXPECT_TRUE(drops(around.call({x}, {.training = true})[0]));
  });
}

TEST(CallModeTest, EvaluateAndPredictAreInferenceAndFitTrains) {
  const Sequential model(
      Input({200}),
      {layers::Dropout(0.5), layers::Dense(1, {.use_bias = false, .kernel_initializer = "ones"})});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0}), .loss = "mse"});
  const at::Tensor x = at::ones({4, 200});
  const at::Tensor y = at::full({4, 1}, 200.0);
  EXPECT_EQ(model.evaluate(x, y, {.verbose = 0}).at("loss"), 0);
  EXPECT_TRUE(model.predict(x, {.verbose = 0}).equal(y));
  EXPECT_GT(model.fit(x, y, {.verbose = 0})["loss"][0], 1);
}

TEST(CallModeTest, ABatchNormalizationByItself) {
  MirroredStrategy strategy({.devices = cpus(2)});
  const at::Tensor x = waves(8, 3, 0.7) + 5;
  const layers::BatchNormalization unbuilt;
  expect_error_containing([&] { strategy.run([&] { unbuilt(x); }); },
                          ErrorCode::kFailedPrecondition,
                          "strategy.scope([&] { layer->ensure_built({shape}); })");
  // Quoted in docs/custom_loops.md.
  const layers::BatchNormalization norm({.momentum = 0.5});
  strategy.scope([&] { norm->ensure_built({{keras::kNone, 3}}); });
  strategy.run([&] { norm(x); });

  const at::Tensor moving_mean = norm.get_weights()[2];
  EXPECT_TRUE(moving_mean.allclose(x.mean(0) * 0.5, 1e-5, 1e-6)) << moving_mean;
  // Outside run it normalises with what it has learnt, and learns nothing.
  norm(x);
  EXPECT_TRUE(norm.get_weights()[2].equal(moving_mean));
}

Model penalized() {
  return Sequential(Input({4}),
                    {layers::Dense(5, {.activation = "tanh",
                                       .kernel_regularizer = regularizers::L2(0.05),
                                       .activity_regularizer = regularizers::L1(0.02)}),
                     make_layer<PenaltyImpl>(), layers::BatchNormalization({.synchronized = true}),
                     layers::Dense(1, {.bias_regularizer = regularizers::L1(0.1)})});
}

TEST(LossesTest, AreThoseOfTheLastCall) {
  const layers::Dense dense(2, {.kernel_initializer = "ones",
                                .kernel_regularizer = regularizers::L2(0.5),
                                .activity_regularizer = regularizers::L1(0.25)});
  const Sequential model(Input({3}), {dense, make_layer<PenaltyImpl>()});
  // Before a call the weights' penalties alone: 0.5 * 6.
  ASSERT_EQ(model.losses().size(), 1u);
  EXPECT_EQ(model.losses()[0].item<double>(), 3);
  for (const double value : {1.0, 2.0}) {
    model(at::full({4, 3}, value));
    // y = 3 value in 8 places: 0.25 * 8 * 3 value / 4 rows; 0.1 * 2 * (3 value)^2; 3.
    const Tensors all = model.losses();
    ASSERT_EQ(all.size(), 3u);
    EXPECT_NEAR(all[0].item<double>(), 1.5 * value, 1e-5);
    EXPECT_NEAR(all[1].item<double>(), 1.8 * value * value, 1e-5);
    EXPECT_EQ(all[2].item<double>(), 3);
  }
  dense(at::ones({4, 3}));
  EXPECT_EQ(dense.losses().size(), 2u);
  dense->set_trainable(false);
  EXPECT_EQ(dense.losses().size(), 1u);  // what is not trained has no penalty
}

TEST(LossesTest, EachReplicaHasItsOwn) {
  set_logical_devices("cpu", 3);
  MirroredStrategy strategy({.devices = cpus(3)});
  const Model model =
      strategy.scope([] { return Sequential(Input({1}), {make_layer<PenaltyImpl>()}); });
  strategy.run([&] {
    const double id = get_replica_context()->replica_id_in_sync_group();
    model(at::full({2, 1}, id + 1));
    EXPECT_NEAR(model.losses().at(0).item<double>(), 0.1 * (id + 1) * (id + 1), 1e-6);
  });
  EXPECT_TRUE(model.losses().empty());  // none was called outside run
}

/// The weights that `fit` ends with, or the loop of docs/custom_loops.md.
Tensors trained(int replicas, bool by_fit) {
  MirroredStrategy strategy({.devices = cpus(replicas)});
  set_random_seed(4);
  const Model model = strategy.scope(penalized);
  const Dataset dataset =
      Dataset::from_tensor_slices({waves(22, 4, 0.7), waves(22, 1, 0.3)}).batch(8);
  const int epochs = 3;
  if (by_fit) {
    model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.05}), .loss = "mse"});
    model.fit(dataset, {.epochs = epochs, .verbose = 0});
    return model.get_weights();
  }
  // Quoted in docs/custom_loops.md.
  optimizers::SGD sgd(model->trainable_variables(), {.learning_rate = 0.05});
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const auto& batch : strategy.distribute(dataset)) {
      strategy.run(
          [&](const data::Example& part) {
            const auto rows = static_cast<double>(part.num_rows());
            at::Tensor loss = losses::mean_squared_error(part.y(), model(part.x())).sum();
            for (const at::Tensor& each : model.losses()) loss = loss + each * rows;
            sgd.minimize(loss, {.weight = rows});
          },
          batch);
    }
  }
  return model.get_weights();
}

TEST(LossesTest, ALoopWithThemTrainsAsFitDoes) {
  set_logical_devices("cpu", 3);
  for (const int replicas : {1, 2, 3}) {
    const Tensors actual = trained(replicas, false);
    const Tensors of_fit = trained(replicas, true);
    const Tensors one = trained(1, true);
    ASSERT_EQ(actual.size(), of_fit.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(actual[i].allclose(of_fit[i], 1e-5, 1e-6)) << replicas << " replicas, " << i;
      EXPECT_TRUE(actual[i].allclose(one[i], 1e-4, 1e-5)) << replicas << " replicas, " << i;
    }
  }
}

TEST(GetWeightsTest, SetsWhatItGives) {
  set_logical_devices("cpu", 2);
  MirroredStrategy strategy({.devices = cpus(2)});
  const auto make = [] {
    return Sequential(Input({3}), {layers::Dense(2, {.name = "first"}),
                                   layers::BatchNormalization({.name = "norm"}),
                                   layers::Dense(1, {.name = "last"})});
  };
  const Model from = strategy.scope(make);
  // In Keras's order: layer by layer; of each the trained ones first.
  const std::vector<std::vector<int64_t>> shapes = {{3, 2}, {2}, {2}, {2}, {2}, {2}, {2, 1}, {1}};
  // Quoted in docs/keras.md.
  const keras::Tensors weights = from.get_weights();
  const Model to = make();
  to.set_weights(weights);

  ASSERT_EQ(weights.size(), shapes.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(weights[i].sizes().vec(), shapes[i]);
    EXPECT_TRUE(to.get_weights()[i].equal(weights[i]));
  }
  const at::Tensor x = waves(4, 3, 0.9);
  EXPECT_TRUE(to(x).equal(from(x)));

  // All replicas, with dtypes cast, and copies that nothing else changes.
  Tensors doubles;
  for (const at::Tensor& each : weights) doubles.push_back(at::full_like(each, 0.25, at::kDouble));
  from.set_weights(doubles);
  strategy.run([&] {
    for (const Weight& weight : from->weights()) {
      EXPECT_TRUE(weight.variable.value().eq(0.25).all().item<bool>()) << weight.name;
    }
  });
  EXPECT_FALSE(weights[0].eq(0.25).all().item<bool>());
  weights[0].zero_();
  EXPECT_TRUE(from.get_weights()[0].eq(0.25).all().item<bool>());
  EXPECT_TRUE(from.get_layer("last").get_weights()[1].equal(at::full({1}, 0.25)));
}

TEST(GetWeightsTest, RefusesAllOrNothing) {
  const Sequential model(Input({3}), {layers::Dense(2, {.name = "only"})}, "m");
  const Tensors before = model.get_weights();
  expect_error(
      [&] {
        model.set_weights({at::zeros({3, 2})});
      },
      ErrorCode::kInvalidArgument,
      "[keras] layer 'm': set_weights got 1 tensors; expected 2, in the order of "
      "get_weights()");
  expect_error(
      [&] {
        model.set_weights({at::zeros({3, 2}), at::zeros({3})});
      },
      ErrorCode::kInvalidArgument,
      "[keras] layer 'm': set_weights got (3,) for 'only/bias' (tensor 1); expected (2,)");
  expect_error_containing(
      [&] {
        model.set_weights({at::zeros({3, 2}), {}});
      },
      ErrorCode::kInvalidArgument, "got nothing for 'only/bias'");
  EXPECT_TRUE(model.get_weights()[0].equal(before[0]));
  const Sequential unbuilt({layers::Dense(2)}, "n");
  expect_error_containing([&] { unbuilt.set_weights(before); }, ErrorCode::kInvalidArgument,
                          "it is not built yet: call it, or give it an Input");
  MirroredStrategy strategy({.devices = cpus(1)});
  expect_error_containing([&] { strategy.run([&] { model.set_weights(before); }); },
                          ErrorCode::kFailedPrecondition, "set_weights inside run()");
}

}  // namespace
}  // namespace strata::keras
