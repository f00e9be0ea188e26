#include "strata/keras/sidecar_evaluator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>
#include <gtest/gtest.h>

#include <vector>

#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/keras/callbacks.h"
#include "strata/keras/layers.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::keras {
namespace {

using namespace std::chrono_literals;

data::Dataset constant_rows(double from) {
  const at::Tensor x = at::sin(at::arange(32, at::kFloat).reshape({16, 2}) + from);
  return data::Dataset::from_tensor_slices({x, x.sum(1, /*keepdim=*/true)}).batch(4);
}

Model make_model() {
  const Sequential model(Input({2}), {layers::Dense(3, {.activation = "relu", .name = "hidden"}),
                                      layers::BatchNormalization({.name = "norm"}),
                                      layers::Dense(1, {.name = "out"})});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.1}),
                 .loss = "mse",
                 .metrics = {"mean_absolute_error"}});
  return model;
}

/// Notes the validation loss of each epoch.
struct Notes : callbacks::Callback {
  explicit Notes(std::vector<double>& losses) : losses(losses) {}
  void on_epoch_end(int64_t, Logs& logs) override { losses.push_back(logs.at("val_loss")); }
  std::vector<double>& losses;
};

class SidecarEvaluatorTest : public testing::Test {
 protected:
  /// Three epochs of four steps. @return the losses that its own validation had.
  std::vector<double> train(const callbacks::CallbackRef& saves) const {
    std::vector<double> losses;
    (void)make_model().fit(constant_rows(0), {.epochs = 3,
                                              .validation_data = constant_rows(1),
                                              .callbacks = {saves, Notes(losses)},
                                              .verbose = 0});
    return losses;
  }
  SidecarEvaluator evaluator(SidecarEvaluatorOptions options = {}) const {
    options.verbose = 0;
    options.interval = 1ms;
    if (options.max_evaluations == 0) options.max_evaluations = 3;
    if (options.timeout > 30s) options.timeout = 30s;
    return SidecarEvaluator(make_model(), constant_rows(1), folder_.path(), options);
  }

  const test::TempFolder folder_;
};

TEST_F(SidecarEvaluatorTest, ItHasTheValuesOfTheTrainingsValidation) {
  const std::vector<double> losses =
      train(callbacks::BackupAndRestore(folder_.path(), {.delete_checkpoint = false}));
  // Backups are made between epochs, and the newest is kept.
  SidecarEvaluator sidecar = evaluator({.max_evaluations = 2});
  sidecar.start();
  ASSERT_EQ(sidecar.evaluations().size(), 1u);
  const Evaluation& last = sidecar.evaluations()[0];
  EXPECT_EQ(last.number, 2);
  EXPECT_EQ(last.iterations, 8);
  EXPECT_EQ(last.checkpoint, folder_.path() + "/ckpt-2");
  EXPECT_EQ(last.logs.at("loss"), losses[1]);
}

TEST_F(SidecarEvaluatorTest, ItReadsFilesOfWeights) {
  const std::vector<double> losses = train(callbacks::ModelCheckpoint(
      folder_.path() + "/ckpt-{epoch}.safetensors", {.save_weights_only = true}));
  SidecarEvaluator sidecar = evaluator();
  sidecar.start();
  ASSERT_EQ(sidecar.evaluations().size(), 1u);
  EXPECT_EQ(sidecar.evaluations()[0].iterations, 3);
  EXPECT_EQ(sidecar.evaluations()[0].logs.at("loss"), losses[2]);
}

// A custom loop saves the model and its optimizer by these names. Checkpoints come one by one.
TEST_F(SidecarEvaluatorTest, ItFollowsACustomLoop) {
  const Model trained = make_model();
  Checkpoint checkpoint({{"model", trained}, {"optimizer", trained.optimizer()}});
  CheckpointManager manager(checkpoint, folder_.path());
  std::vector<double> expected;
  const auto train_and_save = [&] {
    for (const data::Example& batch : constant_rows(0)) (void)trained.train_on_batch(batch);
    expected.push_back(trained.evaluate(constant_rows(1), {.verbose = 0}).at("loss"));
    (void)manager.save();
  };
  train_and_save();
  struct Trains : callbacks::Callback {
    explicit Trains(std::function<void()> next) : next(std::move(next)) {}
    void on_test_end(Logs&) override { next(); }
    std::function<void()> next;
  };
  SidecarEvaluator sidecar = evaluator({.callbacks = {Trains(train_and_save)}});
  sidecar.start();
  ASSERT_EQ(sidecar.evaluations().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sidecar.evaluations()[i].iterations, 4 * static_cast<int64_t>(i + 1));
    EXPECT_EQ(sidecar.evaluations()[i].logs.at("loss"), expected[i]);
  }
}

TEST_F(SidecarEvaluatorTest, ItDoesNotWaitForEver) {
  expect_error_containing([&] { evaluator({.timeout = 20ms}).start(); },
                          ErrorCode::kDeadlineExceeded, "no checkpoint ckpt-<number> came into");
  std::stop_source stop;
  stop.request_stop();
  SidecarEvaluator sidecar = evaluator({.stop = stop.get_token()});
  sidecar.start();
  EXPECT_TRUE(sidecar.evaluations().empty());
}

TEST_F(SidecarEvaluatorTest, ErrorsSayWhatDoesNotFit) {
  const Sequential unbuilt({layers::Dense(1)});
  expect_error_containing(
      [&] { SidecarEvaluator(unbuilt, constant_rows(1), folder_.path()).start(); },
      ErrorCode::kFailedPrecondition, "is not built, so it has no weights yet; give it an Input");
  double other = 1;
  Checkpoint checkpoint({{"other", other}});
  (void)checkpoint.save(folder_.path() + "/ckpt");
  expect_error_containing([&] { evaluator().start(); }, ErrorCode::kFailedPrecondition,
                          "/ckpt-1 lacks model/0, model/1");
}

}  // namespace
}  // namespace strata::keras
