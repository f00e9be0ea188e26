// A task of a cluster, for the test beside it: chief and workers train a line with inputs of
// unequal length, the evaluator evaluates what they save.
//
//   strata_estimator_worker FOLDER
//
// Prints "trained to N: w" or "evaluated N".
#include <cstdio>
#include <exception>
#include <optional>

#include "estimator/line_model.h"
#include "strata/estimator/train_and_evaluate.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"

namespace {

using namespace strata;             // NOLINT
using namespace strata::estimator;  // NOLINT

/// Five batches for the chief, three for the other worker.
Input unequal_input(const InputContext& context) {
  const int64_t rows = context.input_pipeline_id == 0 ? 10 : 6;
  return strata::estimator::test::line_input(rows, 2, 1)(context);
}

void run(const std::string& folder) {
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
  const TrainAndEvaluateResult result =
      train_and_evaluate(estimator, {.input_fn = unequal_input},
                         {.input_fn = strata::estimator::test::line_input(6, 3, 1),
                          .start_delay_secs = 0,
                          .throttle_secs = 0});
  if (result.evaluation) {
    std::printf("evaluated %lld\n", static_cast<long long>(result.evaluation->global_step));
  } else {
    std::printf("trained to %lld: %.9g\n",
                static_cast<long long>(estimator.variable_value("global_step").item<int64_t>()),
                estimator.variable_value("w").item<double>());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: strata_estimator_worker FOLDER\n");
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
