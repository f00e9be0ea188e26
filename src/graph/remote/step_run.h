#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/remote/step_graph.h"
#include "strata/core/export.h"

namespace strata::graph::remote {

/// Runs a step that check_step has accepted, again and again: the same operators as the client's
/// executor calls, in the same order, and so with the same bits. Every result is compared with what the
/// step says it is before another operator reads it.
/// Threads: one at a time.
class STRATA_API StepRun {
 public:
  /// Does a node's work that is no operator. @return As many tensors as the node has results.
  using HostRun = std::function<std::vector<at::Tensor>(const HostWork& work,
                                                        const std::vector<at::Tensor>& tensors)>;
  /// Throws when the step is to end: called before each node.
  using Watch = std::function<void()>;

  explicit StepRun(std::shared_ptr<const RemoteStep> step);

  const RemoteStep& step() const { return *step_; }

  /// @param states  The session's tensors, of this replica.
  /// @param inputs  As check_step has found them: dense, of the declared layouts.
  /// @throws Error  what an operator throws, with the node's name; kFailedPrecondition: a result
  ///   lies otherwise than the step says, since this machine's libtorch chooses another layout.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& states,
                              const std::vector<at::Tensor>& inputs, const HostRun& host,
                              const Watch& watch);

 private:
  const Graph& graph() const { return step_->graph; }
  void begin(const std::vector<at::Tensor>& states, const std::vector<at::Tensor>& inputs);
  [[noreturn]] void refuse(size_t n, std::string_view why) const;
  void call(size_t n);
  void call_host(size_t n, const HostRun& host);
  void keep(size_t n, ValueId id, const at::Tensor& tensor);
  at::Tensor& at(ValueId id) { return tensors_[static_cast<size_t>(id)]; }

  std::shared_ptr<const RemoteStep> step_;
  std::vector<std::optional<c10::OperatorHandle>> operators_;  // by node
  std::vector<bool> cleared_;                                  // by node: of memory as it comes
  std::vector<std::vector<ValueId>> dead_;                     // behind each node
  std::vector<ValueId> copied_;                                // constants that are written
  std::vector<at::Tensor> tensors_;                            // by value
};

}  // namespace strata::graph::remote
