#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "graph/remote/step_graph.h"
#include "graph/remote/step_runner.h"
#include "optim/step/shipped_update.h"
#include "runtime/replica_group.h"
#include "strata/runtime/replica_context.h"
#include "strata/strategies/server_dataset.h"
#include "strata/strategies/standalone.h"
#include "strategies/standalone/messages.h"
#include "strategies/standalone/stand_ins.h"
#include "strategies/standalone/tensor_transfer.h"
#include "wire/transport.h"

namespace strata::standalone {

/// What a client's strategy does with its servers. Its group has all replicas, with variables and
/// optimizers as in a program that trains by itself: they are what steps are recorded with, and what a
/// fetch writes the servers' values to.
///
/// A step is sent once, with the tensors that it reads and writes; each call of it then sends inputs and
/// learning rates, and receives outputs. If a connection fails, all are closed, and the next call
/// resumes the session; a run whose outcome was on its way is asked for again, and not made again.
/// Threads: any, one at a time; `run_step` by all replicas together.
class StandaloneClient final : public graph::StepRunner, public RunObserver {
 public:
  struct Settings {
    StandaloneOptions options;
    std::vector<std::string> devices;  ///< Of each server.
    uint64_t seed = 0;
    std::chrono::milliseconds timeout;  ///< Of a run.
    /// Where there are parameter servers; without their addresses.
    std::optional<ParametersSpec> parameters = {};
  };

  /// Connects, and begins or resumes a session.
  explicit StandaloneClient(Settings settings);
  ~StandaloneClient() override;

  /// The group of as many replicas as the servers have.
  void set_group(ReplicaGroup& group) { group_ = &group; }

  std::string session() const;
  uint64_t runs() const { return runs_; }
  int num_servers() const { return static_cast<int>(servers_.size()); }
  int num_parameter_servers() const { return static_cast<int>(parameter_servers_.size()); }
  size_t num_replicas() const { return servers_.size() * settings_.devices.size(); }

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
  struct Server {
    wire::Address address;
    std::string token;
    std::shared_ptr<wire::Connection> connection;
    TensorTransfer transfer;
  };
  /// A tensor that the servers have, too.
  struct State {
    StateSpec spec;
    std::optional<Variable> variable;  // trained
    std::vector<at::Tensor> replicas;  // else: the memory, by replica
    bool written = false;              // by a step
    bool constant = false;
    // When it was last the same here and on the servers.
    std::vector<int64_t> versions = {};
    std::string contents = {};
  };
  struct Visit {
    std::shared_ptr<const graph::Trace> trace;
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;
  };
  using Traces = std::vector<std::shared_ptr<const graph::Trace>>;
  struct Step {
    Traces traces;
    std::vector<size_t> updates;
    int64_t number = -1;
  };

  // Connections.
  static std::vector<Server> servers_at(const std::vector<std::string>& addresses);
  void connect();
  std::vector<Server*> all_servers();
  std::vector<Reply> open(std::vector<Server>& servers, bool hold_parameters);
  void join(const std::vector<Reply>& workers, const std::vector<Reply>& parameter_servers);
  void disconnect();
  Reply receive_reply(Server& server) const;
  std::vector<Reply> receive_replies();
  void ask_all(const std::function<Request(size_t)>& request);
  wire::Deadline deadline() const { return wire::Deadline::after(settings_.timeout); }
  template <typename Call>
  void resuming(const Call& call);

  // Steps.
  std::vector<std::vector<InputSource>> take_inputs(const std::vector<Visit*>& visits) const;
  void run_together(const std::vector<Visit*>& visits);
  Step& step_of(const std::vector<Visit*>& visits);
  void describe(Step& step, std::vector<std::string>* graphs_of_server);
  size_t update_of(const graph::Node& node);
  graph::remote::StatePlace place_of(const Traces& traces, size_t value, int replica);
  size_t memory_of(const Traces& traces, size_t value);
  void add(Step& step);
  void exchange_new(const std::vector<Reply>& replies);
  void push_changed();
  void push_now(const std::vector<size_t>& states, const std::vector<size_t>& updates);
  void fetch_now(const std::vector<size_t>& states, const std::vector<size_t>& updates);
  std::vector<int64_t> versions_of(const State& state) const;
  static std::string contents_of(const State& state);
  void note_equal(State& state) const;
  bool has_changed(State& state) const;
  int64_t updates_per_run() const;
  int replicas_per_server() const { return static_cast<int>(settings_.devices.size()); }

  const Settings settings_;
  std::shared_ptr<wire::Transport> transport_;
  ReplicaGroup* group_ = nullptr;

  mutable Mutex mutex_;          // calls take turns
  std::vector<Server> servers_;  // that run steps
  std::vector<Server> parameter_servers_;
  bool connected_ = false;
  bool closed_ = false;
  uint64_t runs_ = 0;
  bool stale_ STRATA_GUARDED_BY(mutex_) = false;  // the servers have run since the last fetch
  std::vector<State> states_;
  std::map<std::vector<const void*>, size_t> memories_;  // by the storages of all replicas
  std::vector<std::shared_ptr<optimizers::ShippedUpdate>> updates_;
  std::vector<UpdateSpec> update_specs_;
  std::vector<Step> steps_;
  const std::shared_ptr<StandIns> stand_ins_ = std::make_shared<StandIns>();
};

}  // namespace strata::standalone
