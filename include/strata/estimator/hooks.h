#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata::summary {
class SummaryWriter;
}

namespace strata::estimator {

class RunConfig;

/// The loss of training became NaN. Source: tf.estimator.NanLossDuringTrainingError.
class STRATA_API NanLossDuringTrainingError : public Error {
 public:
  explicit NanLossDuringTrainingError(int64_t step);
};

/// A call of train, evaluate or predict, as its hooks see and steer it.
/// Source: tf.compat.v1.train.SessionRunContext and what hooks take from a session.
class STRATA_API Session {
 public:
  virtual ~Session();

  /// Steps that the model was trained for; in `after_run` with the step that just ended.
  virtual int64_t global_step() const = 0;
  virtual const RunConfig& config() const = 0;
  virtual bool is_chief() const = 0;

  /// The call ends after this step, behind all hooks' `after_run`.
  void request_stop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }

  /// Saves a checkpoint of the present step, or replaces it. In training alone; all workers call it
  /// together.
  virtual void save() = 0;
  /// For summaries of training; null: this process writes none.
  virtual summary::SummaryWriter* writer() = 0;
  /// The loss of the last step over all replicas; all workers call it together.
  virtual double loss_over_workers() = 0;
  /// The present value of a variable that is trained, or used, by its name in checkpoints;
  /// undefined: it has no such one. In training alone.
  virtual at::Tensor variable_value(const std::string& name) = 0;

 private:
  bool stop_requested_ = false;
};

/// The results of a step, in `after_run`. Reading a value waits for the step where it ran on a GPU.
class STRATA_API StepResults {
 public:
  virtual ~StepResults();
  /// Over the replicas of this process.
  virtual double loss() const = 0;
  /// Reading does not wait.
  virtual bool is_ready() const = 0;
  /// The first replica's value of ModelContext::scalar, or unset.
  virtual std::optional<double> scalar(const std::string& name) const = 0;
  virtual std::vector<std::string> scalar_names() const = 0;
  /// The first replica's tensors of ModelContext::histogram, by name.
  virtual std::vector<std::pair<std::string, at::Tensor>> histograms() const = 0;
};

/// Derive from it to look at, or to end, a call of train, evaluate or predict. Calls: `begin` when
/// the model is made, `after_create_session` when its values are restored; for each step
/// `before_run` and `after_run`; `end`. Each is called on all hooks, in their order. Where the
/// input ends there is a `before_run` without its `after_run`; after an exception no `end`. With
/// several replicas a hook is called once a process. Source: tf.estimator.SessionRunHook.
class STRATA_API SessionRunHook {
 public:
  virtual ~SessionRunHook();
  virtual void begin(Session&) {}
  virtual void after_create_session(Session&) {}
  virtual void before_run(Session&) {}
  virtual void after_run(Session&, const StepResults&) {}
  virtual void end(Session&) {}
};

/// Hears of checkpoints. Source: tf.estimator.CheckpointSaverListener.
class STRATA_API CheckpointSaverListener {
 public:
  virtual ~CheckpointSaverListener();
  virtual void begin() {}
  virtual void before_save(int64_t /*global_step*/) {}
  /// @return true: training ends (not after the first save of a call).
  virtual bool after_save(int64_t /*global_step*/) { return false; }
  virtual void end(int64_t /*global_step*/) {}
};

using Listeners = std::vector<std::shared_ptr<CheckpointSaverListener>>;

/// When something that is done at intervals is due: first at once, then `every_steps` or
/// `every_secs` behind the last time. Source: tf.estimator.SecondOrStepTimer.
class STRATA_API StepTimer {
 public:
  /// 0: not by that.
  explicit StepTimer(int64_t every_steps, double every_secs = 0)
      : every_steps_(every_steps), every_secs_(every_secs) {}

  bool is_due(int64_t step, double now) const;
  void done(int64_t step, double now);
  void reset() { last_step_.reset(); }
  std::optional<int64_t> last_step() const { return last_step_; }
  double last_time() const { return last_time_; }

 private:
  int64_t every_steps_;
  double every_secs_;
  std::optional<int64_t> last_step_;
  double last_time_ = 0;
};

struct CheckpointSaverOptions {
  int64_t save_steps = 0;  ///< Exactly one of the two.
  double save_secs = 0;
  Listeners listeners = {};
};

/// Saves when training begins, at intervals, and at the end. One among the hooks of a call of train
/// replaces the one that RunConfig describes, and gets the call's listeners, too. Source:
/// tf.estimator.CheckpointSaverHook.
class STRATA_API CheckpointSaverHook : public SessionRunHook {
 public:
  explicit CheckpointSaverHook(CheckpointSaverOptions options);
  void add_listeners(const Listeners& listeners);

  void begin(Session& session) override;
  void after_create_session(Session& session) override;
  void after_run(Session& session, const StepResults& results) override;
  void end(Session& session) override;

 private:
  bool save(Session& session);

  Listeners listeners_;
  StepTimer timer_;
};

/// Ends training after a number of steps of this call, or when the global step is reached.
/// Source: tf.estimator.StopAtStepHook.
class STRATA_API StopAtStepHook : public SessionRunHook {
 public:
  /// Exactly one of them.
  struct Options {
    std::optional<int64_t> num_steps = {};
    std::optional<int64_t> last_step = {};
  };
  explicit StopAtStepHook(const Options& options);
  void after_create_session(Session& session) override;
  void after_run(Session& session, const StepResults& results) override;

 private:
  Options options_;
  int64_t last_step_ = 0;
};

/// Ends training where the loss is NaN: by an error, or (fail_on_nan_loss = false) like any other
/// end. Looks at each step's, on GPUs at each hundredth.
/// Source: tf.estimator.NanTensorHook.
class STRATA_API NanTensorHook : public SessionRunHook {
 public:
  explicit NanTensorHook(bool fail_on_nan_loss = true) : fail_(fail_on_nan_loss) {}
  void after_run(Session& session, const StepResults& results) override;

 private:
  bool fail_;
};

/// Logs the loss and the step, at level info. Source: tf.estimator.LoggingTensorHook.
class STRATA_API LoggingTensorHook : public SessionRunHook {
 public:
  explicit LoggingTensorHook(int64_t every_n_iter);
  void begin(Session& session) override;
  void after_run(Session& session, const StepResults& results) override;

 private:
  StepTimer timer_;
  int64_t iterations_ = 0;
};

/// Writes `global_step/sec`. Source: tf.estimator.StepCounterHook.
class STRATA_API StepCounterHook : public SessionRunHook {
 public:
  explicit StepCounterHook(int64_t every_n_steps);
  void begin(Session& session) override;
  void after_run(Session& session, const StepResults& results) override;

 private:
  StepTimer timer_;
};

/// Writes the loss and ModelContext::scalar's values. Source: tf.estimator.SummarySaverHook.
class STRATA_API SummarySaverHook : public SessionRunHook {
 public:
  explicit SummarySaverHook(int64_t save_steps);
  void begin(Session& session) override;
  void after_run(Session& session, const StepResults& results) override;

 private:
  StepTimer timer_;
};

}  // namespace strata::estimator
