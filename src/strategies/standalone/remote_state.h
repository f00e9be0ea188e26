#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/remote/step_graph.h"
#include "graph/remote/step_runner.h"
#include "optim/step/shipped_update.h"
#include "strata/runtime/variable.h"
#include "strategies/standalone/messages.h"
#include "strategies/standalone/server_connections.h"

namespace strata::standalone {

/// The tensors and optimizers of a client that its servers have, too, and what brings their values
/// from one side to the other. Both sides number them in the order in which steps have brought them.
/// Threads: one at a time.
class RemoteState {
 public:
  using Traces = std::vector<std::shared_ptr<const graph::Trace>>;  ///< A step's, by replica.
  /// How much there was of it.
  struct Mark {
    size_t tensors;
    size_t updates;
    std::map<std::vector<const void*>, size_t> memories;
  };

  explicit RemoteState(ServerConnections& servers) : servers_(servers) {}

  // What a step that is sent for the first time brings.
  Mark mark() const { return {tensors_.size(), updates_.size(), memories_}; }
  void roll_back(const Mark& mark);
  /// The number of an optimizer's update. @throws Error  kUnimplemented: servers cannot make it.
  size_t update_of(const graph::Node& node);
  /// Where the servers have a value that a replica's step reads or writes.
  /// @throws Error  kUnimplemented: all replicas write one tensor.
  graph::remote::StatePlace place_of(const Traces& traces, size_t value, int replica);
  std::vector<StateSpec> tensor_specs() const;
  const std::vector<UpdateSpec>& update_specs() const { return update_specs_; }
  /// Sends the elements of the tensors that servers do not have. @param replies  Of kAdd.
  void send_new(const std::vector<Reply>& replies);
  /// After `send_new` and the servers' second replies. What they had before is the session's, once it
  /// has run; all else is the client's. @param reply  The first one's, before it had the new tensors.
  void make_equal(const Mark& mark, const Reply& reply);

  // Between runs.
  /// Sends what the program has written since the servers got it.
  void push_changed();
  void push_all();
  /// Fetches what steps write.
  void fetch_written();

  // Of a run.
  std::vector<double> next_rates() const;
  /// @param updates  Of the step that the servers have run, each `times` times.
  void count_finished(const std::vector<size_t>& updates, int64_t times);

 private:
  struct Tensor {
    StateSpec spec;
    std::optional<Variable> variable = {};  // trained
    std::vector<at::Tensor> replicas = {};  // else: the memory, by replica
    bool written = false;                   // by a step
    bool constant = false;
    // When it was last the same here and on the servers.
    std::vector<int64_t> versions = {};
    std::string contents = {};
  };

  size_t memory_of(const Traces& traces, size_t value);
  std::vector<at::Tensor> values_on(size_t worker, const Tensor& tensor) const;
  std::vector<size_t> all_updates() const;
  void push(const std::vector<size_t>& tensors, const std::vector<size_t>& updates);
  void fetch(const std::vector<size_t>& tensors, const std::vector<size_t>& updates);
  std::vector<int64_t> versions_of(const Tensor& tensor) const;
  static std::string contents_of(const Tensor& tensor);
  void note_equal(Tensor& tensor) const;
  bool has_changed(Tensor& tensor) const;

  ServerConnections& servers_;
  std::vector<Tensor> tensors_;
  std::map<std::vector<const void*>, size_t> memories_;  // by the storages of all replicas
  std::vector<std::shared_ptr<optimizers::ShippedUpdate>> updates_;
  std::vector<UpdateSpec> update_specs_;
};

}  // namespace strata::standalone
