// Models of one's own, several outputs, losses that layers add.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "keras/custom_layer.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"
#include "support/replicas.h"

namespace strata::keras {
namespace {

using data::Dataset;
using test::PenaltyImpl;
using test::waves;

/// Fits on each number of replicas; all must have the first's history.
void expect_equal_histories(const std::function<Model()>& make, const Dataset& batches) {
  set_logical_devices("cpu", 3);
  std::map<std::string, std::vector<double>> first;
  for (int replicas : {1, 2, 3}) {
    MirroredStrategy strategy({.devices = cpus(replicas)});
    set_random_seed(4);
    const Model model = strategy.scope(make);
    const History history = model.fit(batches, {.epochs = 3, .verbose = 0});
    if (replicas == 1) {
      first = history.history;
      EXPECT_LT(first.at("loss").back(), first.at("loss").front());
      continue;
    }
    ASSERT_EQ(history.history.size(), first.size());
    for (const auto& [name, values] : history.history) {
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(values[i], first.at(name)[i], 1e-5 * std::abs(first.at(name)[i])) << name;
      }
    }
  }
}

TEST(CustomModelsTest, LossesThatLayersAddCountOnceForEachExample) {
  expect_equal_histories(
      [] {
        const auto input = Input({4});
        const auto x = make_layer<PenaltyImpl>()(layers::Dense(5, "tanh")(input));
        Model model(input, layers::Dense(1)(x));
        model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.02}), .loss = "mse"});
        return model;
      },
      Dataset::from_tensor_slices({waves(22, 4, 0.7), waves(22, 1, 0.3)}).batch(8));
}

TEST(CustomModelsTest, SeveralOutputsHaveLossesWeightsAndMetricsOfTheirOwn) {
  const auto make = [] {
    const auto a = Input({4}, {.name = "a"});
    const auto b = Input({2}, {.name = "b"});
    const auto x = layers::Concatenate()({layers::Dense(5, "tanh")(a), b});
    Model model(std::vector{a, b},
                {layers::Dense(1, {.name = "value"})(x), layers::Dense(3, {.name = "kind"})(x)});
    model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.1}),
                   .loss = {"mse", losses::SparseCategoricalCrossentropy({.from_logits = true})},
                   .loss_weights = {0.5, 2.0},
                   .metrics = std::map<std::string, MetricList>{{"kind", {"accuracy"}}}});
    return model;
  };
  const auto batches =
      Dataset::from_tensor_slices({waves(22, 4, 0.7), waves(22, 2, 0.9), waves(22, 1, 0.3),
                                   at::arange(22, at::kLong).remainder(3)})
          .batch(8);
  expect_equal_histories(make, batches);
  const Logs logs = make().evaluate(batches, {.verbose = 0});
  EXPECT_NEAR(logs.at("loss"), 0.5 * logs.at("value_loss") + 2 * logs.at("kind_loss"), 1e-5);
  EXPECT_TRUE(logs.find("kind_accuracy"));

  expect_error_containing(
      [&] {
        Model model = make();
        model.compile(
            {.optimizer = "sgd", .loss = std::map<std::string, losses::Loss>{{"values", "mse"}}});
        model.fit(batches, {.verbose = 0});
      },
      ErrorCode::kInvalidArgument, "losses for output 'values'; there are 'value', 'kind'");
}

/// A model whose step is its own: it learns from the row and from its mirror image.
class TwinImpl : public ModelImpl {
 public:
  std::string_view class_name() const override { return "Twin"; }

  void train_step(const Batch& batch) override {
    Batch both = batch;
    both.x[0] = at::cat({batch.x[0], -batch.x[0]});
    both.y[0] = at::cat({batch.y[0], -batch.y[0]});
    ModelImpl::train_step(both);
  }

 protected:
  Tensors call(const Tensors& inputs, const Call&) override {
    return {output_(dropout_(hidden_(inputs[0])))};
  }

 private:
  layers::Dense hidden_ = track("hidden", layers::Dense(6, "tanh"));
  layers::Dropout dropout_ = track("dropout", layers::Dropout(0));
  layers::Dense output_ = track("output", layers::Dense(1));
};

TEST(CustomModelsTest, AModelMayHaveAStepOfItsOwn) {
  expect_equal_histories(
      [] {
        Model model = make_model<TwinImpl>();
        model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.1}),
                       .loss = "mse",
                       .metrics = {"mae"}});
        return model;
      },
      Dataset::from_tensor_slices({waves(22, 4, 0.7), waves(22, 1, 0.3)}).batch(8));
}

TEST(CustomModelsTest, WeightsAreMadeByTheFirstData) {
  const Sequential model({layers::Flatten(), layers::Dense(3), layers::Dense(1)});
  EXPECT_FALSE(model->built());
  EXPECT_TRUE(model->weights().empty());
  model.compile({.optimizer = "adam", .loss = "mse"});
  model.fit(Dataset::from_tensor_slices({at::ones({6, 2, 2}), at::ones({6, 1})}).batch(3),
            {.verbose = 0});
  EXPECT_EQ(model->count_params(), 4 * 3 + 3 + 3 + 1);
  EXPECT_EQ(to_string(model.inputs()[0].shape()), "(None, 2, 2)");
}

TEST(CustomModelsTest, SharedAndNestedLayersAreOne) {
  const layers::Dense shared(3);
  const auto input = Input({3});
  const Model block(input, shared(input));
  const auto outer = Input({3});
  const Model model(outer, layers::Add()({block(outer), shared(block(outer))}));
  EXPECT_EQ(model->count_params(), 12);
  EXPECT_EQ(model.get_layer(block.name()), block);
  const at::Tensor x = at::ones({2, 3});
  const at::Tensor once = shared(x);
  EXPECT_TRUE(model(x).allclose(once + shared(once)));
}

/// Where a token comes twice in a batch its gradients are one gradient, as in a product with
/// one-hot rows. The numbers are Keras's for that product; its own Embedding differs
/// (docs/tf_map.md).
TEST(CustomModelsTest, AnEmbeddingTrainsAsItsDenseProduct) {
  const auto after = [](const optimizers::AnyOptimizer& optimizer) {
    const Sequential model(Input({3}), {layers::Embedding(4, 1), layers::Flatten()});
    model.set_weights({at::tensor({0.5F, 0.3F, 0.2F, 0.1F}).reshape({4, 1})});
    model.compile({.optimizer = optimizer, .loss = "mse"});
    const at::Tensor y = at::tensor({1.0F, 2.0F, 3.0F}).reshape({1, 3});
    const at::Tensor first = at::tensor({0.0F, 0.0F, 1.0F}).reshape({1, 3});
    const at::Tensor second = at::tensor({2.0F, 2.0F, 1.0F}).reshape({1, 3});
    for (const at::Tensor& x : {first, second, first}) model.train_on_batch(data::Example({x, y}));
    return model.get_weights()[0].flatten();
  };
  const auto expect = [](const at::Tensor& got, const std::vector<float>& keras) {
    EXPECT_TRUE(got.allclose(at::tensor(keras), 1e-5, 1e-6)) << got;
  };
  expect(after(optimizers::Adam({.learning_rate = 0.1})),
         {0.7476947F, 0.5995655F, 0.3319345F, 0.1F});
  expect(after(optimizers::RMSprop({.learning_rate = 0.1})),
         {1.0075314F, 1.0045999F, 0.5162277F, 0.1F});
  expect(after(optimizers::Adagrad({.learning_rate = 0.1})),
         {0.6632931F, 0.5229982F, 0.2983762F, 0.1F});
  expect(after(optimizers::SGD({.learning_rate = 0.1})),
         {0.7488889F, 0.80480003F, 0.3733333F, 0.1F});
}

TEST(CustomModelsTest, BinaryCrossentropyTakesASoftmaxForProbabilities) {
  const Sequential model(Input({2}), {layers::Activation("softmax")});
  model.compile({.optimizer = "sgd", .loss = "binary_crossentropy"});
  const at::Tensor x = at::tensor({1.0F, 2.0F}).reshape({1, 2});
  const at::Tensor y = at::tensor({0.0F, 1.0F}).reshape({1, 2});
  const double loss = model.evaluate(x, y, {.verbose = 0}).at("loss");
  EXPECT_NEAR(loss, 0.3132617, 1e-6);  // Keras 3.15, compiled: 0.7200949, by the sigmoid of x
}

TEST(CustomModelsTest, FrozenLayersStayAsTheyAre) {
  const Sequential model(Input({2}), {layers::Dense(3), layers::Dense(1)});
  model.get_layer(size_t{0})->set_trainable(false);
  model.compile({.optimizer = "sgd", .loss = "mse"});
  const at::Tensor before = model->weights()[0].variable.value().clone();
  const at::Tensor moved = model->weights()[2].variable.value().clone();
  model.fit(at::ones({4, 2}), at::zeros({4, 1}), {.verbose = 0});
  EXPECT_TRUE(before.equal(model->weights()[0].variable.value()));
  EXPECT_FALSE(moved.equal(model->weights()[2].variable.value()));
}

}  // namespace
}  // namespace strata::keras
