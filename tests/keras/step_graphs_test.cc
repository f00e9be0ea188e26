// The steps of fit, evaluate and predict as graphs: the same bits as when they run as they are written,
// or, where they cannot be recorded, one line in the log.
#include "keras/training/step_graphs.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "keras/custom_layer.h"
#include "keras/step_graphs_run.h"
#include "keras/training/training_run.h"
#include "strata/keras/applications.h"
#include "strata/keras/callbacks.h"
#include "strata/keras/constraints.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/regularizers.h"
#include "strata/keras/sequential.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/runtime/replica_context.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/summary/summary_writer.h"
#include "support/expect_error.h"
#include "support/log_lines.h"
#include "support/replicas.h"
#include "support/temp_folder.h"
#include "support/test_devices.h"

namespace strata::keras {
namespace {

using data::Dataset;
using test::fingerprint_of;
using test::LogLines;
using test::Steps;
using test::waves;

constexpr auto kSeed = 7;

at::Tensor labels(int64_t rows, int64_t classes) {
  return (at::arange(rows, at::kLong) * 7 + 3).remainder(classes);
}

/// Words with trailing zeros, which a mask hides.
at::Tensor sentences(int64_t rows, int64_t time, int64_t words) {
  const at::Tensor all = (at::arange(rows * time, at::kLong) * 5 + 1).remainder(words - 1) + 1;
  const at::Tensor length = (at::arange(rows, at::kLong) * 3).remainder(time) + 1;
  return at::where(at::arange(time, at::kLong).unsqueeze(0) < length.unsqueeze(1),
                   all.reshape({rows, time}), at::zeros({}, at::kLong));
}

/// A model, what it is compiled with, and its data.
struct Case {
  std::function<Model()> make;
  std::function<CompileOptions()> compile;
  Dataset data;
  FitOptions fit = {};
};

struct Outcome {
  std::string fingerprint;
  int64_t graphs = 0;
};

Outcome train(const Case& each, int replicas, Steps steps) {
  clear_session();
  MirroredStrategy strategy({.devices = test::test_devices(replicas), .seed = 5});
  set_random_seed(kSeed);
  const Model model = strategy.scope(each.make);
  strategy.scope([&] { test::compile(model, each.compile(), steps); });
  FitOptions options = each.fit;
  options.verbose = 0;
  const History history = model.fit(each.data, options);
  return {fingerprint_of(model, history), model->graphs().tracing_count()};
}

/// On one replica and two; nothing is logged, so every step was recorded.
void expect_same_bits(const Case& each, int64_t graphs_each = 1) {
  for (const int replicas : {1, 2}) {
    LogLines lines;
    const Outcome eager = train(each, replicas, Steps::kEager);
    const Outcome graphs = train(each, replicas, Steps::kGraphs);
    EXPECT_EQ(graphs.fingerprint, eager.fingerprint) << replicas << " replicas";
    EXPECT_EQ(eager.graphs, 0);
    EXPECT_EQ(graphs.graphs, graphs_each * replicas);
    EXPECT_EQ(lines.text(), "");
  }
}

CompileOptions classifier(optimizers::AnyOptimizer optimizer = "adam") {
  return {.optimizer = std::move(optimizer),
          .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
          .metrics = {"accuracy"}};
}

Dataset vectors(int64_t rows = 80) {
  return Dataset::from_tensor_slices({waves(rows, 6, 0.7), labels(rows, 3)}).batch(8);
}

Model mlp() {
  return Sequential({layers::Dense(16, "relu"), layers::Dropout(0.3), layers::Dense(3)});
}

Dataset images(int64_t count, int64_t side, int64_t batch) {
  return Dataset::from_tensor_slices(
             {waves(count, side * side * 3, 0.37).reshape({count, side, side, 3}),
              labels(count, 4)})
      .batch(batch);
}

// --- Models

TEST(StepGraphsModelsTest, Mlp) {
  expect_same_bits({mlp, [] { return classifier(); }, vectors(), {.epochs = 2}});
}

TEST(StepGraphsModelsTest, ConvolutionsWithBatchNormalization) {
  const auto make = [] {
    return Sequential({layers::Conv2D(8, {3, 3}, {.activation = "relu"}),
                       layers::BatchNormalization(), layers::MaxPooling2D(),
                       layers::Conv2D(8, {3, 3}),
                       layers::BatchNormalization({.synchronized = !test::runs_on_gpus()}),
                       layers::ReLU(), layers::GlobalAveragePooling2D(), layers::Dense(4)});
  };
  expect_same_bits({make,
                    [] { return classifier(optimizers::SGD({.momentum = 0.9})); },
                    images(40, 12, 4),
                    {.epochs = 2}});
}

// Of 8 rows the second replica has as many as the first, of 7 and 3 fewer, of 1 none.
TEST(StepGraphsModelsTest, StatisticsOfReplicasWithOtherNumbersOfRows) {
  const auto make = [] {
    return Sequential(
        {layers::Dense(6), layers::BatchNormalization({.synchronized = true}), layers::Dense(3)});
  };
  const auto data = [](int64_t rows) {
    return Dataset::from_tensor_slices({waves(rows, 6, 0.7), labels(rows, 3)});
  };
  const Dataset batches =
      data(16).batch(8).concatenate(data(14).batch(7)).concatenate(data(4).batch(3));
  for (const int replicas : {1, 2}) {
    const Case each{make, [] { return classifier(); }, batches, {.epochs = 6}};
    const Outcome graphs = train(each, replicas, Steps::kGraphs);
    EXPECT_EQ(graphs.fingerprint, train(each, replicas, Steps::kEager).fingerprint) << replicas;
    // Rows of parts: 8, 7, 3, 1; on two replicas 4, 2, 1 and 4, 3, 1, 0. On GPUs sums of replicas are not
    // recorded.
    EXPECT_EQ(graphs.graphs, replicas == 1 ? 4 : test::runs_on_gpus() ? 0 : 7);
  }
}

Model recurrent(bool mask_zero) {
  return Sequential({layers::Embedding(12, 6, {.mask_zero = mask_zero}),
                     layers::Bidirectional(layers::LSTM(5, {.return_sequences = true})),
                     layers::GRU(4, {.dropout = 0.2}), layers::Dense(3)});
}

Dataset texts(int64_t rows = 80) {
  return Dataset::from_tensor_slices({sentences(rows, 7, 12), labels(rows, 3)}).batch(8);
}

TEST(StepGraphsModelsTest, Recurrent) {
  expect_same_bits(
      {[] { return recurrent(false); }, [] { return classifier(); }, texts(), {.epochs = 2}});
}

TEST(StepGraphsModelsTest, RecurrentWithAMask) {
  expect_same_bits(
      {[] { return recurrent(true); }, [] { return classifier(); }, texts(), {.epochs = 2}});
}

TEST(StepGraphsModelsTest, RecurrentWithAMaskThatHidesAll) {
  const at::Tensor words = sentences(40, 7, 12);
  words.slice(0, 16, 24).zero_();
  expect_same_bits({[] { return recurrent(true); },
                    [] { return classifier(); },
                    Dataset::from_tensor_slices({words, labels(40, 3)}).batch(8),
                    {.epochs = 4}});
}

TEST(StepGraphsModelsTest, MasksOfSequencesThatAreScored) {
  const auto make = [] {
    return Sequential({layers::Embedding(12, 6, {.mask_zero = true}),
                       layers::LSTM(5, {.return_sequences = true}), layers::Dense(3)});
  };
  const at::Tensor each = labels(80 * 7, 3).reshape({80, 7});
  expect_same_bits({make,
                    [] {
                      CompileOptions options = classifier(optimizers::RMSprop());
                      options.weighted_metrics = {"accuracy"};
                      return options;
                    },
                    Dataset::from_tensor_slices({sentences(80, 7, 12), each}).batch(8),
                    {.epochs = 2}});
}

TEST(StepGraphsModelsTest, Transformer) {
  const auto make = [] {
    const auto words = Input({7});
    const auto x = layers::Embedding(12, 8)(words);
    const auto attended = layers::MultiHeadAttention(2, 4, {.dropout = 0.1})(x, x);
    const auto y = layers::LayerNormalization()(layers::Add()({x, attended}));
    const auto mixed = layers::Dense(8)(layers::Dense(16, "gelu")(y));
    const auto z = layers::LayerNormalization()(layers::Add()({y, mixed}));
    return Model(words, layers::Dense(3)(layers::GlobalAveragePooling1D()(z)));
  };
  expect_same_bits({make, [] { return classifier(optimizers::AdamW()); }, texts(), {.epochs = 2}});
}

TEST(StepGraphsModelsTest, ResNet50) {
  const auto make = [] {
    return applications::ResNet50(
        {.input_shape = {32, 32, 3}, .classes = 4, .classifier_activation = "linear"});
  };
  expect_same_bits(
      {make, [] { return classifier(optimizers::SGD({.momentum = 0.9})); }, images(40, 32, 2)});
}

TEST(StepGraphsModelsTest, InceptionV3) {
  const auto make = [] {
    return applications::InceptionV3(
        {.input_shape = {75, 75, 3}, .classes = 4, .classifier_activation = "linear"});
  };
  expect_same_bits({make, [] { return classifier(optimizers::SGD()); }, images(40, 75, 2)});
}

/// Two networks and two optimizers, as in examples/03_gan, in a step of the model's own. The model is the
/// generator.
class GanImpl : public ModelImpl {
 public:
  std::string_view class_name() const override { return "Gan"; }

  /// In the strategy's scope.
  void build_critic() {
    critic_->ensure_built({{kNone, 2}});
    teach_.build(critic_->trainable_variables());
  }

  void train_step(const Batch& batch) override {
    const int64_t rows = batch.x[0].size(0);
    const auto weight = static_cast<double>(rows);
    const at::Tensor made = generator_(at::randn({rows, 2}, batch.x[0].options()));
    const at::Tensor taught =
        (at::softplus(-critic_(batch.x[0])) + at::softplus(critic_(made.detach()))).sum();
    teach_.minimize(taught, {.weight = weight});
    const StepLoss learned{.value = at::softplus(-critic_(made)).sum(), .weight = weight};
    minimize(learned);
    update_metrics(batch, {.values = {made}}, learned);
  }

 protected:
  Tensors call(const Tensors& inputs, const Call&) override { return {generator_(inputs[0])}; }

 private:
  Sequential generator_ =
      track("generator", Sequential({layers::Dense(8, "relu"), layers::Dense(2)}));
  Sequential critic_ = Sequential({layers::Dense(8, "relu"), layers::Dense(1)});
  optimizers::Adam teach_ = optimizers::Adam({.learning_rate = 2e-3, .beta_1 = 0.5});
};

TEST(StepGraphsModelsTest, StepsOfTheirOwnWithTwoOptimizers) {
  const auto make = [] {
    const auto impl = std::make_shared<GanImpl>();
    impl->build_critic();
    return Model(impl);
  };
  expect_same_bits({make,
                    [] { return CompileOptions{.optimizer = optimizers::Adam()}; },
                    Dataset::from_tensor_slices(data::Example{waves(80, 2, 0.7)}).batch(8),
                    {.epochs = 2}});
}

// --- What compile and fit take

TEST(StepGraphsTest, WeightsOfSamplesAndClassesValidationAndPartialBatches) {
  const auto weighted = [](int64_t rows) {
    return Dataset::from_tensor_slices(
               {waves(rows, 6, 0.7), labels(rows, 3), waves(rows, 1, 0.2).squeeze(1).abs()})
        .batch(8);
  };
  const auto compile = [] {
    CompileOptions options = classifier();
    options.weighted_metrics = {"accuracy", metrics::SparseCategoricalCrossentropy()};
    return options;
  };
  // Batches of 8 and of 5; for validation of 8 and of 3: four signatures.
  expect_same_bits(
      {mlp,
       compile,
       weighted(45),
       {.epochs = 6, .validation_data = weighted(19), .class_weight = {{0, 0.5}, {2, 2.0}}}},
      4);
}

TEST(StepGraphsTest, PenaltiesConstraintsAndLossesThatLayersAdd) {
  const auto make = [] {
    const auto x = Input({6});
    const auto h =
        layers::Dense(8, {.activation = "tanh",
                          .kernel_regularizer = regularizers::L2(0.01),
                          .activity_regularizer = regularizers::L1(0.01),
                          .kernel_constraint = constraints::MaxNorm({.max_value = 0.8})})(x);
    return Model(x, layers::Dense(3)(make_layer<test::PenaltyImpl>()(h)));
  };
  expect_same_bits({make, [] { return classifier(); }, vectors(), {.epochs = 2}});
}

TEST(StepGraphsTest, SeveralOutputs) {
  const auto make = [] {
    const auto x = Input({6});
    const auto h = layers::Dense(8, "tanh")(x);
    return Model(std::vector{x},
                 {layers::Dense(1, {.name = "value"})(h), layers::Dense(3, {.name = "kind"})(h)});
  };
  const auto compile = [] {
    return CompileOptions{
        .optimizer = "adam",
        .loss = {"mse", losses::SparseCategoricalCrossentropy(
                            {.from_logits = true, .reduction = losses::Reduction::kSum})},
        .loss_weights = {0.5, 2.0},
        .metrics = std::map<std::string, MetricList>{{"kind", {"accuracy"}}}};
  };
  expect_same_bits(
      {make,
       compile,
       Dataset::from_tensor_slices({waves(80, 6, 0.7), waves(80, 1, 0.3), labels(80, 3)}).batch(8),
       {.epochs = 2}});
}

TEST(StepGraphsTest, OptimizersWithStateOfTheirOwn) {
  const std::vector<std::function<optimizers::AnyOptimizer()>> all = {
      [] { return optimizers::LossScaleOptimizer(optimizers::SGD({.learning_rate = 0.05})); },
      [] {
        return optimizers::SGD(
            {.learning_rate =
                 schedules::ExponentialDecay{
                     .initial_learning_rate = 0.1, .decay_steps = 3, .decay_rate = 0.5},
             .use_ema = true,
             .ema_momentum = 0.9,
             .gradient_accumulation_steps = 3});
      },
      [] { return optimizers::Adam({.global_clipnorm = 0.5}); },
  };
  for (const auto& optimizer : all) {
    expect_same_bits({mlp, [&] { return classifier(optimizer()); }, vectors(), {.epochs = 2}});
  }
}

Model half_precision() {
  const DTypePolicy policy("mixed_bfloat16");
  return Sequential({layers::Dense(16, {.activation = "relu", .dtype = policy}),
                     layers::Dense(3, {.dtype = policy})});
}

TEST(StepGraphsTest, HalfPrecision) {
  expect_same_bits({half_precision, [] { return classifier(); }, vectors(), {.epochs = 2}});
}

/// Halves all weights after some batches, and the learning rate after others.
class Meddler final : public callbacks::Callback {
 public:
  void on_train_batch_end(int64_t batch, Logs&) override {
    const Model& model = run().model();
    if (batch == 5 || batch == 7) {
      Tensors values = model->get_weights();
      for (at::Tensor& value : values) value.mul_(0.5);
      model->set_weights(values);
    }
    if (batch == 6) model.optimizer().set_learning_rate(0.25 * model.optimizer().learning_rate());
    if (batch == 8 && run().epoch() == 1) run().stop_training();
  }
};

TEST(StepGraphsTest, CallbacksThatChangeTheModelAndTheRateAndStop) {
  const auto fit = [] {
    return FitOptions{.epochs = 3, .callbacks = {std::make_shared<Meddler>()}};
  };
  expect_same_bits({mlp, [] { return classifier(); }, vectors(), fit()});
  // There are copies in 16 bits, too.
  expect_same_bits({half_precision, [] { return classifier(); }, vectors(), fit()});
}

TEST(StepGraphsTest, StepsPerExecution) {
  const auto compile = [] {
    CompileOptions options = classifier();
    options.steps_per_execution = 4;
    return options;
  };
  expect_same_bits({mlp, compile, vectors(), {.epochs = 2}});
}

TEST(StepGraphsTest, WhatIsTrainedChangesWithCompile) {
  const auto run = [](Steps steps) {
    clear_session();
    MirroredStrategy strategy({.devices = test::test_devices(1), .seed = 5});
    set_random_seed(kSeed);
    const Model model = strategy.scope(mlp);
    std::string all;
    for (const bool frozen : {false, true, false}) {
      if (model->built()) model.get_layer(0)->set_trainable(!frozen);
      test::compile(model, classifier(), steps);
      const History history = model.fit(vectors(), {.verbose = 0});
      all += fingerprint_of(model, history) + "\n";
      EXPECT_EQ(model->graphs().tracing_count(), steps == Steps::kGraphs ? 1 : 0);
    }
    return all;
  };
  EXPECT_EQ(run(Steps::kGraphs), run(Steps::kEager));
}

TEST(StepGraphsTest, ModelsTakeTurns) {
  const auto run = [](Steps steps) {
    clear_session();
    MirroredStrategy strategy({.devices = test::test_devices(1), .seed = 5});
    set_random_seed(kSeed);
    const Model first = strategy.scope(mlp);
    const Model second = strategy.scope(mlp);
    test::compile(first, classifier(), steps);
    test::compile(second, classifier("sgd"), steps);
    std::string all;
    for (int i = 0; i < 3; ++i) {
      for (const Model& model : {first, second}) {
        all += fingerprint_of(model, model.fit(vectors(), {.verbose = 0})) + "\n";
        first->set_weights(second->built() ? second->get_weights() : first->get_weights());
      }
    }
    return all;
  };
  EXPECT_EQ(run(Steps::kGraphs), run(Steps::kEager));
}

TEST(StepGraphsTest, WithoutAStrategy) {
  const auto run = [](Steps steps) {
    clear_session();
    set_random_seed(kSeed);
    const Model model = Sequential({layers::Dense(16, "relu"), layers::Dense(3)});
    test::compile(model, classifier(), steps);
    const History history = model.fit(vectors(), {.epochs = 2, .verbose = 0});
    EXPECT_EQ(model->graphs().tracing_count(), steps == Steps::kGraphs ? 1 : 0);
    return fingerprint_of(model, history);
  };
  EXPECT_EQ(run(Steps::kGraphs), run(Steps::kEager));
}

TEST(StepGraphsTest, AResumedRunEndsLikeOneThatWentThrough) {
  const auto fit = [](Steps steps, int64_t stop_after, const std::string& folder) {
    clear_session();
    MirroredStrategy strategy({.devices = test::test_devices(2), .seed = 5});
    set_random_seed(kSeed);
    const Model model = strategy.scope(mlp);
    strategy.scope([&] { test::compile(model, classifier(), steps); });
    // What was recorded before the state comes back must see it.
    if (stop_after == 0) {
      for (int i = 0; i < 4; ++i) {
        model.train_on_batch({waves(8, 6, 0.7), labels(8, 3)});
      }
      EXPECT_EQ(model->graphs().tracing_count(), steps == Steps::kGraphs ? 2 : 0);
    }
    int64_t seen = 0;
    FitOptions options{.epochs = 3, .verbose = 0};
    options.callbacks.emplace_back(
        callbacks::BackupAndRestore(folder, {.save_freq = 4, .delete_checkpoint = false}));
    options.callbacks.emplace_back(callbacks::LambdaCallback({.on_train_batch_begin = [&](int64_t) {
      if (stop_after > 0 && ++seen > stop_after) throw std::runtime_error("killed");
    }}));
    const History history = model.fit(vectors(), options);
    return fingerprint_of(model, history);
  };
  const strata::test::TempFolder whole, parts;
  const std::string expected = fit(Steps::kEager, -1, whole.path());
  EXPECT_THROW(fit(Steps::kGraphs, 17, parts.path()), std::runtime_error);
  EXPECT_EQ(fit(Steps::kGraphs, 0, parts.path()), expected);
}

// --- evaluate and predict

TEST(StepGraphsTest, EvaluateAndPredict) {
  const auto run = [](Steps steps) {
    clear_session();
    MirroredStrategy strategy({.devices = test::test_devices(1), .seed = 5});
    set_random_seed(kSeed);
    const Model model = strategy.scope(mlp);
    test::compile(model, classifier(), steps);
    model.fit(vectors(8), {.verbose = 0});
    std::vector<at::Tensor> all;
    for (int i = 0; i < 3; ++i) {
      const Logs logs = model.evaluate(vectors(84), {.verbose = 0});
      all.push_back(at::tensor({logs.at("loss"), logs.at("accuracy")}, at::kDouble));
      for (const int64_t rows : {4, 9, 16, 1, 9, 3, 9}) {
        all.push_back(model.predict(waves(rows, 6, 0.3), {.verbose = 0, .batch_size = 4}));
      }
      model.fit(vectors(8), {.verbose = 0});
    }
    // One for training, two for evaluate (8 rows and 4), two for predict (4 and 1) at least.
    EXPECT_EQ(model->graphs().tracing_count() >= 5, steps == Steps::kGraphs);
    return tensor::fingerprint(all);
  };
  EXPECT_EQ(run(Steps::kGraphs), run(Steps::kEager));
}

TEST(StepGraphsTest, PredictCallsBackOnceAnExecution) {
  class Batches final : public callbacks::Callback {
   public:
    explicit Batches(std::string* seen) : seen_(seen) {}
    void on_predict_batch_begin(int64_t batch) override { *seen_ += str_cat(batch, "-"); }
    void on_predict_batch_end(int64_t batch) override { *seen_ += str_cat(batch, " "); }

   private:
    std::string* seen_;
  };
  const Model model = mlp();
  model.compile({.optimizer = "sgd", .loss = "mse", .steps_per_execution = 3});
  const at::Tensor x = waves(29, 6, 0.3);
  std::string seen;
  const at::Tensor y = model.predict(
      x, {.callbacks = {std::make_shared<Batches>(&seen)}, .verbose = 0, .batch_size = 4});
  EXPECT_EQ(seen, "0-2 3-5 6-7 ");
  model.compile({.optimizer = "sgd", .loss = "mse"});
  EXPECT_TRUE(model.predict(x, {.verbose = 0, .batch_size = 4}).equal(y));
}

// --- When graphs are made

TEST(StepGraphsTest, AShortFitMakesNone) {
  clear_session();
  const Model model = mlp();
  model.compile(classifier());
  model.fit(vectors(40), {.verbose = 0});
  EXPECT_EQ(model->graphs().tracing_count(), 0);
}

/// Counts what a replay leaves out.
class CountingImpl final : public UnaryLayerImpl {
 public:
  std::string_view class_name() const override { return "Counting"; }
  static inline int64_t calls = 0;

 private:
  void describe(ConfigWriter&) const override {}
  Shape compute_output_shape(const Shape& input) const override { return input; }
  at::Tensor call(const at::Tensor& x, const Call&) override {
    ++calls;
    return x * 2;
  }
};

int64_t calls_of_twenty_steps(bool run_eagerly) {
  clear_session();
  const Model model = Sequential({make_layer<CountingImpl>(), layers::Dense(3)});
  test::compile(model, classifier(), run_eagerly ? Steps::kEager : Steps::kGraphs);
  model.fit(vectors(8), {.verbose = 0});
  CountingImpl::calls = 0;
  model.fit(vectors(160), {.verbose = 0});
  return CountingImpl::calls;
}

TEST(StepGraphsTest, ReplaysLeaveTheProgramsCodeOut) {
  EXPECT_EQ(calls_of_twenty_steps(true), 20);
  EXPECT_EQ(calls_of_twenty_steps(false), 3);  // two recordings of the first, one of the second
}

// --- What cannot be recorded

/// Reads an element, in training.
class ReadingImpl final : public UnaryLayerImpl {
 public:
  std::string_view class_name() const override { return "Reading"; }

 private:
  void describe(ConfigWriter&) const override {}
  Shape compute_output_shape(const Shape& input) const override { return input; }
  at::Tensor call(const at::Tensor& x, const Call&) override {
    return x.numel() > 0 && x.max().item<float>() > 0 ? x * 2 : x * 3;
  }
};

/// Keeps what it saw, for a callback to look at.
class KeepingImpl final : public UnaryLayerImpl {
 public:
  std::string_view class_name() const override { return "Keeping"; }
  std::array<at::Tensor, 2> last = {};  // by replica

 private:
  void describe(ConfigWriter&) const override {}
  Shape compute_output_shape(const Shape& input) const override { return input; }
  at::Tensor call(const at::Tensor& x, const Call&) override {
    if (const ReplicaContext* replica = get_replica_context()) {
      last.at(static_cast<size_t>(replica->local_replica())) = x.detach() + 1;
    }
    return x * 2;
  }
};

template <typename Impl>
Model with_layer() {
  return Sequential({layers::Dense(6, "relu"), make_layer<Impl>(), layers::Dense(3)});
}

void expect_one_line(const std::function<Model()>& make, const std::string& reason) {
  const Case each{make, [] { return classifier(); }, vectors(), {.epochs = 2}};
  std::string eager;
  {
    LogLines lines;
    eager = train(each, 2, Steps::kEager).fingerprint;
    EXPECT_EQ(lines.text(), "");
  }
  LogLines lines;
  EXPECT_EQ(train(each, 2, Steps::kGraphs).fingerprint, eager);
  const std::string text = lines.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  for (const std::string& part :
       {std::string("train_step is not run as a graph but as it is written, with the same results"),
        reason, std::string("compile with run_eagerly = true to leave out this line")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
}

TEST(StepGraphsRefusedTest, StepsThatReadElements) {
  expect_one_line(with_layer<ReadingImpl>, "asks for the elements of a tensor (item()");
}

TEST(StepGraphsRefusedTest, StepsThatKeepTensors) {
  expect_one_line(with_layer<KeepingImpl>, "the step keeps a tensor of its own for later");
}

/// Doubles its input in every fifth step, or writes a summary.
class AlternatingImpl : public ModelImpl {
 public:
  explicit AlternatingImpl(bool counts) : counts_(counts) {}
  std::string_view class_name() const override { return "Alternating"; }
  std::optional<summary::SummaryWriter> writer;
  int64_t written = 0;

  void train_step(const Batch& batch) override {
    Batch changed = batch;
    if (counts_ && optimizer().iterations() % 5 == 4) changed.x[0] = batch.x[0] * 2;
    if (!counts_ && get_replica_context()->local_replica() == 0) {
      writer->scalar("rows", static_cast<double>(batch.x[0].size(0)), written);
      ++written;
    }
    ModelImpl::train_step(changed);
  }

 protected:
  Tensors call(const Tensors& inputs, const Call&) override { return {output_(inputs[0])}; }

 private:
  bool counts_;
  layers::Dense output_ = track("output", layers::Dense(3));
};

TEST(StepGraphsRefusedTest, StepsThatCount) {
  expect_one_line([] { return make_model<AlternatingImpl>(true); },
                  "the number of steps so far is read by the step's code");
}

TEST(StepGraphsRefusedTest, StepsThatWriteSummaries) {
  const strata::test::TempFolder folder;
  std::shared_ptr<AlternatingImpl> last;
  expect_one_line(
      [&] {
        last = std::make_shared<AlternatingImpl>(false);
        last->writer.emplace(summary::create_file_writer(folder.path()));
        return Model(last);
      },
      "a summary is written by the step's code");
  EXPECT_EQ(last->written, 20);
}

TEST(StepGraphsRefusedTest, LossesThatCompareAllRows) {
  const Case each{mlp,
                  [] { return CompileOptions{.loss = losses::Circle()}; },
                  Dataset::from_tensor_slices({waves(44, 6, 0.7), labels(44, 3)}).batch(8),
                  {.epochs = 3}};
  LogLines lines;
  EXPECT_EQ(train(each, 1, Steps::kGraphs).fingerprint, train(each, 1, Steps::kEager).fingerprint);
  EXPECT_EQ(lines.text(), "");
  EXPECT_EQ(train(each, 2, Steps::kGraphs).fingerprint, train(each, 2, Steps::kEager).fingerprint);
  EXPECT_NE(lines.text().find("all_gather joins the rows of all replicas"), std::string::npos);
}

TEST(StepGraphsRefusedTest, ErrorsOfReplaysAreThoseOfLayers) {
  const auto errors = [](Steps steps) {
    clear_session();
    const Model model = recurrent(false);
    test::compile(model, classifier(), steps);
    model.fit(texts(40), {.verbose = 0});
    EXPECT_EQ(model->graphs().tracing_count(), steps == Steps::kGraphs ? 1 : 0);
    std::string all;
    for (const data::Example& bad :
         {data::Example{at::full({8, 7}, 12, at::kLong), labels(8, 3)},
          data::Example{sentences(8, 7, 12), at::full({8}, 3, at::kLong)}}) {
      try {
        model.train_on_batch(bad);
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        all += str_cat(error_code_name(error.code()), " ", error.what(), "\n");
      }
    }
    return all;
  };
  const std::string expected = errors(Steps::kEager);
  EXPECT_NE(expected.find("got tokens from 12 to 12; expected 0 <= token < input_dim = 12"),
            std::string::npos)
      << expected;
  EXPECT_NE(expected.find("got label 3 in row 0"), std::string::npos) << expected;
  EXPECT_EQ(errors(Steps::kGraphs), expected);
}

}  // namespace
}  // namespace strata::keras
