#include "strata/keras/metric.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "strata/checkpoint/checkpoint.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata::metrics {
namespace {

using at::Tensor;

TEST(MetricTest, AccuracyChoosesByShapes) {
  at::manual_seed(0);
  const Tensor p = at::rand({9, 3}), one = at::rand({9, 1}),
               labels = at::randint(3, {9}, at::kLong);
  const Tensor hot = at::one_hot(labels, 3).to(at::kFloat), bits = labels % 2;
  const auto result = [](Metric metric, const Tensor& y_true, const Tensor& y_pred) {
    metric.update_state(y_true, y_pred);
    return metric.result();
  };
  EXPECT_EQ(result("accuracy", labels, p), result(SparseCategoricalAccuracy(), labels, p));
  EXPECT_EQ(result("accuracy", labels.unsqueeze(1), p),
            result(SparseCategoricalAccuracy(), labels, p));
  EXPECT_EQ(result("acc", hot, p), result(CategoricalAccuracy(), hot, p));
  EXPECT_EQ(result("acc", bits, one), result(BinaryAccuracy(), bits, one));
  EXPECT_EQ(Metric("acc").name(), "acc");
  EXPECT_EQ(to_config(Metric("accuracy")), Json("accuracy"));

  EXPECT_EQ(resolve("accuracy", {keras::kNone}, {keras::kNone, 1}).name(), "accuracy");
  EXPECT_EQ(result(resolve("accuracy", {keras::kNone, 1}, {keras::kNone, 3}), labels, p),
            result(SparseCategoricalAccuracy(), labels, p));
  EXPECT_EQ(result(resolve("accuracy", {keras::kNone, 3}, {keras::kNone, 3}), hot, p),
            result(CategoricalAccuracy(), hot, p));
  EXPECT_EQ(result(resolve("accuracy", {keras::kNone}, {keras::kNone, 1}), bits, one),
            result(BinaryAccuracy(), bits, one));
  EXPECT_EQ(resolve("mse", {}, {}).name(), "mse");
}

/// How many predictions are above a bound, as a user may write it.
class Above final : public MetricImpl {
 public:
  explicit Above(double bound) : MetricImpl("above"), bound_(bound) {}

 private:
  void do_build(const keras::Shape&, const keras::Shape&) override {
    count_ = add_variable("count");
  }
  void do_update_state(const MetricInput& input) override {
    add(*count_, (input.y_pred > bound_).sum());
  }
  Tensor do_result() const override { return read(*count_); }

  double bound_;
  std::optional<Variable> count_;
};

TEST(MetricTest, OneOfYours) {
  Metric metric = make<Above>(0.5);
  MirroredStrategy strategy({.devices = cpus(2)});
  strategy.scope([&] { metric.build(); });
  strategy.run([&] { metric.update_state({}, at::tensor({0.3, 0.6, 0.9})); });
  EXPECT_EQ(metric.result(), 4);
  metric.reset_state();
  EXPECT_EQ(metric.result(), 0);
  expect_error(
      [&] { to_config(metric); }, ErrorCode::kUnimplemented,
      "[metrics] config of 'above': got a user-defined metric, which Keras cannot load; save "
      "without compile_config");
}

TEST(MetricTest, LossesAndFunctionsAreMetrics) {
  const Tensor y_true = at::zeros({2, 3}), y_pred = at::ones({2, 3});
  Metric huber = losses::Huber();
  huber.update_state(y_true, y_pred);
  EXPECT_EQ(huber.name(), "huber_loss");
  EXPECT_EQ(huber.result(), 0.5);
  Metric local = MeanMetricWrapper(
      [](const Tensor& a, const Tensor& b) { return (a - b).abs().sum(-1); }, "mine");
  local.update_state(y_true, y_pred, at::tensor({1.0, 3.0}));
  EXPECT_EQ(local.name(), "mine");
  EXPECT_EQ(local.result(), 3);
}

TEST(MetricTest, MasksAreWeights) {
  const Tensor y_true = at::zeros({2, 3, 1}), y_pred = at::arange(6.0).reshape({2, 3, 1});
  const Tensor mask = at::tensor({1, 1, 0, 0, 1, 0}).reshape({2, 3});
  Metric mae = MeanAbsoluteError();
  mae.update_state(y_true, y_pred, {}, mask);
  EXPECT_DOUBLE_EQ(mae.result(), (0 + 1 + 4) / 3.0);
  mae.reset_state();
  mae.update_state(y_true, y_pred, at::tensor({1.0, 3.0}), mask);
  EXPECT_DOUBLE_EQ(mae.result(), (0 + 1 + 3 * 4) / 5.0);
}

TEST(MetricTest, MadeOutsideAndBuiltInTheScope) {
  Metric accuracy = SparseCategoricalAccuracy();
  Mean loss("loss");
  loss.update(3.0);
  MirroredStrategy strategy({.devices = cpus(2)});
  const Tensor labels = at::zeros({2}, at::kLong), scores = at::eye(2);
  expect_error(
      [&] { strategy.run([&] { accuracy.update_state(labels, scores); }); },
      ErrorCode::kFailedPrecondition,
      "[metrics] update_state: 'sparse_categorical_accuracy' has no state yet, and a replica "
      "cannot make it; call build() in the strategy's scope first");
  strategy.scope([&] {
    accuracy.build();
    loss.build();
  });
  EXPECT_EQ(&loss.total().group(), &strategy.group());
  strategy.run([&] {
    accuracy.update_state(labels, scores);
    loss.update(at::tensor({6.0}));
  });
  EXPECT_EQ(accuracy.result(), 0.5);
  EXPECT_EQ(loss.result(), 5);  // 3 from before, 6 twice
  MirroredStrategy other({.devices = cpus(2)});
  expect_error_containing([&] { other.scope([&] { loss.build(); }); },
                          ErrorCode::kFailedPrecondition,
                          "[metrics] build: 'loss/total' belongs to ");
}

TEST(MetricTest, ZeroRowsAddNothing) {
  const Tensor none = at::empty({0, 3}), labels = at::empty({0}, at::kLong);
  for (Metric metric :
       std::vector<Metric>{"mse", Precision(), AUC(), F1Score(), R2Score(), BinaryIoU()}) {
    metric.update_state(none, none);
    for (const Variable& each : metric.variables()) {
      EXPECT_EQ(each.value().abs().sum().item<double>(), 0) << metric.name();
    }
  }
  Metric accuracy = "accuracy";
  accuracy.update_state(labels, none);
  EXPECT_EQ(accuracy.result(), 0);
}

TEST(MetricTest, NamesAreMadeUnique) {
  std::vector<Metric> metrics = {AUC(), "accuracy", AUC({.curve = "PR"}), AUC()};
  make_names_unique(metrics);
  EXPECT_EQ(metrics[0].name(), "auc");
  EXPECT_EQ(metrics[1].name(), "accuracy");
  EXPECT_EQ(metrics[2].name(), "auc_1");
  EXPECT_EQ(metrics[3].name(), "auc_2");
  EXPECT_EQ(to_config(metrics[2]).at("config").at("name"), Json("auc_1"));
}

TEST(MetricTest, CheckpointsKeepEachReplicasPart) {
  const test::TempFolder folder;
  MirroredStrategy strategy({.devices = cpus(2)});
  const Tensor y_true = at::zeros({3, 2}), y_pred = at::rand({3, 2});
  const auto updated = [&](Metric& metric, bool both) {
    strategy.scope([&] { metric.build({keras::kNone, 2}, {keras::kNone, 2}); });
    if (both) strategy.run([&] { metric.update_state(y_true, y_pred); });
  };
  Metric saved = R2Score(), restored = R2Score();
  updated(saved, true);
  const std::string path = Checkpoint({{"metric", saved}}).save(folder.path() + "/c");
  updated(restored, false);
  Checkpoint({{"metric", restored}}).restore(path);
  for (size_t i = 0; i < saved.variables().size(); ++i) {
    for (int r = 0; r < 2; ++r) {
      EXPECT_TRUE(
          at::equal(saved.variables()[i].on_replica(r), restored.variables()[i].on_replica(r)));
    }
  }
}

TEST(MetricTest, BadInput) {
  const Tensor x = at::ones({2, 3});
  const auto update = [](Metric metric, const Tensor& y_true, const Tensor& y_pred,
                         const Tensor& weight = {}) {
    metric.update_state(y_true, y_pred, weight);
  };
  expect_error_containing([] { Metric("accurate"); }, ErrorCode::kInvalidArgument,
                          "[metrics] Metric: got 'accurate'; expected one of accuracy, Accuracy "
                          "(accuracy), CategoricalAccuracy (categorical_accuracy), ");
  expect_error(
      [&] {
        update("mse", at::ones({2, 4}), x);
      },
      "[losses] mean_squared_error: got y_true of shape [2, 4] and y_pred of shape [2, 3]; "
      "expected equal shapes");
  expect_error(
      [&] { update("mse", x, x, at::ones({5})); },
      "[metrics] update_state: got sample_weight of shape [5] for values of shape [2]; expected "
      "one weight for each example or each value");
  expect_error(
      [&] {
        update(AUC(), at::ones({2, 4}), x);
      },
      "[metrics] auc: got y_true of shape [2, 4] and y_pred of shape [2, 3]; expected equal "
      "shapes");
  expect_error(
      [&] { update(Precision({.class_id = 3}), x, x); },
      "[metrics] precision: got class_id 3 for y_pred of shape [2, 3]; expected a column of it");
  expect_error(
      [&] {
        update(AUC({.label_weights = {1, 2}}), x, x);
      },
      "[metrics] auc: got 2 label_weights for y_pred of shape [2, 3]");
  expect_error([] { Precision({.thresholds = 1.5}); },
               "[metrics] Precision: got threshold 1.5; expected values in [0, 1]");
  expect_error(
      [] { SensitivityAtSpecificity(); },
      "[metrics] SensitivityAtSpecificity: got specificity -1; expected a value in [0, 1]");
  expect_error([] { RecallAtPrecision({.precision = 0.5, .num_thresholds = 0}); },
               "[metrics] RecallAtPrecision: got num_thresholds 0; expected 1 or more");
  expect_error([] { AUC({.curve = "EEG"}); },
               "[metrics] AUC: got curve='EEG'; expected 'ROC', 'PR' or 'PRGAIN'");
  expect_error([] { AUC({.num_thresholds = 1}); },
               "[metrics] AUC: got num_thresholds 1; expected 2 or more");
  expect_error([] { AUC({.num_labels = 3}); }, "[metrics] AUC: got num_labels without multi_label");
  expect_error(
      [] { AUC({.multi_label = true}).build(); },
      "[metrics] AUC: got y_pred of shape () with multi_label; expected [batch, labels], or "
      "num_labels");
  expect_error([] { MeanIoU(); }, "[metrics] MeanIoU: got num_classes 0; expected 1 or more");
  expect_error([] { IoU({.num_classes = 2}); }, "[metrics] IoU: got no target_class_ids");
  expect_error([] { IoU({.num_classes = 2, .target_class_ids = {2}}); },
               "[metrics] IoU: got target class 2; expected 0 to 1");
  expect_error(
      [&] { update(MeanIoU({.num_classes = 2}), x, at::ones({2})); },
      "[metrics] mean_io_u: got y_true of shape [2, 3] and y_pred of shape [2]; expected as many "
      "classes in both");
  expect_error([] { F1Score({.average = "mean"}); },
               "[metrics] F1Score: got average='mean'; expected 'micro', 'macro' or 'weighted'");
  expect_error([] { F1Score({.threshold = 0}); },
               "[metrics] F1Score: got threshold 0; expected a value in (0, 1]");
  expect_error([] { FBetaScore({.beta = 0}); },
               "[metrics] FBetaScore: got beta 0; expected a positive one");
  expect_error([] { F1Score().build(); },
               "[metrics] F1Score: got y_pred of shape (); expected [batch, n], where n is known");
  expect_error([] { R2Score({.class_aggregation = "sum"}); },
               "[metrics] R2Score: got class_aggregation='sum'; expected "
               "'uniform_average' or 'variance_weighted_average'");
  expect_error([] { R2Score({.num_regressors = -1}); },
               "[metrics] R2Score: got num_regressors -1; expected 0 or more");
  expect_error(
      [&] { update(Mean(), x, x); },
      "[metrics] update_state: 'mean' is a Mean, which takes values, not y_true and y_pred; call "
      "its update(values)");
  expect_error([] { Metric("mse").result(); }, ErrorCode::kFailedPrecondition,
               "[metrics] result: 'mse' was shown nothing yet");
  expect_error(
      [&] {
        Metric scores = F1Score();
        scores.update_state(x, x);
        scores.result();
      },
      ErrorCode::kFailedPrecondition, "[metrics] result: 'f1_score' has 3 values; use results()");
  expect_error_containing(
      [] { metric_from_config(Json::parse(R"({"class_name": "Mine", "config": {}})")); },
      ErrorCode::kUnimplemented,
      "config of a metric: got class 'Mine'; strata has Mean, Sum, accuracy");
  expect_error_containing(
      [] { metric_from_config(Json::parse(R"({"class_name": "AUC", "config": {"bins": 3}})")); },
      ErrorCode::kUnimplemented, "config of AUC metric: got option 'bins' = 3");
}

}  // namespace
}  // namespace strata::metrics
