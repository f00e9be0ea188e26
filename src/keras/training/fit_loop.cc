#include "keras/training/fit_loop.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <unistd.h>

#include <algorithm>

#include "keras/call_context.h"
#include "keras/training/default_callbacks.h"
#include "keras/training/step_graphs.h"
#include "keras/training/trace_spans.h"
#include "optim/losses/batch_rows.h"
#include "runtime/replica_group.h"
#include "strata/checkpoint/preemption.h"
#include "strata/core/log.h"
#include "strata/keras/callbacks/backup_and_restore.h"
#include "strata/runtime/stop_consensus.h"

namespace strata::keras::detail {
namespace {

using data::Dataset;
using Element = DistributedDataset::Element;

DistributedDataset distributed(const Model& model, const Dataset& data, int64_t prefetch) {
  return model->strategy().distribute(data, {.prefetch = prefetch});
}

/// What is not training: of workers that step by themselves, each passes through all of it.
DistributedDataset without_sharding(const Model& model, const Dataset& data, int64_t prefetch) {
  const ReplicaGroup& group = model->strategy().group();
  const bool apart = group.communicator() == nullptr && group.workers().count > 1;
  if (!apart) return distributed(model, data, prefetch);
  return distributed(model, data.with_options({.auto_shard_policy = data::AutoShardPolicy::kOff}),
                     prefetch);
}

template <typename Call, typename... Arguments>
void tell(const Callbacks& callbacks, Call call, Arguments&&... arguments) {
  for (const callbacks::CallbackRef& each : callbacks) ((*each).*call)(arguments...);
}

/// Makes the model fit for the data, by the first batch.
void prepare(const Model& model, BatchFeed& feed) {
  Trainer& trainer = model->trainer();
  if (trainer.prepared()) return;
  const auto first = feed.peek();
  STRATA_CHECK(first.has_value(), kInvalidArgument, "[keras] Model '", model.name(),
               "': the dataset is empty");
  trainer.prepare(first->get(0));
}

/// Which rows of the batch a replica has: parts are cut one after the other.
losses::BatchRows rows_of_part(const Model& model, const Element& parts, int replica) {
  const auto* const communicator = model->strategy().group().communicator();
  losses::BatchRows rows{.count = parts.get(replica).num_rows(),
                         .worker = communicator == nullptr ? -1 : communicator->rank()};
  for (int before = 0; before < replica; ++before) rows.first += parts.get(before).num_rows();
  return rows;
}

/// The training or test step of each batch, for all of `batches` in one `run`.
void execute(const Model& model, const BatchFeed::Parts& batches, bool training,
             summary::TraceRecorder* trace) {
  Trainer& trainer = model->trainer();
  StepGraphs& graphs = model->graphs();
  graphs.prepare();
  const TraceSpansGuard spans(trace);
  model->strategy().run(CallsOfSteps{[&] {
    const SpanObserverScope scope(spans.get());
    const int replica = get_replica_context()->local_replica();
    Tensors added;
    const CallContextGuard context(
        {.training = training, .decided = true, .losses = &added, .trace = trace});
    const at::AutoGradMode gradients(training);
    const StepGraphs::Step step = [&](const data::Example& part) {
      const Batch batch = trainer.unpack(part);
      training ? model->train_step(batch) : model->test_step(batch);
      added.clear();
      return Tensors();
    };
    for (const Element& parts : batches) {
      added.clear();
      const losses::BatchRowsGuard rows(rows_of_part(model, parts, replica));
      const summary::TraceRecorder::Scope span(trace, training ? "train_step" : "test_step");
      graphs.call(training ? StepKind::kTrain : StepKind::kTest, parts.get(replica), step);
    }
  }});
}

int64_t known_steps(int64_t cardinality, int64_t asked) {
  if (asked > 0) return cardinality >= 0 ? std::min(asked, cardinality) : asked;
  return cardinality >= 0 ? cardinality : Dataset::kUnknown;
}

/// Over all replicas, those of other processes, too.
int64_t reduce(const Model& model, ReduceOp op, std::vector<int64_t> values) {
  return model->strategy().reduce(op, PerReplica<int64_t>(std::move(values)));
}

/// The largest value that a process has.
int64_t all_reduce_max(const Model& model, int64_t local) {
  const ReplicaGroup& group = model->strategy().group();
  if (group.communicator() == nullptr) return local;
  return reduce(model, ReduceOp::kMax,
                std::vector<int64_t>(static_cast<size_t>(group.num_local_replicas()), local));
}

std::vector<callbacks::BackupAndRestore*> backups(const Callbacks& callbacks) {
  std::vector<callbacks::BackupAndRestore*> found;
  for (const callbacks::CallbackRef& each : callbacks) {
    if (auto* backup = dynamic_cast<callbacks::BackupAndRestore*>(&*each)) found.push_back(backup);
  }
  return found;
}

bool has_backup(const Callbacks& callbacks) { return !backups(callbacks).empty(); }

/// However a run ends, its callbacks take no signals afterwards, and wait for no other worker.
class CallbackRelease {
 public:
  explicit CallbackRelease(const Callbacks& callbacks) : callbacks_(callbacks) {}
  ~CallbackRelease() {
    for (callbacks::BackupAndRestore* backup : backups(callbacks_)) backup->release_signal();
  }
  CallbackRelease(const CallbackRelease&) = delete;
  CallbackRelease& operator=(const CallbackRelease&) = delete;

 private:
  const Callbacks& callbacks_;
};

int64_t rows_of(const Model& model, const Element& parts) {
  std::vector<int64_t> rows;
  for (const data::Example& part : parts.values()) rows.push_back(part.num_rows());
  return reduce(model, ReduceOp::kSum, std::move(rows));
}

/// The callbacks of several processes need not look at a batch's logs alike, so what they may look
/// at is worked out by all of them.
Logs batch_logs(Trainer& trainer, bool shared) {
  if (shared) return trainer.shared_results();
  return Logs([&trainer] { return trainer.results(); });
}

bool shares_logs(const Model& model, const Callbacks& callbacks) {
  return model->strategy().group().communicator() != nullptr &&
         all_reduce_max(model, callbacks.empty() ? 0 : 1) > 0;
}

/// Keras's warning: there were fewer batches than asked for.
void warn_of_end(const char* call, const std::string& where, int64_t batches, int64_t asked) {
  STRATA_LOG(kWarning) << "[keras] " << call << ": the data ended after " << batches << " of "
                       << asked << " batches" << (where.empty() ? "" : " of ") << where
                       << "; repeat() the dataset, or ask for fewer steps";
}

void check_length(const Model& model, int64_t steps_per_execution, int64_t cardinality,
                  int64_t asked, const char* call) {
  STRATA_CHECK(cardinality != Dataset::kInfinite || asked > 0, kInvalidArgument, "[keras] ", call,
               ": the dataset is endless; pass the number of batches (steps)");
  STRATA_CHECK(steps_per_execution == 1 || cardinality != Dataset::kUnknown || asked > 0,
               kInvalidArgument, "[keras] Model '", model.name(), "': ", call,
               " with steps_per_execution=", steps_per_execution,
               " needs to know the number of batches, and the dataset does not state it; pass "
               "steps_per_epoch (steps)");
}

}  // namespace

Logs one_batch(const Model& model, const data::Example& batch, bool training) {
  BatchFeed feed(without_sharding(model, Dataset::from_tensors(batch), 0), false);
  prepare(model, feed);
  model.reset_metrics();
  execute(model, feed.next(1, true), training, nullptr);
  return Logs(model->trainer().results());
}

void fail_step(const Model& model) {
  try {
    throw;
  } catch (const Preempted&) {
  } catch (const MembershipChanged&) {
  } catch (...) {
    model->strategy().group().fail_step(Status::from_current_exception());
  }
}

History fit(const Model& model, const Dataset& data, FitOptions options) {
  Strategy& strategy = model->strategy();
  if (!strategy.is_elastic() || !has_backup(options.callbacks)) {
    if (strategy.is_elastic()) {
      STRATA_LOG(kWarning) << "[keras] fit: the strategy is elastic, and without a "
                              "BackupAndRestore callback there is nothing to go on from when a "
                              "worker is lost; add one";
    }
    FitLoop loop(model, data, std::move(options));
    return with_other_workers(model, [&] { return loop.run(); });
  }
  // Who comes late finds a backup.
  bool backed_up = strategy.group().options().late_joiner;
  while (true) {
    try {
      FitLoop loop(model, data, options);
      return with_other_workers(model, [&] { return loop.run(&backed_up); });
    } catch (const Error& error) {
      if (!backed_up || !strategy.recover(error)) throw;
      model->graphs().forget();  // they have the replicas of before
    }
  }
}

ScopedCallbacks::ScopedCallbacks(const Callbacks& callbacks, TrainingRun& run)
    : callbacks_(callbacks) {
  for (const callbacks::CallbackRef& each : callbacks_) each->set_run(&run);
}
ScopedCallbacks::~ScopedCallbacks() {
  for (const callbacks::CallbackRef& each : callbacks_) each->set_run(nullptr);
}

int verbosity(const Model& model, int verbose) {
  if (!model->strategy().is_chief()) return 0;
  if (verbose != kVerboseAuto) return verbose;
  return ::isatty(STDOUT_FILENO) != 0 ? 1 : 2;
}

/// Where a run is, for checkpoints.
class FitLoop::Place final : public Trackable {
 public:
  explicit Place(FitLoop& loop) : loop_(loop) {}

  ObjectState state() override {
    ObjectState state;
    state.continues_run = true;
    const auto number = [&](const char* name, int64_t& value) {
      state.values.push_back({.name = name,
                              .read = [&value] { return CheckpointValue(value); },
                              .write =
                                  [&value](const CheckpointValue& to) {
                                    value = strata::detail::checkpoint_value<int64_t>(to);
                                  }});
    };
    number("epoch", loop_.epoch_);
    number("batch", loop_.batch_);
    number("train_steps", loop_.train_steps_);
    state.values.push_back({.name = "input",
                            .read = [this] { return CheckpointValue(loop_.feed_.position()); },
                            .write =
                                [this](const CheckpointValue& to) {
                                  loop_.feed_.restore(
                                      strata::detail::checkpoint_value<std::string>(to));
                                }});
    state.values.push_back({.name = "history",
                            .read = [this] { return CheckpointValue(write_history()); },
                            .write =
                                [this](const CheckpointValue& to) {
                                  read_history(strata::detail::checkpoint_value<std::string>(to));
                                }});
    return state;
  }

 private:
  // Doubles as hexadecimal text: JSON's are not exact for infinities and NaN.
  std::string write_history() const {
    Json json = Json::object();
    const auto text = [](double value) {
      char buffer[40];
      std::snprintf(buffer, sizeof buffer, "%a", value);
      return std::string(buffer);
    };
    Json epochs = Json::array();
    for (int64_t epoch : loop_.history_.epoch) epochs.push_back(epoch);
    Json values = Json::object();
    for (const auto& [name, all] : loop_.history_.history) {
      Json list = Json::array();
      for (double value : all) list.push_back(text(value));
      values.set(name, std::move(list));
    }
    json.set("epoch", std::move(epochs));
    json.set("history", std::move(values));
    return json.dump();
  }

  void read_history(const std::string& text) {
    const Json json = Json::parse(text);
    History history;
    for (const Json& epoch : json.at("epoch").as_array()) history.epoch.push_back(epoch.as_int());
    for (const auto& [name, list] : json.at("history").as_object()) {
      for (const Json& value : list.as_array()) {
        history.history[name].push_back(std::strtod(value.as_string().c_str(), nullptr));
      }
    }
    loop_.history_ = std::move(history);
  }

  FitLoop& loop_;
};

FitLoop::FitLoop(Model model, const Dataset& data, FitOptions options)
    : TrainingRun(std::move(model)),
      options_(std::move(options)),
      trainer_(model_->trainer()),
      callbacks_(options_.callbacks),
      feed_(distributed(model_, data, options_.prefetch), options_.steps_per_epoch > 0),
      place_(std::make_shared<Place>(*this)) {
  STRATA_CHECK(options_.epochs >= 0 && options_.initial_epoch >= 0, kInvalidArgument,
               "[keras] fit: got epochs=", options_.epochs,
               ", initial_epoch=", options_.initial_epoch, "; expected 0 or more");
  STRATA_CHECK(options_.validation_freq >= 1, kInvalidArgument,
               "[keras] fit: got validation_freq=", options_.validation_freq,
               "; expected 1 or more");
  check_length(model_, trainer_.options().steps_per_execution, feed_.cardinality(),
               options_.steps_per_epoch, "fit");
  epochs_ = options_.epochs;
  epoch_ = options_.initial_epoch;
  steps_ =
      options_.steps_per_epoch > 0 ? options_.steps_per_epoch : known_steps(feed_.cardinality(), 0);
  verbose_ = verbosity(model_, options_.verbose);
  add_default_callbacks(callbacks_, verbose_);
  shares_logs_ = shares_logs(model_, callbacks_);
}

std::vector<std::pair<std::string, Tracked>> FitLoop::state() {
  std::vector<std::pair<std::string, Tracked>> all = trainer_.state();
  all.emplace_back("run", Tracked(std::static_pointer_cast<Trackable>(place_)));
  std::vector<std::pair<std::string, Tracked>> callbacks;
  // The user's, not the progress bar that the chief alone may have.
  for (size_t i = 0; i < options_.callbacks.size(); ++i) {
    auto state = options_.callbacks[i]->state();
    if (!state.empty()) callbacks.emplace_back(std::to_string(i), Tracked(std::move(state)));
  }
  if (!callbacks.empty()) all.emplace_back("callbacks", Tracked(std::move(callbacks)));
  return all;
}

History FitLoop::run(bool* backed_up) {
  const ScopedCallbacks attached(callbacks_, *this);
  const CallbackRelease release(callbacks_);
  feed_.start(epoch_);
  if (epoch_ < epochs_) {
    prepare(model_, feed_);
    if (const auto first = feed_.peek()) batch_size_ = rows_of(model_, *first);
  }
  trainer_.set_class_weight(options_.class_weight);
  trainer_.reset_metrics();
  tell(callbacks_, &callbacks::Callback::on_train_begin);
  tell(callbacks_, &callbacks::Callback::on_restore);
  if (backed_up != nullptr) *backed_up = true;
  for (bool resumed = batch_ > 0; epoch_ < epochs_ && !stop_training_; resumed = false) {
    if (!resumed) trainer_.reset_metrics();
    tell(callbacks_,
         resumed ? &callbacks::Callback::on_epoch_resumed : &callbacks::Callback::on_epoch_begin,
         epoch_);
    train_epoch();
    // Stopped by a batch's callback, an epoch still ends: the callbacks and the history see it.
    end_epoch();
  }
  if (epoch_ > 0) trainer_.optimizer().finalize_variable_values();
  Logs logs = last_logs_;
  tell(callbacks_, &callbacks::Callback::on_train_end, logs);
  trainer_.set_class_weight({});
  return history_;
}

void FitLoop::train_epoch() {
  const int64_t at_once = trainer_.options().steps_per_execution;
  const int64_t limit = options_.steps_per_epoch;
  while (!stop_training_ && (limit == 0 || batch_ < limit)) {
    const auto batches =
        feed_.next(limit == 0 ? at_once : std::min(at_once, limit - batch_), batch_ == 0);
    if (batches.empty()) break;
    tell(callbacks_, &callbacks::Callback::on_train_batch_begin, batch_);
    execute(model_, batches, true, trace_);
    const auto count = static_cast<int64_t>(batches.size());
    batch_ += count;
    train_steps_ += count;
    Logs logs = batch_logs(trainer_, shares_logs_);
    tell(callbacks_, &callbacks::Callback::on_train_batch_end, batch_ - 1, logs);
    tell(callbacks_, &callbacks::Callback::on_resume_point);
    agree();
  }
  STRATA_CHECK(batch_ > 0, kInvalidArgument, "[keras] Model '", model_.name(),
               "': fit got an empty dataset in epoch ", epoch_);
  if (limit > 0 && batch_ < limit && !stop_training_) {
    warn_of_end("fit", str_cat("epoch ", epoch_), batch_, limit);
  }
  if (steps_ == Dataset::kUnknown) steps_ = batch_;
}

void FitLoop::end_epoch() {
  Logs::Values values = trainer_.results();
  if (options_.validation_data && (epoch_ + 1) % options_.validation_freq == 0) {
    for (auto& [name, value] : validate()) values.emplace_back("val_" + name, value);
  }
  Logs logs(std::move(values));
  const int64_t ended = epoch_;
  tell(callbacks_, &callbacks::Callback::on_epoch_end, ended, logs);
  agree();
  history_.epoch.push_back(ended);
  for (const auto& [name, value] : logs.values()) history_.history[name].push_back(value);
  last_logs_ = logs;
  ++epoch_;
  batch_ = 0;
  if (epoch_ < epochs_ && !stop_training_) {
    if (options_.steps_per_epoch == 0) feed_.start(epoch_);
    tell(callbacks_, &callbacks::Callback::on_resume_point);
  }
}

/// A callback of one process may have stopped the run.
void FitLoop::agree() {
  if (shares_logs_) stop_training_ = all_reduce_max(model_, stop_training_ ? 1 : 0) > 0;
}

Logs::Values FitLoop::validate() {
  // The means of training were read; validation uses the same metrics.
  trainer_.reset_metrics();
  TestLoop loop(model_, *options_.validation_data, options_.validation_steps, callbacks_, 0);
  return loop.run().values();
}

TestLoop::TestLoop(Model model, const Dataset& data, int64_t steps, Callbacks callbacks,
                   int verbose)
    : TrainingRun(std::move(model)),
      max_steps_(steps),
      callbacks_(std::move(callbacks)),
      feed_(without_sharding(model_, data, data::kAutotune), false) {
  check_length(model_, model_->trainer().options().steps_per_execution, feed_.cardinality(), steps,
               "evaluate");
  steps_ = known_steps(feed_.cardinality(), steps);
  verbose_ = verbose;
}

Logs TestLoop::run() {
  Trainer& trainer = model_->trainer();
  prepare(model_, feed_);
  trainer.reset_metrics();
  tell(callbacks_, &callbacks::Callback::on_test_begin);
  const bool shared = shares_logs(model_, callbacks_);
  const int64_t at_once = trainer.options().steps_per_execution;
  while (max_steps_ == 0 || batch_ < max_steps_) {
    const auto batches =
        feed_.next(max_steps_ == 0 ? at_once : std::min(at_once, max_steps_ - batch_), batch_ == 0);
    if (batches.empty()) break;
    tell(callbacks_, &callbacks::Callback::on_test_batch_begin, batch_);
    execute(model_, batches, false, nullptr);
    batch_ += static_cast<int64_t>(batches.size());
    Logs logs = batch_logs(trainer, shared);
    tell(callbacks_, &callbacks::Callback::on_test_batch_end, batch_ - 1, logs);
  }
  STRATA_CHECK(batch_ > 0, kInvalidArgument, "[keras] Model '", model_.name(),
               "': evaluate got an empty dataset");
  if (batch_ < max_steps_) warn_of_end("evaluate", "", batch_, max_steps_);
  Logs logs(trainer.results());
  tell(callbacks_, &callbacks::Callback::on_test_end, logs);
  return logs;
}

PredictLoop::PredictLoop(Model model, const Dataset& data, PredictOptions options)
    : TrainingRun(std::move(model)),
      options_(std::move(options)),
      at_once_(model_.compiled() == nullptr ? 1 : model_.compiled()->steps_per_execution),
      feed_(without_sharding(model_, data, data::kAutotune), false) {
  check_length(model_, at_once_, feed_.cardinality(), options_.steps, "predict");
  steps_ = known_steps(feed_.cardinality(), options_.steps);
  verbose_ = verbosity(model_, options_.verbose);
}

/// The outputs of each of `batches`, on each replica.
PredictLoop::Predictions PredictLoop::execute(const BatchFeed::Parts& batches) {
  const size_t inputs = model_->num_inputs();
  StepGraphs& graphs = model_->graphs();
  graphs.prepare();
  const StepGraphs::Step step = [&](const data::Example& part) {
    STRATA_CHECK(part.fields.size() >= inputs, kInvalidArgument, "[keras] Model '", model_.name(),
                 "': predict got elements of ", part.fields.size(), " tensors; the model has ",
                 inputs, " inputs");
    return model_->predict_step(
        {.x = {part.fields.begin(), part.fields.begin() + static_cast<long>(inputs)},
         .y = {},
         .sample_weight = {}});
  };
  return model_->strategy().run(CallsOfSteps{[&] {
    const int replica = get_replica_context()->local_replica();
    const at::NoGradGuard no_grad;
    const CallContextGuard context({.decided = true});
    std::vector<Tensors> outputs;
    for (const Element& parts : batches) {
      outputs.push_back(graphs.call(StepKind::kPredict, parts.get(replica), step));
    }
    return outputs;
  }});
}

/// Weights of a model that has none yet, by the first batch.
void PredictLoop::build(const Element& first) {
  if (model_->built()) return;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < model_->num_inputs(); ++i) {
    shapes.push_back(first.get(0)[static_cast<int64_t>(i)].sizes().vec());
    shapes.back()[0] = kNone;
  }
  model_->strategy().scope([&] { model_->ensure_built(shapes); });
}

Tensors PredictLoop::run() {
  Callbacks callbacks = options_.callbacks;
  add_default_callbacks(callbacks, verbose_);
  const ScopedCallbacks attached(callbacks, *this);
  tell(callbacks, &callbacks::Callback::on_predict_begin);
  const int64_t limit = options_.steps;
  std::vector<Tensors> outputs;  // by output, then batch
  while (limit == 0 || batch_ < limit) {
    const auto batches =
        feed_.next(limit == 0 ? at_once_ : std::min(at_once_, limit - batch_), batch_ == 0);
    if (batches.empty()) break;
    build(batches[0]);
    tell(callbacks, &callbacks::Callback::on_predict_batch_begin, batch_);
    const Predictions predictions = execute(batches);
    outputs.resize(predictions.get(0).at(0).size());
    for (size_t b = 0; b < batches.size(); ++b) {
      for (size_t o = 0; o < outputs.size(); ++o) {
        std::vector<at::Tensor> rows;
        for (const auto& parts : predictions.values()) rows.push_back(parts.at(b).at(o));
        outputs[o].push_back(model_->strategy().gather(PerReplica<at::Tensor>(std::move(rows)), 0));
      }
    }
    batch_ += static_cast<int64_t>(batches.size());
    tell(callbacks, &callbacks::Callback::on_predict_batch_end, batch_ - 1);
  }
  STRATA_CHECK(batch_ > 0, kInvalidArgument, "[keras] Model '", model_.name(),
               "': predict got an empty dataset");
  if (batch_ < options_.steps) warn_of_end("predict", "", batch_, options_.steps);
  tell(callbacks, &callbacks::Callback::on_predict_end);
  Tensors whole;
  for (const Tensors& batches : outputs) whole.push_back(at::cat(batches));
  return whole;
}

}  // namespace strata::keras::detail
