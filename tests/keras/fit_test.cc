// What fit does around the steps.
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstdio>

#include "core/sha256.h"
#include "keras/training/training_run.h"
#include "runtime/replica_group.h"
#include "strata/core/file_system.h"
#include "strata/core/log.h"
#include "strata/keras/callbacks.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/optim/losses.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/runtime/replica_context.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"
#include "support/faulty_file_system.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata::keras {
namespace {

using data::Dataset;

Sequential regression() {
  return Sequential(Input({3}), {layers::Dense(4, "tanh"), layers::Dense(1)});
}

Dataset rows(int64_t n) {
  at::Tensor x = at::arange(3 * n, at::kFloat).reshape({n, 3});
  x = (x * 0.37).sin();
  return Dataset::from_tensor_slices({x, x.sum(1, true)});
}

Model compiled(int64_t steps_per_execution = 1) {
  Sequential model = regression();
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.05, .momentum = 0.9}),
                 .loss = "mse",
                 .metrics = {"mae"},
                 .steps_per_execution = steps_per_execution});
  return model;
}

/// Notes the calls of batches.
struct Calls : callbacks::Callback {
  std::vector<int64_t> begins, ends;
  void on_train_batch_begin(int64_t batch) override { begins.push_back(batch); }
  void on_train_batch_end(int64_t batch, Logs&) override { ends.push_back(batch); }
};

TEST(FitTest, BatchCallbacksComeOncePerExecution) {  // rule 47
  const auto calls = [](int64_t steps_per_execution) {
    auto callback = std::make_shared<Calls>();
    compiled(steps_per_execution).fit(rows(100).batch(2), {.callbacks = {callback}, .verbose = 0});
    return std::pair(callback->begins, callback->ends);
  };
  using Longs = std::vector<int64_t>;
  EXPECT_EQ(calls(10), std::pair(Longs({0, 10, 20, 30, 40}), Longs({9, 19, 29, 39, 49})));
  EXPECT_EQ(calls(20), std::pair(Longs({0, 20, 40}), Longs({19, 39, 49})));
  EXPECT_EQ(calls(500), std::pair(Longs({0}), Longs({49})));
}

TEST(FitTest, UnknownLengthNeedsStepsWhereSeveralAreExecutedAtOnce) {
  const Dataset unknown = rows(8).filter([](const data::Example&) { return true; }).batch(2);
  expect_error_containing([&] { compiled(2).fit(unknown, {.verbose = 0}); },
                          ErrorCode::kInvalidArgument,
                          "fit with steps_per_execution=2 needs to know");
  EXPECT_EQ(compiled(2).fit(unknown, {.verbose = 0, .steps_per_epoch = 4})["loss"].size(), 1u);
  EXPECT_EQ(compiled(1).fit(unknown, {.verbose = 0})["loss"].size(), 1u);
}

TEST(FitTest, ArraysAreCutAsInKeras) {  // rule 46
  const auto steps = [](int64_t n, FitOptions options) {
    auto callback = std::make_shared<Calls>();
    options.callbacks = {callback};
    options.verbose = 0;
    const at::Tensor x = at::ones({n, 3});
    compiled().fit(x, at::ones({n, 1}), options);
    return callback->ends.size();
  };
  EXPECT_EQ(steps(64, {}), 2u);
  EXPECT_EQ(steps(20, {.batch_size = 20}), 1u);
  EXPECT_EQ(steps(63, {.steps_per_epoch = 2}), 2u);
  EXPECT_EQ(steps(64, {.validation_split = 0.5, .batch_size = 8}), 4u);
}

/// The lines that are logged while it lives.
class Lines {
 public:
  Lines() {
    before_ = set_log_sink([this](const LogRecord& record) { all_.emplace_back(record.message); });
  }
  ~Lines() { set_log_sink(std::move(before_)); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
  LogSink before_;
};

/// Batches in each epoch.
struct BatchesOfEpochs : callbacks::Callback {
  std::vector<int64_t> all;
  void on_epoch_begin(int64_t) override { all.push_back(0); }
  void on_train_batch_end(int64_t, Logs&) override { ++all.back(); }
};

TEST(FitTest, DataThatEndWithinAnEpochEndItAndTheNextStartsThemAgain) {
  using Longs = std::vector<int64_t>;
  const at::Tensor x = at::ones({64, 3}), y = at::ones({64, 1});
  const auto batches = [&](int64_t steps, int64_t epochs, bool arrays) {
    auto counts = std::make_shared<BatchesOfEpochs>();
    const FitOptions options{.epochs = epochs,
                             .callbacks = {counts},
                             .verbose = 0,
                             .steps_per_epoch = steps,
                             .batch_size = arrays ? int64_t{10} : FitOptions().batch_size};
    if (arrays) {
      compiled().fit(x, y, options);
    } else {
      compiled().fit(Dataset::from_tensor_slices({x, y}).batch(10), options);
    }
    return counts->all;
  };
  for (const bool arrays : {false, true}) {  // what Keras 3.15 does, with 7 batches
    const Lines lines;
    EXPECT_EQ(batches(7, 2, arrays), Longs({7, 7}));
    EXPECT_TRUE(lines.all().empty()) << lines.all()[0];
    EXPECT_EQ(batches(10, 2, arrays), Longs({7, 7}));
    ASSERT_EQ(lines.all().size(), 2u);
    EXPECT_EQ(lines.all()[1],
              "[keras] fit: the data ended after 7 of 10 batches of epoch 1; repeat() the dataset, "
              "or ask for fewer steps");
    EXPECT_EQ(batches(5, 3, arrays), Longs({5, 2, 5}));
    EXPECT_EQ(batches(3, 4, arrays), Longs({3, 3, 1, 3}));
    EXPECT_EQ(lines.all().size(), 4u);
  }
  const Lines lines;
  const Dataset seven = Dataset::from_tensor_slices({x, y}).batch(10);
  compiled().evaluate(seven, {.verbose = 0, .steps = 9});
  EXPECT_EQ(compiled().predict(seven, {.verbose = 0, .steps = 9}).size(0), 64);
  ASSERT_EQ(lines.all().size(), 2u);
  EXPECT_NE(lines.all()[0].find("evaluate: the data ended after 7 of 9 batches"),
            std::string::npos);
  EXPECT_NE(lines.all()[1].find("predict: the data ended after 7 of 9 batches"), std::string::npos);
}

TEST(FitTest, StepsPerEpochGoOnThroughTheData) {
  auto counts = std::make_shared<BatchesOfEpochs>();
  compiled().fit(rows(12).batch(2).repeat(2),
                 {.epochs = 3, .callbacks = {counts}, .verbose = 0, .steps_per_epoch = 5});
  EXPECT_EQ(counts->all, (std::vector<int64_t>{5, 5, 2}));
}

TEST(FitTest, LossesOfEachExampleAreReportedAsTheirMean) {  // Keras 3.15: 3.5, 3.5 and 8.75
  const at::Tensor x = at::arange(4, at::kFloat).unsqueeze(1), y = at::zeros({4, 1});
  set_logical_devices("cpu", 3);
  for (const int replicas : {1, 2, 3}) {
    MirroredStrategy strategy({.devices = cpus(replicas)});
    const Model model = strategy.scope(
        [] { return Sequential(Input({1}), {layers::Dense(1, {.kernel_initializer = "ones"})}); });
    const auto compile = [&](double learning_rate) {
      model.compile({.optimizer = optimizers::SGD({.learning_rate = learning_rate}),
                     .loss = losses::MeanSquaredError({.reduction = losses::Reduction::kNone})});
    };
    compile(0);
    const EvaluateOptions at_once{.verbose = 0, .batch_size = 4};
    EXPECT_NEAR(model.fit(x, y, {.verbose = 0, .batch_size = 4})["loss"][0], 3.5, 1e-6);
    EXPECT_NEAR(model.evaluate(x, y, at_once).at("loss"), 3.5, 1e-6);
    EXPECT_NEAR(model.evaluate(x, y, {.verbose = 0, .batch_size = 3}).at("loss"), 3.5, 1e-6);
    const at::Tensor weight = at::tensor({1.0F, 0.0F, 2.0F, 3.0F});
    const auto weighted = Dataset::from_tensor_slices({x, y, weight}).batch(4);
    EXPECT_NEAR(model.evaluate(weighted, {.verbose = 0}).at("loss"), 8.75, 1e-6);
    compile(0.01);  // the step is that of the sum
    model.fit(x, y, {.verbose = 0, .batch_size = 4});
    EXPECT_NEAR(model.get_weights()[0].item<double>(), 0.72, 1e-6);
    EXPECT_NEAR(model.get_weights()[1].item<double>(), -0.12, 1e-6);
  }
}

TEST(FitTest, ABadLabelIsNamedByItsRowInTheBatch) {
  set_logical_devices("cpu", 3);
  at::Tensor y = at::zeros({10, 2}, at::kLong);  // parts of 4, 3, 3 rows
  y[5][1] = 4;
  const at::Tensor x = at::ones({10, 2, 3});
  for (const int replicas : {1, 3}) {
    MirroredStrategy strategy({.devices = cpus(replicas)});
    const Model model = strategy.scope([] {
      return Sequential(Input({2, 3}), {layers::Dense(4)});
    });
    model.compile(
        {.optimizer = "sgd", .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
    const auto batches = Dataset::from_tensor_slices({x, y}).batch(10);
    for (const auto& call :
         {std::function<void()>([&] { model.fit(batches, {.verbose = 0}); }),
          std::function<void()>([&] { model.evaluate(batches, {.verbose = 0}); })}) {
      expect_error_containing(call, ErrorCode::kInvalidArgument,
                              "got label 4 in row 5; expected 0 to 3");
    }
  }
  // In a loop of one's own it is known of which replica.
  MirroredStrategy strategy({.devices = cpus(2)});
  expect_error_containing(
      [&] {
        strategy.run([&] {
          if (get_replica_context()->replica_id_in_sync_group() == 0) return;
          losses::sparse_categorical_crossentropy(y, at::zeros({10, 2, 4}), {.from_logits = true});
        });
      },
      ErrorCode::kInvalidArgument, "got label 4 in row 5 of replica 1's part of the batch");
}

/// A model on two devices by `distribute`.
TEST(FitTest, CompileGivesTheStrategyOfAModelThatIsNotBuilt) {
  set_logical_devices("cpu", 2);
  MirroredStrategy strategy({.devices = cpus(2)});
  const auto layers = [] { return std::vector<Layer>{layers::Dense(4, "tanh"), layers::Dense(1)}; };
  const auto fit = [&](const Model& model, Strategy* distribute) {
    model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.05}),
                   .loss = "mse",
                   .distribute = distribute});
    set_random_seed(3);
    model.fit(rows(12).batch(6), {.epochs = 2, .verbose = 0});
    return model.get_weights();
  };
  const Sequential model(layers());
  const Tensors actual = fit(model, &strategy);
  EXPECT_EQ(&model->strategy(), &strategy);
  EXPECT_EQ(model->weights()[0].variable.group().num_replicas(), 2);
  const Tensors in_scope =
      fit(strategy.scope([&] { return Model(Sequential(layers())); }), nullptr);
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(actual[i].equal(in_scope[i])) << i;
  // Again with the same one; another, or a model that has weights, is refused.
  model.compile({.optimizer = "sgd", .loss = "mse", .distribute = &strategy});
  MirroredStrategy other({.devices = cpus(1)});
  expect_error_containing([&] { model.compile({.optimizer = "sgd", .distribute = &other}); },
                          ErrorCode::kFailedPrecondition, "make the model in the strategy's scope");
  expect_error_containing([&] { compiled().compile({.optimizer = "sgd", .distribute = &other}); },
                          ErrorCode::kFailedPrecondition,
                          "compile got a strategy, and the model has weights already");
}

/// This program has no compiler; with one tests/tpu/jit_test.cc.
TEST(FitTest, SaysThatItHasNoCompiler) {
  const Model model = regression();
  const Lines lines;
  model.compile({.optimizer = "sgd", .loss = "mse", .jit_compile = true, .run_eagerly = true});
  model.fit(rows(8).batch(4), {.verbose = 0});
  EXPECT_TRUE(lines.all().empty());
  model.compile({.optimizer = "sgd", .loss = "mse", .jit_compile = true});
  model.fit(rows(8).batch(4), {.epochs = 2, .verbose = 0});
  ASSERT_EQ(lines.all().size(), 1u);
  EXPECT_NE(lines.all()[0].find("jit_compile=true, which has no effect"), std::string::npos);
  EXPECT_NE(lines.all()[0].find("strata::tpu"), std::string::npos);
}

TEST(FitTest, ValidatesWhenAskedTo) {
  const History history = compiled().fit(
      rows(8).batch(4),
      {.epochs = 5, .validation_data = rows(4).batch(4), .verbose = 0, .validation_freq = 2});
  EXPECT_EQ(history["loss"].size(), 5u);
  EXPECT_EQ(history["val_loss"].size(), 2u);
}

TEST(FitTest, StopsWhereACallbackSaysSo) {
  const History history =
      compiled().fit(rows(8).batch(4), {.epochs = 9,
                                        .callbacks = {callbacks::EarlyStopping(
                                            {.monitor = "loss", .min_delta = 100, .patience = 2})},
                                        .verbose = 0});
  EXPECT_EQ(history.epoch.size(), 3u);
}

TEST(FitTest, ANaNLossEndsIt) {
  const auto bad = Dataset::from_tensor_slices({at::full({8, 3}, NAN), at::ones({8, 1})});
  const History history = compiled().fit(
      bad.batch(2), {.epochs = 3, .callbacks = {callbacks::TerminateOnNaN()}, .verbose = 0});
  EXPECT_EQ(history.epoch.size(), 1u);
  expect_error_containing(
      [&] {
        compiled().fit(
            bad.batch(2),
            {.callbacks = {callbacks::TerminateOnNaN(/*raise_error=*/true)}, .verbose = 0});
      },
      ErrorCode::kOutOfRange, "TerminateOnNaN: the loss is nan at batch 0");
}

TEST(FitTest, TrainOnBatchIsOneStepOfFit) {
  set_random_seed(3);
  const Model fitted = compiled();
  set_random_seed(3);
  const Model stepped = compiled();
  fitted.fit(rows(6).batch(6), {.verbose = 0});
  const auto batch = rows(6).batch(6).iterator(0).next();
  const Logs logs = stepped.train_on_batch(*batch);
  EXPECT_GT(logs.at("loss"), 0);
  for (size_t i = 0; i < fitted->weights().size(); ++i) {
    EXPECT_TRUE(
        fitted->weights()[i].variable.value().equal(stepped->weights()[i].variable.value()));
  }
}

TEST(FitTest, MetricsOfABatchAreItsOwn) {
  const Model model = compiled();
  auto batches = rows(6).batch(3).iterator(0);
  const auto first = batches.next();
  const auto second = batches.next();
  const double expected = model.test_on_batch(*first).at("loss");
  EXPECT_NE(model.test_on_batch(*second).at("loss"), expected);
  EXPECT_EQ(model.test_on_batch(*first).at("loss"), expected);
  EXPECT_EQ(model.train_on_batch(*first).at("loss"), expected);
}

TEST(FitTest, PredictsInTheOrderOfTheRows) {
  set_logical_devices("cpu", 3);
  MirroredStrategy strategy({.devices = cpus(3)});
  const Model model = strategy.scope([] { return compiled(); });
  const at::Tensor x = at::arange(33, at::kFloat).reshape({11, 3});
  const at::Tensor all = model.predict(x, {.verbose = 0, .batch_size = 4});
  const at::Tensor one = model.predict(x, {.verbose = 0, .batch_size = 1});
  EXPECT_EQ(all.sizes(), at::IntArrayRef({11, 1}));
  EXPECT_TRUE(all.allclose(one, 1e-6));
}

TEST(FitTest, BadInputIsExplained) {
  expect_error_containing([] { regression().fit(rows(4).batch(2), {.verbose = 0}); },
                          ErrorCode::kFailedPrecondition, "you must call compile() before fit()");
  expect_error_containing([] { compiled().fit(rows(4).take(0).batch(2), {.verbose = 0}); },
                          ErrorCode::kInvalidArgument, "the dataset is empty");
  expect_error_containing(
      [] {
        compiled().fit(Dataset::from_tensor_slices({at::ones({4, 5}), at::ones({4, 1})}).batch(2),
                       {.verbose = 0});
      },
      ErrorCode::kInvalidArgument,
      "expected axis -1 of input shape to have value 3, but received input with shape (2, 5)");
  expect_error_containing(
      [] {
        compiled().fit(Dataset::from_tensor_slices({at::ones({4, 3})}).batch(2), {.verbose = 0});
      },
      ErrorCode::kInvalidArgument, "no loss to compute");
  expect_error_containing(
      [] {
        compiled().fit(Dataset::from_tensor_slices({at::ones({4, 3}), at::ones({4, 1}),
                                                    at::ones({4}), at::ones({4}), at::ones({4})})
                           .batch(2),
                       {.verbose = 0});
      },
      ErrorCode::kInvalidArgument, "got elements of 5 tensors; expected 1 inputs, 1 labels");
  expect_error_containing(
      [] {
        Sequential model = regression();
        model.compile({.optimizer = "sgd", .loss = {"mse", "mse"}});
        model.fit(rows(4).batch(2), {.verbose = 0});
      },
      ErrorCode::kInvalidArgument, "compile got 2 losses for 1 outputs");
}

TEST(FitTest, LabelsOutOfRangeAreExplained) {
  Sequential model(Input({3}), {layers::Dense(2)});
  model.compile(
      {.optimizer = "sgd", .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
  const auto data = Dataset::from_tensor_slices({at::ones({4, 3}), at::full({4}, 7, at::kLong)});
  expect_error_containing([&] { model.fit(data.batch(2), {.verbose = 0}); },
                          ErrorCode::kInvalidArgument, "7");
}

/// The weights, the history and the file of a run that is cut off at given batches and started
/// again.
struct Ending {
  std::string weights;
  std::map<std::string, std::vector<double>> history;
  std::string csv;
};

struct Cut : callbacks::Callback {
  explicit Cut(int64_t at) : at(at) {}
  int64_t at;
  void on_train_batch_end(int64_t, Logs&) override {
    if (run().train_steps() == at) throw std::runtime_error("cut");
  }
};

Ending resumed_run(const std::vector<int64_t>& cuts, int64_t save_freq, int replicas) {
  const test::TempFolder folder;
  Ending ending;
  for (size_t attempt = 0; attempt <= cuts.size(); ++attempt) {
    MirroredStrategy strategy({.devices = cpus(replicas), .seed = 5});
    set_random_seed(11);
    const Model model = strategy.scope([] { return compiled(); });
    FitOptions options{.epochs = 6, .validation_data = rows(7).batch(3), .verbose = 0};
    options.callbacks = {
        callbacks::EarlyStopping({.patience = 3, .restore_best_weights = true}),
        callbacks::ReduceLROnPlateau({.factor = 0.5, .patience = 1, .min_delta = 0.01}),
        callbacks::CSVLogger(folder.path() + "/log.csv"),
        callbacks::BackupAndRestore(folder.path() + "/backup", {.save_freq = save_freq}),
        Cut(attempt < cuts.size() ? cuts[attempt] : -1)};
    try {
      const History history = model.fit(rows(23).shuffle(23).batch(4), options);
      ending.history = history.history;
    } catch (const std::runtime_error& error) {
      if (std::string(error.what()) != "cut") throw;
      continue;
    }
    Sha256 sha;
    for (const Weight& weight : model->weights()) {
      const at::Tensor value = weight.variable.value().detach().contiguous();
      sha.update(value.const_data_ptr(), value.nbytes());
    }
    ending.weights = sha.hex_digest();
    EXPECT_FALSE(file_system_of(folder.path()).info(folder.path() + "/backup"));
  }
  ending.csv = read_file(folder.path() + "/log.csv");
  return ending;
}

TEST(FitTest, ARunThatIsCutOffEndsAsIfItHadNotBeen) {
  for (int replicas : {1, 2}) {
    const Ending whole = resumed_run({}, 0, replicas);
    ASSERT_EQ(resumed_run({}, 0, replicas).weights, whole.weights);
    for (int64_t save_freq : {int64_t{0}, int64_t{1}, int64_t{5}}) {
      const Ending cut = resumed_run({3, 10, 25}, save_freq, replicas);
      EXPECT_EQ(cut.weights, whole.weights) << save_freq;
      EXPECT_EQ(cut.history, whole.history) << save_freq;
      EXPECT_EQ(cut.csv, whole.csv) << save_freq;
    }
  }
}

TEST(FitTest, ARunTooShortForABackupEndsWell) {
  const test::TempFolder folder;
  for (const bool exists : {false, true}) {
    FitOptions options{.epochs = 1, .verbose = 0};
    options.callbacks = {callbacks::BackupAndRestore(
        exists ? folder.path() : join_path(folder.path(), "never_made"))};
    EXPECT_EQ(compiled().fit(rows(8).batch(4), options).epoch.size(), 1U);
  }
}

/// From the training's end on, the disk denies every change but the first ones.
struct DenyAtTheEnd : callbacks::Callback {
  explicit DenyAtTheEnd(int64_t changes) : changes(changes) {}
  int64_t changes;
  void on_train_end(Logs&) override { test::faulty_disk().start(test::Fault::kDenied, changes); }
};

TEST(FitTest, ARunThatEndsWhileItRemovesItsBackupsCanBeStartedAgain) {
  const auto train = [](const std::string& folder, int64_t changes) {
    const Model model = compiled();
    FitOptions options{.epochs = 2, .verbose = 0};
    options.callbacks = {DenyAtTheEnd(changes), callbacks::BackupAndRestore(folder)};
    try {
      (void)model.fit(rows(8).batch(4), options);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kPermissionDenied) throw;
    }
    test::faulty_disk().stop();
  };
  for (int64_t changes = 0;; ++changes) {
    const test::TempFolder folder;
    const std::string backup = test::on_faulty_disk(join_path(folder.path(), "backup"));
    train(backup, changes);
    if (!file_system_of(backup).info(backup)) {
      EXPECT_GT(changes, 3);  // moved aside; its files, itself and the folder removed
      break;
    }
    train(backup, 1000);
    if (!file_system_of(backup).info(backup)) continue;
    for (const std::string& name : file_system_of(backup).list(backup)) {
      EXPECT_TRUE(name.starts_with(".trash-")) << name << " after " << changes << " changes";
    }
  }
}

}  // namespace
}  // namespace strata::keras
