// The strata side of suite `estimator`: the programs that a user of tf.estimator writes, behind the
// line protocol of benchmarks/peers/README.md. benchmarks/peers/tf_estimator.py has the same models.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "strata/data/dataset.h"
#include "strata/estimator/canned.h"
#include "strata/estimator/estimator.h"
#include "strata/estimator/hooks.h"
#include "strata/estimator/table_rows.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "suites/estimator.h"
#include "suites/interleaved.h"
#include "suites/serve.h"
#include "suites/worker.h"
#include "tools/command_line.h"

namespace strata::bench {
namespace {

namespace fc = feature_column;

constexpr int64_t kHashedRows = 10'000'000;  // of each table that hashed words look up

/// Lets a call of train run the steps that the harness asks for.
class ServeHook final : public estimator::SessionRunHook {
 public:
  void after_run(estimator::Session& session, const estimator::StepResults& results) override {
    if (--left_ > 0) return;
    if (requests_) {
      requests_->answer(results.loss());
    } else {
      requests_.emplace();
    }
    left_ = requests_->next();
    if (left_ == 0) session.request_stop();
  }

 private:
  long left_ = StepRequests::kWarmUp;
  std::optional<StepRequests> requests_;
};

/// The tables of 10 million rows are not what is measured when they are saved.
estimator::RunConfig config(Strategy& strategy) {
  return estimator::RunConfig(
      {.tf_random_seed = 1, .save_checkpoints_steps = 0, .train_distribute = &strategy});
}

estimator::EstimatorSpec mnist_model(const estimator::Features& features,
                                     const estimator::Labels& labels, estimator::Mode mode,
                                     estimator::ModelContext& context) {
  at::Tensor x = features.at("x").values;
  x = context.layer<layers::Dense>("hidden_1", 256, "relu")(x);
  x = context.layer<layers::Dense>("hidden_2", 256, "relu")(x);
  const at::Tensor logits = context.layer<layers::Dense>("logits", 10)(x);
  estimator::EstimatorSpec spec{.predictions = {{"digit", {logits.argmax(1)}}}};
  if (mode == estimator::Mode::kPredict) return spec;
  spec.loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true}).mean();
  if (mode == estimator::Mode::kEval) return spec;
  spec.train_op = context.minimize(
      context.optimizer([] { return optimizers::Adam({.learning_rate = 1e-3}); }), spec.loss);
  return spec;
}

data::Dataset mnist_batches(const std::string& path) {
  const data::Example pool = read_pool(path, 0);
  return data::Dataset::from_tensor_slices({pool.x().flatten(0, 1), pool.y().flatten()})
      .batch(pool.x().size(1), {.drop_remainder = true})
      .cache()
      .repeat();
}

void train_mnist(Strategy& strategy, const std::string& path) {
  const BenchWorkspace folder;
  estimator::Estimator digits(mnist_model,
                              {.model_dir = folder.path().string(), .config = config(strategy)});
  digits.train([&](const InputContext&) -> estimator::Input { return mnist_batches(path); },
               {.hooks = {std::make_shared<ServeHook>()}});
}

void fit_mnist(Strategy& strategy, const std::string& path) {
  const keras::Model model = strategy.scope([] {
    keras::Model net = keras::Sequential(
        keras::Input({784}),
        {layers::Dense(256, "relu"), layers::Dense(256, "relu"), layers::Dense(10)});
    net.compile({.optimizer = optimizers::Adam({.learning_rate = 1e-3}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
    return net;
  });
  const data::Dataset batches = mnist_batches(path);
  serve([&](long count) {
    return model.fit(batches, {.verbose = 0, .steps_per_epoch = count})["loss"].back();
  });
}

estimator::Input table_input(const std::string& path) {
  const estimator::TableRows table = estimator::csv_rows({path},
                                                         {{"age", data::CsvColumn::float32()},
                                                          {"hours", data::CsvColumn::float32()},
                                                          {"education", data::CsvColumn::string()},
                                                          {"occupation", data::CsvColumn::string()},
                                                          {"user", data::CsvColumn::string()},
                                                          {"label", data::CsvColumn::int64()}},
                                                         {.label_name = "label"});
  estimator::Input input = table.batch(kTableBatch, /*drop_remainder=*/true);
  input.dataset = input.dataset.cache().repeat();
  return input;
}

void train_wide_and_deep(Strategy& strategy, const std::string& path) {
  const BenchWorkspace folder;
  const auto user = fc::categorical_column_with_hash_bucket("user", kHashedRows);
  const auto education = fc::categorical_column_with_hash_bucket("education", 100);
  estimator::DNNLinearCombinedClassifier model(
      {.linear_feature_columns = {user, fc::crossed_column({"education", "occupation", "user"},
                                                           kHashedRows)},
       .dnn_feature_columns = {fc::numeric_column("age"), fc::numeric_column("hours"),
                               fc::indicator_column(education), fc::embedding_column(user, 8)},
       .dnn_hidden_units = {100, 50},
       .model_dir = folder.path().string(),
       .config = config(strategy)});
  model.train([&](const InputContext&) { return table_input(path); },
              {.hooks = {std::make_shared<ServeHook>()}});
}

}  // namespace

int run_estimator_worker(const std::vector<std::string>& arguments) {
  std::string name, data, through;
  tools::CommandLine line("strata bench estimator-worker", {});
  line.text("--case", "C", "", name);
  line.text("--data", "FILE", "", data);
  line.text("--through", "estimator|fit", "", through);
  STRATA_CHECK(line.read(arguments), kInvalidArgument, "[strata bench] got --help for a worker");
  MirroredStrategy strategy = make_strategy(1, "cpu");
  if (name == "wide-deep") {
    train_wide_and_deep(strategy, data);
  } else if (through == "fit") {
    fit_mnist(strategy, data);
  } else {
    train_mnist(strategy, data);
  }
  return 0;
}

}  // namespace strata::bench
