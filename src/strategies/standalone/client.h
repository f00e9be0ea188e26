#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "graph/remote/step_runner.h"
#include "runtime/replica_group.h"
#include "strata/runtime/replica_context.h"
#include "strata/strategies/server_dataset.h"
#include "strategies/standalone/remote_state.h"
#include "strategies/standalone/server_connections.h"
#include "strategies/standalone/stand_ins.h"

namespace strata::standalone {

/// What a client's strategy does with its servers. Its group has all replicas, with variables and
/// optimizers as in a program that trains by itself: they are what steps are recorded with, and what a
/// fetch writes the servers' values to.
///
/// A step is sent once, with the tensors that it reads and writes; each call of it then sends inputs and
/// learning rates, and receives outputs. If a connection fails, the next call resumes the session; a
/// run whose outcome was on its way is asked for again, and not made again.
/// Threads: any, one at a time; `run_step` by all replicas together.
class StandaloneClient final : public graph::StepRunner, public RunObserver {
 public:
  using Settings = ServerConnections::Settings;

  /// Connects, and begins or resumes a session.
  explicit StandaloneClient(Settings settings) : servers_(std::move(settings)) {}

  std::string session() const { return servers_.session(); }
  uint64_t runs() const { return servers_.runs(); }
  int num_servers() const { return static_cast<int>(servers_.num_workers()); }
  int num_parameter_servers() const { return static_cast<int>(servers_.num_parameter_servers()); }
  size_t num_replicas() const { return servers_.num_replicas(); }

  void fetch();
  void push();
  /// Ends the session on the servers.
  void close();
  /// Its elements stand for what the servers read.
  data::Dataset describe(const ServerDatasetOptions& options);

  std::vector<at::Tensor> run_step(const std::shared_ptr<const graph::Trace>& trace,
                                   const std::vector<at::Tensor>& inputs) override;
  void on_run_begin(int local) override;
  void on_run_end(int local) override;

 private:
  /// A replica's part in a call.
  struct Visit {
    std::shared_ptr<const graph::Trace> trace;
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;
  };
  /// What the servers know of one.
  struct Step {
    RemoteState::Traces traces;
    std::vector<size_t> updates;
    int64_t number = -1;
  };

  void run_together(const std::vector<Visit*>& visits);
  std::vector<std::vector<InputSource>> take_inputs(const std::vector<Visit*>& visits) const;
  Step& step_of(const std::vector<Visit*>& visits);
  void add(Step& step);
  std::vector<std::vector<std::string>> graphs_of_workers(Step& step);
  int64_t updates_per_run() const;

  Mutex mutex_;  // calls take turns
  ServerConnections servers_;
  RemoteState state_{servers_};
  bool stale_ STRATA_GUARDED_BY(mutex_) = false;  // the servers have run since the last fetch
  std::vector<Step> steps_;
  const std::shared_ptr<StandIns> stand_ins_ = std::make_shared<StandIns>();
};

}  // namespace strata::standalone
