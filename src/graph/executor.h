#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <optional>
#include <vector>

#include "graph/tracer.h"

namespace strata::graph {

/// Runs a graph by calling its operators again, in the program's order, below autograd: the same kernels
/// on the same values, and so the same bits. A value is released after its last use. What the executor
/// itself needs is laid out once.
/// Threads: one at a time.
class Executor {
 public:
  explicit Executor(std::shared_ptr<const Trace> trace);

  const Graph& graph() const { return trace_->graph; }

  /// @param inputs  As many as the graph has, of the layouts that it was traced with.
  /// @throws what an operator throws. Error kInternal: a result lies otherwise than the trace said; only
  ///   the first run checks it.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs);

 private:
  struct Argument {
    Operand::Kind kind = Operand::Kind::kNumber;
    ValueId value = kNoValue;
    bool last_use = false;
    c10::IValue number = {};  // of lists: one that is filled for each call
    std::vector<ValueId> values = {};
    bool optional = false;  // a list of optional tensors
  };
  struct Step {
    const Node* node = nullptr;
    std::optional<c10::OperatorHandle> op = std::nullopt;  // none: a host function
    std::vector<Argument> arguments = {};
    std::vector<Operand> results = {};  // without what is not kept
    std::vector<ValueId> dead = {};     // after this step, beyond what was moved
  };

  Step make_step(size_t n) const;
  void find_last_uses();
  void prepare(const std::vector<at::Tensor>& inputs);
  void run_operator(Step& step);
  void run_host(const Step& step);
  void push(Argument& argument);
  void keep(const Operand& result, c10::IValue&& value);
  void keep(ValueId id, at::Tensor tensor);
  void check_layout(ValueId id, const at::Tensor& tensor) const;
  std::vector<at::Tensor> take_outputs();
  void set_gradients();
  void release();

  std::shared_ptr<const Trace> trace_;
  std::vector<Step> steps_;
  std::vector<at::Tensor> tensors_;  // by value
  std::vector<ValueId> copied_;      // constants that are written
  torch::jit::Stack stack_;
  bool checked_ = false;
};

}  // namespace strata::graph
