#include "strata/estimator/estimator.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/join.h"
#include "estimator/estimator_impl.h"
#include "runtime/replica_group.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/core/log.h"

namespace strata::estimator {
namespace {

constexpr std::string_view kModelGroup = "model/";

std::string model_dir_of(const EstimatorOptions& options) {
  const std::string& of_config = options.config.model_dir();
  STRATA_CHECK(options.model_dir.empty() || of_config.empty() || options.model_dir == of_config,
               kInvalidArgument, "[estimator] Estimator: got model_dir '", options.model_dir,
               "' and in its RunConfig '", of_config, "'; give it once, or the same");
  if (!options.model_dir.empty()) return options.model_dir;
  if (!of_config.empty()) return of_config;
  std::string made = (std::filesystem::temp_directory_path() / "strata-estimator-XXXXXX").string();
  STRATA_CHECK(::mkdtemp(made.data()) != nullptr, kUnavailable,
               "[estimator] Estimator: cannot make a temporary folder ", made,
               "; give it a model_dir");
  STRATA_LOG(kWarning) << "[estimator] Estimator: got no model_dir; the model is in the temporary "
                          "folder "
                       << made;
  return made;
}

}  // namespace

Estimator::Impl::Impl(ModelFn fn, EstimatorOptions given)
    : model_fn(std::move(fn)), options(std::move(given)), model_dir(model_dir_of(options)) {
  STRATA_CHECK(model_fn, kInvalidArgument,
               "[estimator] Estimator: got no model_fn; expected a function");
}

std::optional<std::string> Estimator::Impl::latest_checkpoint() const {
  if (!file_system_of(model_dir).info(model_dir)) return std::nullopt;
  return strata::latest_checkpoint(model_dir, kCheckpointName);
}

std::optional<std::string> Estimator::Impl::checkpoint_to_read(const std::string& path) const {
  if (path.empty()) return latest_checkpoint();
  STRATA_CHECK(file_system_of(path).info(path), kNotFound,
               "[estimator] Estimator: there is no checkpoint ", path);
  return path;
}

void Estimator::Impl::restore(detail::BuiltModel& model,
                              const std::optional<std::string>& checkpoint) const {
  if (!checkpoint) {
    int64_t ignored = 0;
    return detail::warm_start(model, options.warm_start_from, ignored);
  }
  model.store().strategy().scope([&] {
    // Without random streams: those of a training around an evaluation stay.
    Checkpoint objects({{"model", model.store().tracked_variables()}}, {.random_state = false});
    objects.read(*checkpoint).expect_partial().assert_existing_objects_matched();
  });
}

int64_t detail::step_of_checkpoint(const std::string& path) {
  const size_t dash = path.rfind('-');
  STRATA_CHECK(dash != std::string::npos && dash + 1 < path.size() &&
                   path.find_first_not_of("0123456789", dash + 1) == std::string::npos,
               kInvalidArgument, "[estimator] Estimator: got '", path,
               "' as a checkpoint; expected a name like ", kCheckpointName, "-100");
  return std::stoll(path.substr(dash + 1));
}

int64_t detail::agree_on_largest(Strategy& strategy, int64_t value) {
  const ReplicaGroup& group = strategy.group();
  if (group.communicator() == nullptr) return value;
  return strategy.reduce(ReduceOp::kMax,
                         PerReplica<int64_t>(std::vector<int64_t>(
                             static_cast<size_t>(group.num_local_replicas()), value)));
}

double Evaluation::at(const std::string& name) const {
  const auto found = metrics.find(name);
  STRATA_CHECK(found != metrics.end(), kNotFound, "[estimator] Evaluation: got '", name,
               "'; expected one of ", join(metrics, [](const auto& each) { return each.first; }));
  return found->second;
}

Estimator::Estimator(ModelFn model_fn, EstimatorOptions options)
    : impl_(std::make_shared<Impl>(std::move(model_fn), std::move(options))) {}

Estimator& Estimator::train(const InputFn& input_fn, const TrainOptions& options) {
  impl_->train(detail::given_or_default(config().options().train_distribute), input_fn, options);
  return *this;
}

Evaluation Estimator::evaluate(const InputFn& input_fn, const EvaluateOptions& options) {
  return impl_->evaluate(input_fn, options);
}

std::vector<std::string> Estimator::variable_names() const {
  const auto checkpoint = latest_checkpoint();
  STRATA_CHECK(checkpoint, kNotFound, "[estimator] Estimator: could not find a trained model in ",
               "model_dir: ", impl_->model_dir);
  std::vector<std::string> names;
  for (const CheckpointVariable& variable : list_variables(*checkpoint)) {
    const std::string_view name = variable.name;
    if (name.starts_with('_')) continue;  // the checkpoint's own
    names.emplace_back(name.starts_with(kModelGroup) ? name.substr(kModelGroup.size()) : name);
  }
  std::ranges::sort(names);
  return names;
}

at::Tensor Estimator::variable_value(const std::string& name) const {
  const std::vector<std::string> names = variable_names();
  STRATA_CHECK(std::ranges::binary_search(names, name), kNotFound, "[estimator] Estimator: got '",
               name, "'; expected one of ", join(names));
  const std::string path = *latest_checkpoint();
  const std::string in_model = std::string(kModelGroup) + name;
  for (const CheckpointVariable& variable : list_variables(path)) {
    if (variable.name == in_model) return load_variable(path, in_model);
  }
  return load_variable(path, name);
}

std::optional<std::string> Estimator::latest_checkpoint() const {
  return impl_->latest_checkpoint();
}

std::string Estimator::eval_dir(const std::string& name) const {
  return join_path(impl_->model_dir, name.empty() ? "eval" : "eval_" + name);
}

const std::string& Estimator::model_dir() const { return impl_->model_dir; }
const RunConfig& Estimator::config() const { return impl_->options.config; }
const std::any& Estimator::params() const { return impl_->options.params; }
const ModelFn& Estimator::model_fn() const { return impl_->model_fn; }

Estimator add_metrics(const Estimator& estimator, MetricFn metric_fn) {
  STRATA_CHECK(metric_fn, kInvalidArgument,
               "[estimator] add_metrics: got no metric_fn; expected a function");
  EstimatorOptions options = estimator.impl()->options;
  options.model_dir = estimator.model_dir();
  return Estimator(
      [model_fn = estimator.model_fn(), metric_fn = std::move(metric_fn)](
          const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
        EstimatorSpec spec = model_fn(features, labels, mode, context);
        if (mode != Mode::kEval) return spec;
        for (EvalMetric& metric : metric_fn(features, labels, spec.predictions, context)) {
          spec.eval_metrics.push_back(std::move(metric));
        }
        return spec;
      },
      std::move(options));
}

}  // namespace strata::estimator
