#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/remote/step_run.h"
#include "strata/optim/optimizer.h"
#include "strata/runtime/variable.h"
#include "strata/strategies/strategy.h"
#include "strategies/standalone/budget.h"
#include "strategies/standalone/messages.h"
#include "strategies/standalone/served_dataset.h"
#include "strategies/standalone/session_strategy.h"

namespace strata::standalone {

struct WorldLimits {
  std::chrono::nanoseconds step_time = std::chrono::minutes(5);
  uint64_t graph_bytes = uint64_t{1} << 20;
  uint64_t parts = 200'000;
  size_t states = 20'000;
  size_t steps = 64;
  size_t datasets = 16;
  std::string data = {};  ///< The folder of datasets' files; empty: clients may have none.
};

/// The tensors, optimizers and steps of a session on this server, and the replicas that run them: those
/// of a strategy, as in a program. Calls marked "together" are made by all servers of the session, but
/// its parameter servers: where it has these, the others are workers that run steps by themselves, and
/// meet only to agree on what is run.
/// Threads: one, the session's.
class SessionWorld {
 public:
  /// Together. Joins the other servers.
  SessionWorld(const GroupSpec& group, const WorldLimits& limits, Budget& budget);
  ~SessionWorld();

  int replicas() const;
  size_t num_states() const { return states_.size(); }
  size_t num_updates() const { return updates_.size(); }
  uint64_t runs() const { return runs_; }

  /// Together, in any case: whether all servers are ready.
  bool agree(bool ready);

  /// What an add is to bring, checked and with memory, which only `finish_add` makes part of the
  /// session.
  struct Addition {
    std::vector<StateSpec> states = {};                  ///< New ones.
    std::vector<std::vector<at::Tensor>> elements = {};  ///< Of those, by replica, or one.
    std::vector<UpdateSpec> updates = {};
    std::vector<graph::remote::RemoteStep> graphs = {};
    std::string fingerprint = {};
    std::optional<int64_t> step = {};  ///< It is there already.
    uint64_t bytes = 0;
    /// In the order in which they are sent.
    std::vector<at::Tensor> tensors() const;
  };
  /// @throws Error  whatever is wrong with it; the session is as before.
  Addition begin_add(const Request& request);
  /// Together. @return the step's number; -1: none.
  int64_t finish_add(Addition addition);

  /// Opens a dataset, or finds the one that is the same.
  /// @throws Error  as ServedDataset; the session is as before.
  struct Description {
    std::string text;
    std::unique_ptr<ServedDataset> dataset;  // null: there is one already
    size_t number = 0;
  };
  Description begin_describe(const Request& request);
  /// Together. Keeps it.
  void finish_describe(Description description);
  const ServedDataset& dataset(size_t number) const { return *datasets_[number].dataset; }

  /// Memory for a run's inputs, replica by replica; what datasets have is undefined.
  /// @throws Error  kNotFound: no such step. kInvalidArgument: another number of rates, sources that
  ///   fit no input.
  std::vector<at::Tensor> inputs_of(const Request& request) const;
  /// Reads those. @throws Error  as ServedDataset.
  void read_inputs(const Request& request, std::vector<at::Tensor>& inputs);
  /// Together. @return the outputs, replica by replica, dense. Counts the run even if it throws.
  std::vector<at::Tensor> run(const Request& request, const std::vector<at::Tensor>& inputs);

  /// What a fetch sends, or a push brings, in order: tensors replica by replica, then slots.
  /// @throws Error  kInvalidArgument: what the session does not have.
  std::vector<at::Tensor> fetch(const Request& request) const;
  /// The same of what parameter servers have now.
  void fetch_parameters();
  std::vector<int64_t> iterations_of(const Request& request) const;
  std::vector<at::Tensor> memory_for_push(const Request& request) const;
  /// Together.
  void push(const Request& request, const std::vector<at::Tensor>& values);

  /// The other servers hear that this one leaves.
  void abandon(const std::string& why);

 private:
  struct State {
    StateSpec spec;
    std::optional<Variable> variable;
    std::vector<at::Tensor> replicas;  // of a memory: by replica, or one
  };
  struct Step {
    std::string fingerprint;
    std::vector<graph::remote::StepRun> runs;  // by replica
  };

  at::Tensor tensor_of(const State& state, int replica) const;
  const graph::Value* input_of(const Step& step, size_t input) const;
  void check_state(size_t i, const StateSpec& spec) const;
  uint64_t bytes_of_state(const StateSpec& spec) const;
  std::vector<at::Tensor> run_host(const graph::remote::HostWork& work,
                                   const std::vector<at::Tensor>& tensors);
  void apply_gradients(const graph::remote::HostWork& work, const std::vector<at::Tensor>& tensors);
  void assign(const graph::remote::HostWork& work, const at::Tensor& value);
  void check_numbers(const Request& request) const;

  const WorldLimits limits_;
  BudgetShare budget_;
  uint64_t transient_ = 0;  // of the largest step
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Strategy>
      workers_;  // that agree, where `strategy_` has this worker's replicas alone
  std::vector<State> states_;
  std::vector<UpdateSpec> update_specs_;
  std::vector<std::unique_ptr<optimizers::Optimizer>> updates_;
  std::vector<Step> steps_;
  std::vector<Description> datasets_;
  uint64_t runs_ = 0;
};

}  // namespace strata::standalone
