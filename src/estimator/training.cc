#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "estimator/estimator_impl.h"
#include "estimator/evaluator_loop.h"
#include "estimator/hooked_steps.h"
#include "estimator/input_place.h"
#include "estimator/server_job.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"
#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/core/file_system.h"
#include "strata/core/json.h"
#include "strata/core/log.h"
#include "strata/summary/summary_writer.h"

namespace strata::estimator {
namespace {

/// A file in model_dir that names the step at which the last call of train ended: the next one
/// begins its input anew, where one that goes on behind another step was interrupted.
constexpr const char* kFinishedFile = "finished.json";

void write_finished_step(const std::string& model_dir, int64_t step) {
  Json json = Json::object();
  json.set("global_step", step);
  const std::string text = json.dump();
  strata::detail::write_atomically(join_path(model_dir, kFinishedFile), [&](WritableFile& file) {
    file.append(std::as_bytes(std::span(text)));
  });
}

void remove_finished_step(const std::string& model_dir) {
  const std::string path = join_path(model_dir, kFinishedFile);
  if (file_system_of(path).info(path)) file_system_of(path).remove(path);
}

double mean_loss_of(double sum, double rows, LossOverReplicas over_replicas) {
  if (over_replicas == LossOverReplicas::kSum) return sum;
  return rows > 0 ? sum / rows : 0;
}

/// What a step of training gave.
class TrainResults final : public StepResults {
 public:
  TrainResults(const detail::BuiltModel::Results& results, std::vector<int64_t> rows,
               LossOverReplicas over_replicas, bool ready)
      : results_(results), rows_(std::move(rows)), over_replicas_(over_replicas), ready_(ready) {}

  /// Of replica `r`: weighted for the sum over replicas.
  double weighted_loss(int r) const {
    const int64_t rows = rows_[static_cast<size_t>(r)];
    if (rows == 0) return 0;
    const double loss = results_.get(r).tensors.at(0).item<double>();
    return over_replicas_ == LossOverReplicas::kSum ? loss : loss * static_cast<double>(rows);
  }
  const std::vector<int64_t>& rows() const { return rows_; }

  double loss() const override {
    double sum = 0;
    for (int r = 0; r < results_.size(); ++r) sum += weighted_loss(r);
    const int64_t rows = std::accumulate(rows_.begin(), rows_.end(), int64_t{0});
    return mean_loss_of(sum, static_cast<double>(rows), over_replicas_);
  }
  bool is_ready() const override { return ready_; }

  std::optional<double> scalar(const std::string& name) const override {
    const std::vector<std::string> names = scalar_names();
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return results_.get(0).tensors.at(i + 1).item<double>();
    }
    return std::nullopt;
  }
  std::vector<std::string> scalar_names() const override {
    const auto& [all, histograms] = detail::BuiltModel::names(results_.get(0));
    return {all.begin(), all.end() - static_cast<std::ptrdiff_t>(histograms)};
  }
  std::vector<std::pair<std::string, at::Tensor>> histograms() const override {
    const auto& result = results_.get(0);
    const auto& [all, histograms] = detail::BuiltModel::names(result);
    std::vector<std::pair<std::string, at::Tensor>> named;
    for (size_t i = all.size() - histograms; i < all.size(); ++i) {
      named.emplace_back(all[i], result.tensors.at(i + 1));
    }
    return named;
  }

 private:
  const detail::BuiltModel::Results& results_;
  const std::vector<int64_t> rows_;
  const LossOverReplicas over_replicas_;
  const bool ready_;
};

/// A call of train.
class TrainSession final : public Session {
 public:
  TrainSession(Estimator::Impl& estimator, Strategy& strategy, const InputFn& input_fn,
               const TrainOptions& options);
  void run();

  int64_t global_step() const override { return global_step_; }
  const RunConfig& config() const override { return estimator_.options.config; }
  bool is_chief() const override { return strategy_.is_chief(); }
  void save() override;
  summary::SummaryWriter* writer() override;
  double loss_over_workers() override;
  at::Tensor variable_value(const std::string& name) override;

 private:
  Checkpoint::Objects objects();
  void restore(const std::optional<std::string>& checkpoint);
  void restore_job(const std::optional<std::string>& checkpoint);
  void place_input();
  bool saves() const { return !job_ || is_chief(); }
  Hooks make_hooks() const;
  bool is_incomplete(const std::vector<int64_t>& rows) const;

  Estimator::Impl& estimator_;
  const TrainOptions& options_;
  Strategy& strategy_;
  int64_t global_step_ = 0;
  detail::BatchInput input_;
  std::optional<detail::BuiltModel> model_;
  std::optional<detail::ServerJob> job_;  // with parameter servers
  std::shared_ptr<detail::InputPlace> place_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<CheckpointManager> manager_;
  std::optional<summary::SummaryWriter> writer_;
  const TrainResults* results_ = nullptr;
  bool has_saved_ = false;
};

TrainSession::TrainSession(Estimator::Impl& estimator, Strategy& strategy, const InputFn& input_fn,
                           const TrainOptions& options)
    : estimator_(estimator),
      options_(options),
      strategy_(strategy),
      input_(strategy_, input_fn),
      place_(std::make_shared<detail::InputPlace>(input_.feed())) {
  const auto checkpoint = estimator_.latest_checkpoint();
  if (checkpoint) global_step_ = detail::step_of_checkpoint(*checkpoint);
  const RunConfig& config = estimator_.options.config;
  model_.emplace(estimator_.model_fn, strategy_, config, estimator_.options.params, Mode::kTrain,
                 global_step_, input_.fields(), input_.first());
  file_system_of(estimator_.model_dir).make_folders(estimator_.model_dir);
  if (ParameterStore* store = strategy_.group().placement().store()) {
    job_.emplace(model_->store(), *store);
  }
  strategy_.scope([&] {
    checkpoint_.emplace(objects());
    manager_.emplace(
        *checkpoint_, estimator_.model_dir,
        CheckpointManagerOptions{
            .max_to_keep = static_cast<int>(config.options().keep_checkpoint_max),
            .keep_checkpoint_every_n_hours = config.options().keep_checkpoint_every_n_hours,
            .checkpoint_name = kCheckpointName});
  });
  restore(checkpoint);
}

Checkpoint::Objects TrainSession::objects() {
  Checkpoint::Objects objects = {{"model", model_->store().tracked_variables()},
                                 {"global_step", Tracked(global_step_)},
                                 {"input", Tracked(std::static_pointer_cast<Trackable>(place_))}};
  for (const auto& [name, optimizer] : model_->store().optimizers()) {
    objects.emplace_back(name, model_->store().tracked(*optimizer));
  }
  return objects;
}

/// Continues in the input where a call of train was interrupted.
void TrainSession::place_input() {
  const bool ended = detail::agree_on_largest(
      strategy_, detail::finished_step(estimator_.model_dir) == global_step_ ? 1 : 0);
  if (!ended && estimator_.options.config.options().resume_input) {
    place_->go_on();
  } else {
    input_.feed().start(0);
  }
}

void TrainSession::restore(const std::optional<std::string>& checkpoint) {
  if (job_) return restore_job(checkpoint);
  if (!checkpoint) {
    return detail::warm_start(*model_, estimator_.options.warm_start_from, global_step_);
  }
  checkpoint_->read(*checkpoint).expect_partial().assert_existing_objects_matched();
  place_input();
}

/// The servers have the values of a job that others continue; a worker's input is its own.
void TrainSession::restore_job(const std::optional<std::string>& checkpoint) {
  if (job_->restores() && !checkpoint) {
    detail::warm_start(*model_, estimator_.options.warm_start_from, global_step_);
  } else if (job_->restores()) {
    checkpoint_->read(*checkpoint).expect_partial().assert_existing_objects_matched();
    place_input();
  } else if (is_chief() && checkpoint) {
    Checkpoint of_chief({{"model", model_->store().tracked_untrained_variables()},
                         {"input", Tracked(std::static_pointer_cast<Trackable>(place_))}});
    of_chief.read(*checkpoint).expect_partial().assert_existing_objects_matched();
    place_input();
  }
  job_->begin(global_step_);
  global_step_ = job_->global_step();
}

void TrainSession::save() {
  if (!saves()) return;
  manager_->save({.number = global_step_, .check_interval = false});
  // From the first checkpoint of a call on, with its place in the input, the one before has no say.
  if (!std::exchange(has_saved_, true) && is_chief()) remove_finished_step(estimator_.model_dir);
}

summary::SummaryWriter* TrainSession::writer() {
  if (!is_chief()) return nullptr;
  if (!writer_) writer_.emplace(summary::create_file_writer(estimator_.model_dir));
  return &*writer_;
}

double TrainSession::loss_over_workers() {
  STRATA_CHECK(results_ != nullptr, kFailedPrecondition,
               "[estimator] Session::loss_over_workers: there was no step yet; call it in "
               "after_run");
  if (strategy_.group().communicator() == nullptr) return results_->loss();
  std::vector<double> sums;
  std::vector<int64_t> rows;
  for (int r = 0; r < strategy_.group().num_local_replicas(); ++r) {
    sums.push_back(results_->weighted_loss(r));
    rows.push_back(results_->rows()[static_cast<size_t>(r)]);
  }
  const double sum = strategy_.reduce(ReduceOp::kSum, PerReplica<double>(std::move(sums)));
  const int64_t all = strategy_.reduce(ReduceOp::kSum, PerReplica<int64_t>(std::move(rows)));
  return mean_loss_of(sum, static_cast<double>(all), model_->spec().loss_over_replicas);
}

at::Tensor TrainSession::variable_value(const std::string& name) {
  for (const detail::NamedVariable& each : model_->store().variables()) {
    if (each.name == name) return each.variable.value().detach();
  }
  return {};
}

/// In the order of tf.estimator: the saver, of the chief its own, counters and summaries, the
/// user's, what ends training, what logs, the model's.
Hooks TrainSession::make_hooks() const {
  const RunConfig& config = estimator_.options.config;
  const RunConfigOptions& every = config.options();
  const Listeners listeners = is_chief() ? options_.saving_listeners : Listeners();
  Hooks hooks;
  const auto add = [&](const Hooks& more) { hooks.insert(hooks.end(), more.begin(), more.end()); };
  bool has_saver = false;
  for (const auto& hook : options_.hooks) {
    if (auto* saver = dynamic_cast<CheckpointSaverHook*>(hook.get())) {
      if (!has_saver) saver->add_listeners(listeners);
      has_saver = true;
    }
  }
  if (!has_saver && saves() && config.saves_checkpoints()) {
    CheckpointSaverOptions saver{.save_steps = config.save_checkpoints_steps(),
                                 .save_secs = config.save_checkpoints_secs(),
                                 .listeners = listeners};
    if (saver.save_secs > 0 && strategy_.group().communicator() != nullptr) {
      STRATA_LOG(kWarning) << "[estimator] train: workers save together, so checkpoints are saved "
                              "every 1000 steps instead of every "
                           << saver.save_secs << " s; set save_checkpoints_steps";
      saver.save_secs = 0;
      saver.save_steps = 1000;
    }
    hooks.push_back(std::make_shared<CheckpointSaverHook>(std::move(saver)));
    has_saver = true;
  }
  STRATA_CHECK(has_saver || !saves() || options_.saving_listeners.empty(), kInvalidArgument,
               "[estimator] train: got saving_listeners, and no checkpoints are saved; set "
               "save_checkpoints_steps or save_checkpoints_secs");
  if (is_chief()) add(model_->spec().training_chief_hooks);
  if (every.log_step_count_steps && is_chief()) {
    hooks.push_back(std::make_shared<StepCounterHook>(*every.log_step_count_steps));
  }
  if (every.save_summary_steps > 0) {
    hooks.push_back(std::make_shared<SummarySaverHook>(every.save_summary_steps));
  }
  add(options_.hooks);
  if (options_.steps || options_.max_steps) {
    hooks.push_back(std::make_shared<StopAtStepHook>(
        StopAtStepHook::Options{.num_steps = options_.steps, .last_step = options_.max_steps}));
  }
  hooks.push_back(std::make_shared<NanTensorHook>());
  if (every.log_step_count_steps) {
    hooks.push_back(std::make_shared<LoggingTensorHook>(*every.log_step_count_steps));
  }
  add(model_->spec().training_hooks);
  return hooks;
}

/// Whether the input of one process ended within a step: its batches are not trained, as in
/// TensorFlow.
bool TrainSession::is_incomplete(const std::vector<int64_t>& rows) const {
  return strategy_.group().communicator() == nullptr && rows.size() > 1 &&
         std::ranges::find(rows, 0) != rows.end();
}

void TrainSession::run() {
  detail::HookedSteps steps(*this, make_hooks());
  // Which worker stops is known to it alone, unless by what all have.
  const bool agrees =
      detail::agree_on_largest(strategy_, options_.hooks.size() + options_.saving_listeners.size() +
                                              model_->spec().training_hooks.size() +
                                              model_->spec().training_chief_hooks.size()) > 0;
  steps.begin();
  steps.created();
  const bool ready = strategy_.group().all_cpu();
  // A worker that comes late.
  if (job_ && options_.max_steps && global_step_ >= *options_.max_steps) request_stop();
  const auto run = [&](const detail::BuiltModel::Element& parts, const auto& made) {
    std::vector<int64_t> rows;
    for (const data::Example& part : parts.values()) rows.push_back(part.num_rows());
    if (is_incomplete(rows)) return false;
    const detail::BuiltModel::Results results = model_->run(parts);
    global_step_ = job_ ? job_->global_step() : global_step_ + 1;
    const TrainResults step(results, std::move(rows), model_->spec().loss_over_replicas, ready);
    results_ = &step;
    made(step);
    results_ = nullptr;
    return true;
  };
  while (steps.step(input_, run)) {
    if (agrees && detail::agree_on_largest(strategy_, stop_requested() ? 1 : 0) > 0) request_stop();
  }
  steps.end();
  if (writer_) writer_->close();
  if (is_chief() && estimator_.latest_checkpoint()) {
    write_finished_step(estimator_.model_dir, global_step_);
  }
}

}  // namespace

std::optional<int64_t> detail::finished_step(const std::string& model_dir) {
  const std::string path = join_path(model_dir, kFinishedFile);
  if (!file_system_of(path).info(path)) return std::nullopt;
  return Json::parse(read_file(path)).at("global_step").as_int();
}

void Estimator::Impl::train(Strategy& strategy, const InputFn& input_fn,
                            const TrainOptions& train_options) {
  STRATA_CHECK(!train_options.steps || !train_options.max_steps, kInvalidArgument,
               "[estimator] train: got both steps and max_steps; pass one of them");
  STRATA_CHECK(train_options.steps.value_or(1) > 0, kInvalidArgument,
               "[estimator] train: got steps ", *train_options.steps, "; expected steps > 0");
  STRATA_CHECK(train_options.max_steps.value_or(1) > 0, kInvalidArgument,
               "[estimator] train: got max_steps ", *train_options.max_steps,
               "; expected max_steps > 0");
  const std::string& task = options.config.task_type();
  STRATA_CHECK(task != "evaluator" && task != "ps", kFailedPrecondition,
               "[estimator] train: this process is the cluster's ", task,
               ", which does not train; call train_and_evaluate in each process");
  if (train_options.max_steps) {
    const auto checkpoint = latest_checkpoint();
    if (checkpoint && detail::step_of_checkpoint(*checkpoint) >= *train_options.max_steps) return;
  }
  detail::with_other_processes(
      strategy, [&] { TrainSession(*this, strategy, input_fn, train_options).run(); });
}

}  // namespace strata::estimator
