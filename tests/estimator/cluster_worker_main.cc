// A task of a cluster, for the tests beside it.
//
//   strata_estimator_worker mirrored FOLDER
//
// Chief and workers train a line with inputs of unequal length, the evaluator evaluates what they
// save.
//
//   strata_estimator_worker watched FOLDER
//
// The same with equal inputs, 40 steps and a checkpoint every fourth, which the chief lets the
// evaluator evaluate before it trains on. The chief prints "sha256 ..." of weights and slots and
// "evaluation N: loss" of each at the end.
//
//   strata_estimator_worker servers FOLDER MAX_STEPS
//
// Chief and workers train with parameter servers a variable to which each push adds 1, to MAX_STEPS
// (0: without an end) or until there is a file FOLDER/stop.
//
//   strata_estimator_worker counted FOLDER MAX_STEPS LIFE
//
// The same to MAX_STEPS, where each push adds 1 to its own element of two variables, which two
// servers have one each: LIFE is how often this task was started before.
//
//   strata_estimator_worker report FOLDER
//
// Prints what the newest checkpoint of a counted job has: "global_step N", and for each life of a
// task whose pushes are there and each variable "TASK LIFE VARIABLE: FIRST LAST COUNT MOST".
//
// Prints "trained to N: w" or "evaluated N: w"; with servers also "step N" of each step, and at the
// end "made K steps, the last N".
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "estimator/eval_events.h"
#include "estimator/line_model.h"
#include "strata/core/file_system.h"
#include "strata/estimator/train_and_evaluate.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/tensor/fingerprint.h"

namespace {

using namespace strata;             // NOLINT
using namespace strata::estimator;  // NOLINT
using strata::estimator::test::line_input;

/// Five batches for the chief, three for the other worker.
Input unequal_input(const InputContext& context) {
  const int64_t rows = context.input_pipeline_id == 0 ? 10 : 6;
  return line_input(rows, 2, 1)(context);
}

/// Its variable counts the pushes.
EstimatorSpec counting_model(const Features&, const Labels&, Mode mode, ModelContext& context) {
  const Variable w = context.variable("w", [] { return at::full({1}, 0.0); });
  EstimatorSpec spec{.predictions = {{"w", {w.value()}}}};
  if (mode == Mode::kPredict) return spec;
  spec.loss = -w.value().sum();
  spec.eval_metrics = {context.mean("w", w.value())};
  if (mode == Mode::kEval) return spec;
  spec.train_op = context.minimize(
      context.optimizer([] { return optimizers::SGD({.learning_rate = 1}); }), spec.loss);
  return spec;
}

/// Counts the steps of this worker, and ends them when it is asked to.
class CountingHook final : public SessionRunHook {
 public:
  explicit CountingHook(std::string folder) : stop_(join_path(folder, "stop")) {}
  void after_run(Session& session, const StepResults&) override {
    ++steps_;
    std::printf("step %lld\n", static_cast<long long>(session.global_step()));
    if (file_system_of(stop_).info(stop_)) session.request_stop();
  }
  void end(Session& session) override {
    std::printf("made %lld steps, the last %lld\n", static_cast<long long>(steps_),
                static_cast<long long>(session.global_step()));
  }

 private:
  const std::string stop_;
  int64_t steps_ = 0;
};

void print(const Estimator& estimator, const TrainAndEvaluateResult& result) {
  if (result.evaluation) {
    const auto w = result.evaluation->metrics.find("w");
    std::printf("evaluated %lld: %.9g\n", static_cast<long long>(result.evaluation->global_step),
                w == result.evaluation->metrics.end() ? 0 : w->second);
  } else if (estimator.config().task_type() != "ps") {
    std::printf("trained to %lld: %.9g\n",
                static_cast<long long>(estimator.variable_value("global_step").item<int64_t>()),
                estimator.variable_value("w").item<double>());
  }
}

void run_mirrored(const std::string& folder) {
  RunConfigOptions options{.save_checkpoints_steps = 2};
  std::optional<MultiWorkerMirroredStrategy> strategy;
  if (RunConfig().task_type() != "evaluator") {
    MultiWorkerMirroredOptions workers{.devices = {"cpu:0"}, .seed = 3};
    workers.server.start_timeout = std::chrono::seconds(60);
    strategy.emplace(workers);
    options.train_distribute = &*strategy;
  }
  Estimator estimator(strata::estimator::test::LineModel(),
                      {.model_dir = folder, .config = RunConfig(options)});
  print(estimator,
        train_and_evaluate(
            estimator, {.input_fn = unequal_input},
            {.input_fn = line_input(6, 3, 1), .start_delay_secs = 0, .throttle_secs = 0}));
}

/// Waits until what is saved has been evaluated.
class WaitsForEvaluator final : public CheckpointSaverListener {
 public:
  explicit WaitsForEvaluator(std::string folder) : folder_(std::move(folder)) {}

  bool after_save(int64_t step) override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!strata::estimator::detail::evaluations_in(folder_).contains(step)) {
      STRATA_CHECK(std::chrono::steady_clock::now() < deadline, kDeadlineExceeded,
                   "the evaluator has not evaluated step ", step);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

 private:
  const std::string folder_;
};

void print_watched(const Estimator& estimator) {
  std::vector<at::Tensor> state;
  for (const std::string& name : estimator.variable_names()) {
    state.push_back(estimator.variable_value(name));
  }
  std::printf("sha256 %s\n", tensor::fingerprint(state).c_str());
  for (const auto& [step, metrics] :
       strata::estimator::detail::evaluations_in(estimator.eval_dir())) {
    std::printf("evaluation %lld: %.9g\n", static_cast<long long>(step), metrics.at("loss"));
  }
}

Input shuffled_input(const InputContext& context) {
  const at::Tensor x = at::arange(1, 13, at::kFloat).reshape({12, 1});
  return data::Dataset::from_tensor_slices({x, x * 2})
      .shuffle(12, {.seed = 7 + static_cast<uint64_t>(context.input_pipeline_id)})
      .repeat()
      .batch(2);
}

void run_watched(const std::string& folder) {
  RunConfigOptions options{
      .tf_random_seed = 1, .save_checkpoints_steps = 4, .log_step_count_steps = {}};
  std::optional<MultiWorkerMirroredStrategy> strategy;
  if (RunConfig().task_type() != "evaluator") {
    MultiWorkerMirroredOptions workers{.devices = {"cpu:0"}, .seed = 3};
    workers.server.start_timeout = std::chrono::seconds(60);
    strategy.emplace(workers);
    options.train_distribute = &*strategy;
  }
  Estimator estimator(strata::estimator::test::LineModel{.learning_rate = 0.0001, .momentum = 0.9},
                      {.model_dir = folder, .config = RunConfig(options)});
  (void)train_and_evaluate(
      estimator,
      {.input_fn = shuffled_input,
       .max_steps = 40,
       .saving_listeners = {std::make_shared<WaitsForEvaluator>(estimator.eval_dir())}},
      {.input_fn = line_input(6, 3, 1), .start_delay_secs = 0, .throttle_secs = 0});
  if (estimator.config().is_chief()) print_watched(estimator);
}

void run_with_servers(const std::string& folder, int64_t max_steps) {
  Estimator estimator(counting_model,
                      {.model_dir = folder, .config = RunConfig({.save_checkpoints_steps = 20})});
  TrainSpec train{.input_fn = line_input(6, 2), .hooks = {std::make_shared<CountingHook>(folder)}};
  if (max_steps > 0) train.max_steps = max_steps;
  print(estimator,
        train_and_evaluate(
            estimator, train,
            {.input_fn = line_input(6, 3, 1), .start_delay_secs = 0, .throttle_secs = 0}));
}

/// Tasks that train, how often each may be started, and the batches of a life.
constexpr int64_t kCountedTasks = 3;
constexpr int64_t kCountedLives = 8;
constexpr int64_t kCountedBatches = 2000;
constexpr const char* kCounted[] = {"first", "second"};

/// Batch n of a life is that with the number n.
ModelFn model_that_counts_each(int64_t task, int64_t life) {
  const int64_t row = task * kCountedLives + life;
  return [row](const Features& features, const Labels&, Mode mode, ModelContext& context) {
    const at::Tensor batch = features.at("x").values.flatten().to(at::kLong);
    at::Tensor loss = at::full({}, 0.0, at::kDouble);
    for (const char* name : kCounted) {
      const Variable pushes = context.variable(name, [] {
        return at::full({kCountedTasks * kCountedLives, kCountedBatches}, 0.0, at::kDouble);
      });
      loss = loss - pushes.value().select(0, row).index_select(0, batch).sum();
    }
    EstimatorSpec spec{.loss = loss};
    if (mode != Mode::kTrain) return spec;
    spec.train_op = context.minimize(
        context.optimizer([] { return optimizers::SGD({.learning_rate = 1}); }), loss);
    return spec;
  };
}

class PrintsSaves final : public CheckpointSaverListener {
 public:
  bool after_save(int64_t step) override {
    std::printf("saved %lld\n", static_cast<long long>(step));
    return false;
  }
};

void run_counted(const std::string& folder, int64_t max_steps, int64_t life) {
  set_logical_devices("cpu", 1);  // a batch is a push
  const RunConfig config({.save_checkpoints_steps = 20});
  const bool trains = config.task_type() == "chief" || config.task_type() == "worker";
  const int64_t task = config.task_type() == "worker" ? 1 + config.task_id() : 0;
  Estimator estimator(model_that_counts_each(task, trains ? life : 0),
                      {.model_dir = folder, .config = config});
  const InputFn input = [](const InputContext&) {
    const at::Tensor x = at::arange(kCountedBatches, at::kFloat);
    return data::Dataset::from_tensor_slices({x}).batch(1);
  };
  (void)train_and_evaluate(
      estimator,
      {.input_fn = input,
       .max_steps = max_steps,
       .hooks = {std::make_shared<CountingHook>(folder)},
       .saving_listeners = {std::make_shared<PrintsSaves>()}},
      {.input_fn = input, .steps = 1, .start_delay_secs = 0, .throttle_secs = 0});
}

void report_counted(const std::string& folder) {
  const Estimator estimator(model_that_counts_each(0, 0), {.model_dir = folder});
  std::printf("global_step %lld\n",
              static_cast<long long>(estimator.variable_value("global_step").item<int64_t>()));
  for (const char* name : kCounted) {
    const at::Tensor pushes = estimator.variable_value(name);
    for (int64_t row = 0; row < pushes.size(0); ++row) {
      const at::Tensor batches = pushes[row].nonzero().flatten();
      if (batches.numel() == 0) continue;
      std::printf("%lld %lld %s: %lld %lld %lld %g\n", static_cast<long long>(row / kCountedLives),
                  static_cast<long long>(row % kCountedLives), name,
                  static_cast<long long>(batches[0].item<int64_t>()),
                  static_cast<long long>(batches[-1].item<int64_t>()),
                  static_cast<long long>(batches.numel()), pushes[row].max().item<double>());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    if (argc == 3 && std::string(argv[1]) == "mirrored") {
      run_mirrored(argv[2]);
    } else if (argc == 3 && std::string(argv[1]) == "watched") {
      run_watched(argv[2]);
    } else if (argc == 4 && std::string(argv[1]) == "servers") {
      run_with_servers(argv[2], std::stoll(argv[3]));
    } else if (argc == 5 && std::string(argv[1]) == "counted") {
      run_counted(argv[2], std::stoll(argv[3]), std::stoll(argv[4]));
    } else if (argc == 3 && std::string(argv[1]) == "report") {
      report_counted(argv[2]);
    } else {
      std::fprintf(stderr,
                   "usage: strata_estimator_worker mirrored|watched|servers|counted|report FOLDER "
                   "[MAX_STEPS [LIFE]]\n");
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
