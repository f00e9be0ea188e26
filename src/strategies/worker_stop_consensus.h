#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/mutex.h"
#include "core/thread.h"
#include "strata/cluster/server.h"
#include "strata/runtime/stop_consensus.h"

namespace strata::detail {

/// The consensus of workers that step together. It costs nothing while there is no reason to stop:
/// a listener thread waits for a stop request from any worker (SIGTERM, or at rank 0 a worker that
/// waits to join). Then each worker proposes the earliest of its calls at which it can stop, and
/// waits there for the proposals of the others; the step is the latest of these. A worker that has
/// proposed is in a step that cannot end without the others, so no worker runs past it.
class WorkerStopConsensus final : public StopConsensus {
 public:
  /// @param number  The number of this consensus, the same in all workers.
  /// @param take_in  Stops for workers that wait to join, too.
  /// @param on_end  Called to declare that this process's end is no failure.
  WorkerStopConsensus(std::shared_ptr<cluster::Server> server, int rank, int num_workers,
                      int64_t number, bool take_in, std::function<void()> on_end);
  /// When a worker has ended, the others reach no further consensus.
  ~WorkerStopConsensus() override;

  std::optional<int64_t> agree(int64_t finished_steps, bool preempted) override;
  bool membership_changes() const override { return agreed_ && membership_changed_; }
  void end() override { on_end_(); }

 private:
  std::string key(int64_t round, const char* what, int rank) const;
  void begin_anew();
  // Not checked: no listener runs yet.
  void begin_round() STRATA_NO_THREAD_SAFETY_ANALYSIS;
  bool end_round();
  void listen();
  void broadcast_stop(const char* why) STRATA_REQUIRES(mutex_);
  void propose(int64_t step) STRATA_REQUIRES(mutex_);
  void wait_for_all();

  const std::shared_ptr<cluster::Server> server_;
  const int rank_;
  const int num_workers_;
  const int64_t number_;
  const uint64_t made_in_;  // the generation
  const bool take_in_;
  const std::function<void()> on_end_;

  Mutex mutex_;
  uint64_t generation_;
  int64_t round_ = 0;
  bool leaving_ STRATA_GUARDED_BY(mutex_) = false;
  // Why all are to stop, as this worker knows it.
  std::string told_ STRATA_GUARDED_BY(mutex_);
  std::optional<int64_t> finished_;                            // as the last call has it
  std::optional<int64_t> proposed_ STRATA_GUARDED_BY(mutex_);  // where this worker can stop
  std::optional<int64_t> agreed_;
  bool membership_changed_ = false;
  bool peer_exited_ = false;  // another worker has ended
  Thread listener_;
};

}  // namespace strata::detail
