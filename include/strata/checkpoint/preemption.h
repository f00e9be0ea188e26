#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/runtime/stop_consensus.h"

namespace strata {

class Clock;

namespace detail {
class TerminationGuard;
}

/// Thrown by `check` when the state is saved and the process is to end with `exit_code()`, so that
/// destructors run. `main` returns the code, and the launcher restarts the process.
class STRATA_API Preempted : public ExitError {
 public:
  explicit Preempted(int exit_code);
};

struct PreemptionOptions {
  int exit_code = 42;
  /// False: SIGTERM is handled elsewhere.
  bool on_sigterm = true;
  /// Called instead of throwing Preempted; it should not return.
  std::function<void(int exit_code)> exit_fn = {};
  /// The time that training continues after the first save, to save once more at the end of it.
  std::chrono::milliseconds grace_period{0};
  /// Called after each step: a cloud's notice that this machine will be stopped.
  std::function<bool()> termination_watcher = {};
  /// Null: the consensus of the workers of the saved state.
  std::shared_ptr<StopConsensus> agreement = {};
  Clock* clock = nullptr;  ///< Null: the system's; for tests.
};

/// While one exists, SIGTERM does not kill the process: after the current step the state is saved
/// and the run ends with exit code 42. One at a time; its destructor restores the old handler.
///
/// Under a strategy of several workers, SIGTERM at any of them makes all save after one step and
/// end: each has a handler, made and called in the same order. Under an elastic one a restarted
/// worker makes the others save after one step, too, and `check` throw MembershipChanged.
///
///     PreemptionCheckpointHandler handler(manager);
///     while (step < steps) {
///       handler.run(strategy, train_step, batch);     // or: strategy.run(...);
///       handler.check(++step);
///     }
///
/// Source: tf.distribute.experimental.PreemptionCheckpointHandler.
class STRATA_API PreemptionCheckpointHandler {
 public:
  explicit PreemptionCheckpointHandler(CheckpointManager& manager, PreemptionOptions options = {});
  /// Saves as `<prefix>-<number>`.
  PreemptionCheckpointHandler(Checkpoint& checkpoint, const std::string& prefix,
                              PreemptionOptions options = {});
  ~PreemptionCheckpointHandler();
  PreemptionCheckpointHandler(const PreemptionCheckpointHandler&) = delete;
  PreemptionCheckpointHandler& operator=(const PreemptionCheckpointHandler&) = delete;

  /// Call it after each step, when everything that is to be saved is up to date.
  /// @param finished_steps  Any count that grows by one a step and is the same on all workers.
  /// @throws Preempted, MembershipChanged; and as saving.
  void check(int64_t finished_steps);

  /// Calls strategy.run(fn, arguments...), then `check`, counting the calls of this process.
  template <typename Strategy, typename Fn, typename... Arguments>
  auto run(Strategy& strategy, Fn&& fn, const Arguments&... arguments) {
    if constexpr (std::is_void_v<decltype(strategy.run(fn, arguments...))>) {
      strategy.run(fn, arguments...);
      check(++calls_);
    } else {
      auto result = strategy.run(fn, arguments...);
      check(++calls_);
      return result;
    }
  }

  /// True if SIGTERM was received, or the watcher has returned true.
  bool preempted() const;
  int64_t total_run_calls() const { return calls_; }

 private:
  PreemptionCheckpointHandler(Checkpoint& checkpoint, std::function<void()> save,
                              PreemptionOptions options);
  void save_and_end();

  const std::function<void()> save_;  // returns when the state is on the medium
  const PreemptionOptions options_;
  std::shared_ptr<StopConsensus> agreement_;
  std::unique_ptr<detail::TerminationGuard> termination_;
  std::optional<std::chrono::steady_clock::time_point>
      deadline_;  // the end of the grace period, once begun
  bool noticed_ = false;
  int64_t calls_ = 0;
};

}  // namespace strata
