#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "graph/executor.h"
#include "graph/remote/step_runner.h"
#include "pjrt/client.h"
#include "strata/runtime/replica_context.h"
#include "strategies/tpu/device_memory.h"
#include "strategies/tpu/update_nodes.h"

namespace strata::tpu {

/// Runs the steps of a strategy's replicas on a plugin's devices, one each. A step is compiled once; what it
/// reads and writes stays on the devices (DeviceMemory). Steps without results wait for each other, and are one
/// run of a loop on the devices: those of one `Strategy::run`, such as fit's steps_per_execution.
///
/// A step whose parts of the batch are of different sizes has no program for all devices: the replicas compute
/// it here.
///
/// A run is started, and not waited for: the next one's inputs are copied to the devices meanwhile, and what it reads of
/// the state are the results of the one before, which the plugin waits for. This process waits when it reads something, or
/// where too many runs have not ended; an error of a run comes then, with the run's number.
/// Threads: `run_step` by all replicas together.
class TpuRunner final : public graph::StepRunner, public RunObserver {
 public:
  struct Settings {
    const char* name = "tpu_strategy";  ///< For errors.
    int num_replicas = 1;
    uint64_t seed = 0;
    std::chrono::milliseconds timeout = pjrt::kDefaultTimeout;  ///< Of a wait for a run.
    size_t runs_in_flight = 2;  ///< Runs that have not ended, at most.
  };

  TpuRunner(pjrt::Client client, const Settings& settings);

  /// Copies what runs have written to this process. Outside `run`.
  void fetch();
  /// Runs the steps that wait, and then the same.
  void finish();
  /// How many programs were compiled.
  int64_t programs() const;
  /// How many runs had their inputs on the devices before the run before them had ended.
  int64_t runs_ahead() const;

  bool takes_apart() const override { return true; }
  std::vector<at::Tensor> run_step(const std::shared_ptr<const graph::Trace>& trace,
                                   const std::vector<at::Tensor>& inputs) override;
  void on_run_begin(int local) override;
  void on_run_end(int local) override;

 private:
  using Traces = std::vector<std::shared_ptr<const graph::Trace>>;
  /// By replica, then as the graph's.
  using Lists = std::vector<std::vector<at::Tensor>>;
  struct Visit {
    std::shared_ptr<const graph::Trace> trace;
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs = {};
    bool here = false;  // the replica computes it itself
  };
  struct Program {
    graph::stablehlo::LoweredGraph lowered;
    pjrt::Executable executable;
    std::vector<size_t> pieces;  // by parameter
  };
  struct Step {
    Traces traces;
    CompilableStep compilable;
    std::map<int64_t, Program> programs;                // by number of steps
    std::vector<std::unique_ptr<pjrt::Buffer>> random;  // by replica
  };

  /// A run that was started.
  struct Started {
    std::string name;
    std::vector<pjrt::Event> ended;  // by replica
    // What it reads: XLA's plugin waits for a run before it frees a buffer that the run has.
    std::vector<std::vector<pjrt::Buffer>> inputs;
    std::vector<DeviceMemory::Buffers> states = {};
  };

  void run_together(const std::vector<Visit*>& visits);
  void note_restored(const Step& step) STRATA_REQUIRES(mutex_);
  Step& step_of(Traces traces) STRATA_REQUIRES(mutex_);
  Program& program_of(Step& step, int64_t steps) STRATA_REQUIRES(mutex_);
  HostPlace host_of(const Step& step, const graph::stablehlo::Parameter& parameter) const;
  Lists run(Step& step, const std::vector<Lists>& inputs) STRATA_REQUIRES(mutex_);
  void flush() STRATA_REQUIRES(mutex_);
  void wait_for_runs(size_t left) STRATA_REQUIRES(mutex_);
  void fetch_now() STRATA_REQUIRES(mutex_);
  graph::Executor& executor_of(const std::shared_ptr<const graph::Trace>& trace);

  const pjrt::Client client_;
  const Settings settings_;
  mutable Mutex mutex_;
  DeviceMemory memory_ STRATA_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Step>> steps_ STRATA_GUARDED_BY(mutex_);
  Step* waiting_step_ STRATA_GUARDED_BY(mutex_) = nullptr;
  std::vector<Lists> waiting_ STRATA_GUARDED_BY(mutex_);  // inputs of steps that are to be run
  // Of each optimizer, ShippedUpdate::finished after the last run.
  std::map<const optimizers::ShippedUpdate*, int64_t> finished_ STRATA_GUARDED_BY(mutex_);
  std::deque<Started> started_ STRATA_GUARDED_BY(mutex_);  // that no wait has seen the end of
  int64_t runs_ STRATA_GUARDED_BY(mutex_) = 0;
  int64_t runs_ahead_ STRATA_GUARDED_BY(mutex_) = 0;
  std::map<const graph::Trace*, std::unique_ptr<graph::Executor>> executors_
      STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::tpu
