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
#include "strata/core/clock.h"
#include "strata/core/exit_error.h"
#include "strata/core/export.h"
#include "strata/runtime/stop_consensus.h"

namespace strata {

namespace detail {
class TerminationGuard;
}

/// The state is saved and the process is to end with `exit_code()`: what `check` throws, so that
/// destructors run. `main` returns the code, and whoever started the process starts it again.
class STRATA_API Preempted : public ExitError {
 public:
  explicit Preempted(int exit_code);
};

struct PreemptionOptions {
  int exit_code = 42;
  /// Off: SIGTERM is somebody else's matter.
  bool on_sigterm = true;
  /// Called instead of throwing Preempted; it should not return.
  std::function<void(int exit_code)> exit_fn = {};
  /// How long training goes on after the first save, to save once more at the end of it.
  std::chrono::milliseconds grace_period{0};
  /// Also asked after each step: a cloud's notice that this machine will go.
  std::function<bool()> termination_watcher = {};
  /// Null: of the workers that what is saved lives in.
  std::shared_ptr<StopConsensus> agreement = {};
  Clock* clock = &Clock::system();
};

/// While it lives, SIGTERM does not kill: after the step in which it comes the state is saved and
/// the run ends with exit code 42. One at a time; restores the old handler.
///
/// Under a strategy of several workers, SIGTERM at any of them makes all save after one step and
/// end: each has a handler, made and told of steps in the same order. Under an elastic one a worker
/// that was started anew makes the others save after one step, too, and `check` throw MembershipChanged.
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
  /// Saves as `prefix`-<number>.
  PreemptionCheckpointHandler(Checkpoint& checkpoint, const std::string& prefix,
                              PreemptionOptions options = {});
  ~PreemptionCheckpointHandler();
  PreemptionCheckpointHandler(const PreemptionCheckpointHandler&) = delete;
  PreemptionCheckpointHandler& operator=(const PreemptionCheckpointHandler&) = delete;

  /// After each step, when everything that is to be saved is up to date.
  /// @param finished_steps  Any count that grows by one a step and is the same on all workers.
  /// @throws Preempted, MembershipChanged. And what saving throws.
  void check(int64_t finished_steps);

  /// strategy.run(fn, arguments...), then `check`, counting the calls of this process.
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

  /// SIGTERM came, or the watcher said so.
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
  std::optional<Clock::TimePoint> deadline_;  // of the grace period, which has begun
  bool noticed_ = false;
  int64_t calls_ = 0;
};

}  // namespace strata
