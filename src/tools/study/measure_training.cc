#include "tools/study/measure_training.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "core/cpu_model.h"
#include "core/host_topology.h"
#include "strata/core/error.h"
#include "strata/graph/function.h"
#include "strata/keras/dtype_policy.h"
#include "strata/optim/losses.h"
#include "strata/runtime/devices.h"
#include "strata/runtime/span_observer.h"
#include "strata/strategies/parameter_server_strategy.h"
#include "tools/study/part_clock.h"
#include "tools/study/progress_lines.h"
#include "tools/study/study_input.h"
#include "tools/study/study_networks.h"
#include "tools/study/study_optimizer.h"
#include "tools/study/study_strategy.h"

namespace strata::tools {
namespace {

using Clock = std::chrono::steady_clock;
using data::Example;

/// How many steps are cut into parts, when all others are over.
constexpr int kCutSteps = 5;

double since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

/// A training that goes on step by step.
class Training {
 public:
  Training(const Configuration& configuration, Strategy& strategy)
      : configuration_(configuration),
        strategy_(strategy),
        model_(strategy.scope([&] {
          keras::set_dtype_policy(policy_of(configuration.dtype));
          return make_study_network(configuration.network, configuration.image_size,
                                    configuration.classes);
        })),
        optimizer_(strategy.scope([&] { return make_study_optimizer(configuration, model_); })),
        input_(strategy.distribute(
            study_input(configuration, configuration.batch * strategy.num_replicas_in_sync()))),
        batches_(input_.iterator()),
        step_(function(Step([this](const Example& part) { return step(part); }),
                       {.name = "train_step"})),
        replays_(configuration.strategy != StudyStrategy::kParameterServer &&
                 configuration.strategy != StudyStrategy::kCentral) {}

  /// @return seconds until the batch was there.
  double run_step() {
    const Clock::time_point began = Clock::now();
    const auto batch = next_batch();
    const double waited = since(began);
    if (replays_) {
      losses_ = strategy_.run(step_, batch);
    } else {
      losses_ = strategy_.run([this](const Example& part) { return step(part); }, batch);
    }
    return waited;
  }

  /// Of the last step, the mean over this worker's examples or all. It waits for GPUs.
  double loss() const {
    const double sum = strategy_.reduce(ReduceOp::kSum, losses_).item<double>();
    return sum / static_cast<double>(configuration_.batch * strategy_.num_replicas_in_sync());
  }

  /// The parts of a step that runs as it is written.
  StepParts cut_step() {
    const auto batch = next_batch();
    const PerReplica<StepParts> parts = strategy_.run(
        [this](const Example& part) {
          const auto clock = std::make_shared<PartClock>();
          const SpanObserverScope scope(clock);
          const at::Tensor loss = forward(part);
          clock->forward_ended();
          minimize(loss, part);
          return clock->step_ended();
        },
        batch);
    StepParts mean;
    const auto count = static_cast<double>(parts.size());
    for (const StepParts& each : parts.values()) {
      mean.forward += each.forward / count;
      mean.backward += each.backward / count;
      mean.communication += each.communication / count;
      mean.update += each.update / count;
    }
    return mean;
  }

  const keras::Model& model() const { return model_; }

 private:
  static std::string policy_of(const std::string& dtype) {
    return dtype == "float32" ? dtype : "mixed_" + dtype;
  }

  PerReplica<Example> next_batch() {
    auto batch = batches_.next();
    STRATA_CHECK(batch.has_value(), kDataLoss,
                 "[strata study] got the end of the images; expected endless ones");
    return *std::move(batch);
  }

  at::Tensor forward(const Example& part) const {
    return losses::sparse_categorical_crossentropy(part.y(), model_(part.x()),
                                                   {.from_logits = true})
        .sum();
  }
  void minimize(const at::Tensor& loss, const Example& part) const {
    optimizer_->minimize(loss, {.weight = static_cast<double>(part.num_rows())});
  }
  at::Tensor step(const Example& part) const {
    const at::Tensor loss = forward(part);
    minimize(loss, part);
    return loss.detach();
  }

  using Step = std::function<at::Tensor(const Example&)>;

  const Configuration& configuration_;
  Strategy& strategy_;
  keras::Model model_;
  std::shared_ptr<optimizers::Optimizer> optimizer_;
  DistributedDataset input_;
  DistributedDataset::Iterator batches_;
  Function<Step> step_;
  bool replays_;  ///< Graphs have no words for variables that a step fetches.
  PerReplica<at::Tensor> losses_;
};

void count_parameters(const Configuration& configuration, const keras::Model& model,
                      Measurement& result) {
  std::vector<ps::VariableSpec> variables;
  for (const Variable& variable : model->trainable_variables()) {
    variables.push_back(
        {.name = variable.name(), .shape = variable.sizes().vec(), .dtype = variable.dtype()});
    result.parameters += ps::num_elements(variables.back());
    result.parameter_bytes += ps::num_bytes(variables.back());
  }
  if (configuration.servers == 0) return;
  result.server_bytes =
      ps::place(variables, configuration.servers, placement_options(configuration.placement))
          .server_bytes;
}

std::string processor_of(const Configuration& configuration) {
  if (configuration.device == "cpu") return cpu_model().name;
  const std::vector<HostTopology::Gpu> gpus = HostTopology::read().usable_gpus();
  return gpus.empty() ? "GPU" : gpus[0].model;
}

/// Workers with parameter servers that wait for none count for themselves.
double share_of_all(const Configuration& configuration, const Strategy& strategy) {
  if (configuration.strategy != StudyStrategy::kParameterServer) return 1;
  return configuration.synchronous
             ? static_cast<double>(configuration.replicas) / strategy.num_replicas_in_sync()
             : 1;
}

}  // namespace

Measurement measure_training(const Configuration& configuration,
                             const std::function<void(const std::string&)>& show) {
  const std::unique_ptr<Strategy> strategy = make_strategy(configuration);
  Training training(configuration, *strategy);
  Measurement result{.configuration = configuration, .images_per_second = {}};
  const double images =
      static_cast<double>(configuration.batch * strategy->num_replicas_in_sync()) *
      share_of_all(configuration, *strategy);
  const bool shows = strategy->is_chief() && configuration.display_every > 0;

  for (int i = 0; i < configuration.warmup; ++i) training.run_step();
  if (configuration.warmup > 0) (void)training.loss();  // GPUs are done
  if (shows) show(ProgressLines::header());
  for (int round = 0; round < configuration.repeat; ++round) {
    ProgressLines lines(static_cast<int64_t>(images));
    const Clock::time_point began = Clock::now();
    Clock::time_point step_began = began;
    for (int step = 1; step <= configuration.steps; ++step) {
      result.input_seconds += training.run_step();
      const bool displays =
          configuration.display_every > 0 && step % configuration.display_every == 0;
      // All tasks look at the same steps' losses, since they reduce them together.
      if (displays || step == configuration.steps) result.loss = training.loss();
      lines.add_step(since(std::exchange(step_began, Clock::now())));
      if (shows && displays) show(lines.line(step, result.loss));
    }
    result.images_per_second.push_back(images * configuration.steps / since(began));
    if (shows) show(lines.total());
  }
  result.input_seconds /= static_cast<double>(configuration.repeat) * configuration.steps;
  if (configuration.device == "cpu") {
    StepParts mean;
    for (int i = 0; i < kCutSteps; ++i) {
      const StepParts each = training.cut_step();
      mean.forward += each.forward / kCutSteps;
      mean.backward += each.backward / kCutSteps;
      mean.communication += each.communication / kCutSteps;
      mean.update += each.update / kCutSteps;
    }
    result.parts = mean;
  }
  count_parameters(configuration, training.model(), result);
  result.processor = processor_of(configuration);
  result.cores = num_cores();
  return result;
}

}  // namespace strata::tools
