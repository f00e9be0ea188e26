#include "strata/keras/losses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"
#include "support/replicas.h"

namespace strata::losses {
namespace {

using at::Tensor;

TEST(LossTest, NoneByDefault) {
  const Loss none;
  EXPECT_FALSE(none);
  EXPECT_TRUE(to_config(none).is_null());
  expect_error([&] { none.per_sample(at::ones({1}), at::ones({1})); },
               ErrorCode::kFailedPrecondition,
               "[losses] Loss: got none; expected one such as losses::MeanSquaredError()");
}

TEST(LossTest, OneOfYours) {
  const Loss loss(
      [](const Tensor& y_true, const Tensor& y_pred) { return (y_true - y_pred).abs().sum(-1); },
      "my_loss");
  const Tensor y_true = at::zeros({2, 3}), y_pred = at::ones({2, 3});
  EXPECT_EQ(loss.name(), "my_loss");
  EXPECT_EQ(loss(y_true, y_pred).item<float>(), 3);
  EXPECT_EQ(loss(y_true, y_pred, at::tensor({2.0, 0.0})).item<float>(), 3);
  expect_error(
      [&] { to_config(loss); }, ErrorCode::kUnimplemented,
      "[losses] config of 'my_loss': got a user-defined function, which Keras cannot load; save "
      "without compile_config");
  expect_error([] { Loss(Loss::Function()); },
               "[losses] Loss: got an empty function; expected one of y_true and y_pred");
}

TEST(LossTest, NamesAreThoseGiven) {
  EXPECT_EQ(Loss("mse").name(), "mse");
  EXPECT_EQ(Loss("huber").name(), "huber");
  EXPECT_EQ(Loss("Huber").name(), "huber_loss");
  EXPECT_EQ(Huber().name(), "huber_loss");
  EXPECT_EQ(Huber({.name = "mine"}).name(), "mine");
}

TEST(LossTest, AFocalLossHasOneAlphaOrOneForEachClass) {
  const Tensor y_true = at::eye(3, at::kDouble), y_pred = at::full({3, 3}, 0.5, at::kDouble);
  const CategoricalFocalCrossentropy all({.alpha = 0.5});
  const CategoricalFocalCrossentropy each({.alpha = std::vector<double>{0.5, 0.5, 0.5}});
  EXPECT_EQ(all(y_true, y_pred).item<double>(), each(y_true, y_pred).item<double>());
  EXPECT_EQ(to_config(each).at("config").at("alpha").dump(), "[0.5,0.5,0.5]");
  expect_error(
      [&] {
        categorical_focal_crossentropy(y_true, y_pred, {.alpha = std::vector<double>{1, 2}});
      },
      "[losses] categorical_focal_crossentropy: got 2 alphas for y_pred of shape [3, 3]; expected "
      "one, or one for each class");
  expect_error(
      [&] {
        binary_focal_crossentropy(
            y_true, y_pred, {.alpha = std::vector<double>{1, 2, 3}, .apply_class_balancing = true});
      },
      "[losses] binary_focal_crossentropy: got 3 alphas; expected one");
}

TEST(LossTest, WhereNothingCountsTheGradientIsZero) {
  const Tensor y_pred = at::ones({2, 3}, at::kDouble).set_requires_grad(true);
  const Tensor value =
      MeanSquaredError()(at::zeros({2, 3}, at::kDouble), y_pred, {}, at::zeros({2}, at::kBool));
  EXPECT_EQ(value.item<double>(), 0);
  EXPECT_TRUE(torch::autograd::grad({value}, {y_pred})[0].equal(at::zeros_like(y_pred)));
}

TEST(LossTest, CrossentropyChoosesByShapes) {
  at::manual_seed(0);
  const Loss loss = "ce";
  const Tensor p = at::rand({4, 3}), one = at::rand({4, 1});
  const Tensor labels = at::tensor({0, 2, 1, 1}, at::kLong);
  const Tensor hot = at::one_hot(labels, 3).to(at::kFloat);
  EXPECT_TRUE(at::equal(loss(labels, p), SparseCategoricalCrossentropy()(labels, p)));
  EXPECT_TRUE(at::equal(loss(labels.unsqueeze(1), p), SparseCategoricalCrossentropy()(labels, p)));
  EXPECT_TRUE(at::equal(loss(hot, p), CategoricalCrossentropy()(hot, p)));
  EXPECT_TRUE(at::equal(loss(labels % 2, one), BinaryCrossentropy()(labels % 2, one)));
  EXPECT_EQ(to_config(loss), Json("ce"));
}

TEST(LossTest, HalfIsComputedInFloatAndDtypeIsObeyed) {
  const Tensor y_true = at::zeros({2, 3}), y_pred = at::full({2, 3}, 300.0, at::kHalf);
  EXPECT_EQ(MeanSquaredError()(y_true, y_pred).item<float>(), 90000);  // more than a half can be
  EXPECT_EQ(MeanSquaredError()(y_true, y_pred).scalar_type(), at::kFloat);
  EXPECT_EQ(MeanSquaredError({.dtype = at::kDouble})(y_true, y_pred).scalar_type(), at::kDouble);
  EXPECT_EQ(MeanSquaredError()(y_true, y_pred.to(at::kDouble)).scalar_type(), at::kDouble);
}

TEST(LossTest, SparseCrossentropyOnAnotherAxis) {
  at::manual_seed(1);
  const Tensor scores = at::randn({2, 4, 3}), labels = at::randint(4, {2, 3}, at::kLong);
  const Loss first = SparseCategoricalCrossentropy({.from_logits = true, .axis = 1});
  const Loss last = SparseCategoricalCrossentropy({.from_logits = true});
  EXPECT_TRUE(at::allclose(first(labels, scores), last(labels, scores.transpose(1, 2))));
  EXPECT_TRUE(at::allclose(first(labels.unsqueeze(1), scores), first(labels, scores)));
  EXPECT_EQ(to_config(first).at("config").at("axis").as_int(), 1);
  EXPECT_EQ(to_config(last).at("config").find("axis"), nullptr);  // as Keras writes it
}

TEST(LossTest, NothingToDivideByIsZero) {
  const Tensor none = at::empty({0, 3}), x = at::ones({2, 3}), y = at::zeros({2, 3});
  const Loss mse = MeanSquaredError();
  EXPECT_EQ(mse(none, none).item<float>(), 0);
  EXPECT_EQ(mse.terms(none, none).count, 0);
  EXPECT_EQ(mse(x, y, {}, at::zeros({2}, at::kBool)).item<float>(), 0);
  const Loss weighted = MeanSquaredError({.reduction = Reduction::kMeanWithSampleWeight});
  EXPECT_EQ(weighted(x, y, at::zeros({2})).item<float>(), 0);
}

TEST(LossTest, BadInput) {
  const Tensor x = at::ones({2, 3});
  expect_error_containing([] { Loss("mean_cubed_error"); }, ErrorCode::kInvalidArgument,
                          "[losses] Loss: got 'mean_cubed_error'; expected one of crossentropy, "
                          "MeanSquaredError (mean_squared_error), ");
  expect_error(
      [&] {
        MeanSquaredError()(at::ones({2, 4}), x);
      },
      "[losses] mean_squared_error: got y_true of shape [2, 4] and y_pred of shape [2, 3]; "
      "expected equal shapes");
  expect_error([&] { MeanSquaredError()(x, x, at::ones({5})); },
               "[losses] sample_weight: got sample_weight of shape [5] for values of shape [2]; "
               "expected one weight for each example or each value");
  expect_error(
      [&] {
        CategoricalGeneralizedCrossEntropy({.q = 1})(at::tensor({0, 1}), x);
      },
      "[losses] categorical_generalized_cross_entropy: got q 1; expected a value in (0, 1)");
  expect_error(
      [&] { categorical_generalized_cross_entropy(x, x); },
      "[losses] categorical_generalized_cross_entropy: got y_true of shape [2, 3] and y_pred of "
      "shape [2, 3]; expected one class number for each row of y_pred");
  expect_error(
      [&] {
        CTC()
        (x, x);
      },
      "[losses] ctc: got y_true of shape [2, 3] and y_pred of shape [2, 3]; expected class "
      "numbers [batch, length] and logits [batch, time, classes]");
  expect_error(
      [&] { Circle()(x, x); },
      "[losses] circle: got y_true of shape [2, 3] and y_pred of shape [2, 3]; expected class "
      "numbers [batch] and embeddings [batch, n]");
  expect_error([&] { dice(x, x, {2}); }, "[losses] dice: got axis 2 for y_pred of shape [2, 3]");
  expect_error([&] { dice(x, x.to(at::kLong)); },
               "[losses] dice: got y_pred of dtype Long; expected a floating dtype");

  const auto read = [](const char* text) {
    Loss loss;
    from_config(Json::parse(text), loss);
  };
  expect_error_containing([&] { read(R"({"class_name": "Mine", "config": {}})"); },
                          ErrorCode::kUnimplemented,
                          "config of a loss: got class 'Mine'; strata has ");
  expect_error_containing(
      [&] { read(R"({"class_name": "Huber", "config": {"reduction": "median"}})"); },
      ErrorCode::kDataLoss, "got reduction 'median'; expected sum_over_batch_size, sum, ");
  expect_error_containing([&] { read(R"({"class_name": "Huber", "config": {"slope": 1}})"); },
                          ErrorCode::kUnimplemented,
                          "config of Huber loss: got option 'slope' = 1");
}

TEST(LossTest, ReadsNullNamesAndFunctions) {
  Loss loss = "mse";
  from_config(Json(), loss);
  EXPECT_FALSE(loss);
  from_config(Json("mae"), loss);
  EXPECT_EQ(loss.name(), "mae");
  from_config(Json::parse(R"({"module": "builtins", "class_name": "huber", "config": "huber"})"),
              loss);
  EXPECT_EQ(loss.name(), "huber");
  from_config(Json::parse(R"({"class_name": "Huber", "config": {"reduction": null}})"), loss);
  EXPECT_EQ(loss.reduction(), Reduction::kNone);
  from_config(Json::parse(R"({"class_name": "Huber", "config": {"reduction": "mean"}})"), loss);
  EXPECT_EQ(loss.reduction(), Reduction::kSumOverBatchSize);
}

// Replicas add up terms, divide once, and have the loss and gradient of one device.

class LossReplicasTest : public ::testing::TestWithParam<int> {};

/// Rows of replica `id`; the last of three gets none.
Tensor share(const Tensor& x, int id, int replicas) {
  if (!x.defined() || replicas == 1) return x;
  const int64_t cut = 2 * x.size(0) / 3 + 1;
  if (id == 0) return x.narrow(0, 0, cut);
  return id == 1 ? x.narrow(0, cut, x.size(0) - cut) : x.narrow(0, 0, 0);
}

void expect_same_as_one_device(MirroredStrategy& strategy, const Loss& loss, const Tensor& y_true,
                               const Tensor& y_pred, const Tensor& weight = {},
                               const Tensor& mask = {}) {
  const Tensor whole = y_pred.clone().set_requires_grad(true);
  const Tensor wanted = loss(y_true, whole, weight, mask);
  const Tensor wanted_gradient = torch::autograd::grad({wanted}, {whole})[0];

  const int replicas = strategy.num_replicas_in_sync();
  std::vector<LossTerms> terms(static_cast<size_t>(replicas));
  std::vector<Tensor> gradients(static_cast<size_t>(replicas));
  strategy.run([&] {
    const int id = get_replica_context()->replica_id_in_sync_group();
    const Tensor local = share(y_pred, id, replicas).clone().set_requires_grad(true);
    LossTerms& term = terms[static_cast<size_t>(id)];
    term = loss.terms(share(y_true, id, replicas), local, share(weight, id, replicas),
                      share(mask, id, replicas));
    gradients[static_cast<size_t>(id)] = torch::autograd::grad({term.sum}, {local})[0];
  });
  double sum = 0, divisor = 0;
  for (const LossTerms& each : terms) {
    sum += each.sum.item<double>();
    divisor += each.weight_sum.defined() ? each.weight_sum.item<double>() : each.count;
  }
  EXPECT_NEAR(sum / divisor, wanted.item<double>(), 1e-6) << loss.name();
  EXPECT_TRUE(at::allclose(at::cat(gradients) / divisor, wanted_gradient, 1e-5, 1e-7))
      << loss.name();
}

TEST_P(LossReplicasTest, UnevenSharesEqualOneDevice) {
  set_logical_devices("cpu", 3);
  MirroredStrategy strategy({.devices = cpus(GetParam())});
  at::manual_seed(2);
  const Tensor real = at::randn({8, 4}), bits = (at::rand({8, 4}) > 0.5).to(at::kFloat);
  const Tensor p = at::rand({8, 4}), labels = at::randint(4, {8}, at::kLong);
  const Tensor weight = at::rand({8}), mask = at::tensor({1, 0, 1, 1, 0, 1, 0, 1});
  for (const Reduction each : {Reduction::kSumOverBatchSize, Reduction::kMeanWithSampleWeight}) {
    for (const Tensor& w : {Tensor(), weight}) {
      for (const Tensor& m : {Tensor(), mask}) {
        expect_same_as_one_device(strategy, MeanSquaredError({.reduction = each}), real, p, w, m);
        expect_same_as_one_device(strategy,
                                  SparseCategoricalCrossentropy(
                                      {.from_logits = true, .ignore_class = 1, .reduction = each}),
                                  labels, real, w, m);
      }
    }
  }
  // These look at more than an example.
  const Tensor unit = real / real.norm(2, -1, true);
  expect_same_as_one_device(strategy, Dice(), bits, p);
  expect_same_as_one_device(strategy, Dice({.axis = {1}}), bits, p);
  expect_same_as_one_device(strategy, Tversky({.alpha = 0.3}), bits, p);
  expect_same_as_one_device(strategy, Circle({.gamma = 3}), labels, unit);
  expect_same_as_one_device(strategy, Circle({.gamma = 3, .remove_diagonal = false}), labels, unit);
}

INSTANTIATE_TEST_SUITE_P(Counts, LossReplicasTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace strata::losses
