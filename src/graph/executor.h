#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "graph/direct_kernels.h"
#include "graph/run_plan.h"
#include "graph/tracer.h"
#include "tensor/stream_event.h"

namespace strata::graph {

/// Runs a graph by calling its operators again, in the program's order, below autograd: the same kernels
/// on the same values, and so the same bits. What it needs is laid out once: views are tensors that stay,
/// small results lie in one block of memory a device, and kernels write them there, where they have such a
/// form. Other values are released after their last use. A step of such operators alone allocates nothing.
/// On a GPU a run is on the calling thread's current stream, behind the run before.
/// Threads: one at a time.
class Executor {
 public:
  explicit Executor(std::shared_ptr<const Trace> trace);

  const Graph& graph() const { return trace_->graph; }

  /// @param inputs  As many as the graph has, of the layouts that it was traced with.
  /// @param outputs  Are cleared first. The caller's own: later runs leave them alone while it has them.
  /// @throws what an operator throws. Error kInternal: a result lies otherwise than the trace said; only
  ///   the first run checks it.
  void run(const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& outputs);

 private:
  struct Argument {
    Operand::Kind kind = Operand::Kind::kNumber;
    ValueId value = kNoValue;
    bool last_use = false;
    c10::IValue number = {};  // of lists: one that is filled for each call
    std::vector<ValueId> values = {};
    bool optional = false;  // a list of optional tensors
  };
  /// A tensor that is a part of another one.
  struct View {
    ValueId value;
    ValueId base;
    int64_t offset;  // from where the base begins, in elements
  };
  struct Step {
    const Node* node = nullptr;
    Way way = Way::kOperator;
    std::optional<c10::OperatorHandle> op = std::nullopt;  // none: a host function
    std::vector<Argument> arguments = {};
    std::vector<Operand> results = {};  // without what is not kept
    std::vector<ValueId> dead = {};     // after this step, beyond what was moved
    std::vector<View> views = {};
    DirectKernel kernel = nullptr;
    DirectCall call = {};
    std::vector<ValueId> made = {};      // results of the kernel that get memory in each run
    std::vector<at::Tensor> given = {};  // to a host function
  };
  /// Memory of a device that all runs use.
  struct Block {
    at::Tensor memory;
    std::optional<c10::Stream> last = std::nullopt;  // of a GPU: the last run's
  };
  /// Tensors that the caller had, to be used again when it has them no longer.
  using Spare = std::array<at::Tensor, 2>;

  void lay_out();
  Step make_step(size_t n, const RunPlan& plan) const;
  void make_call(Step& step);
  void make_tensors(const RunPlan& plan);
  at::Tensor tensor_in_block(const Value& value, int64_t place) const;
  const c10::Storage& nothing_on(c10::Device device);
  void order_behind_last_run();
  void find_last_uses();
  bool stays(ValueId id) const;
  void prepare(const std::vector<at::Tensor>& inputs);
  void run_step(Step& step);
  void run_views(const Step& step);
  void run_direct(Step& step);
  void run_into(Step& step);
  void run_operator(Step& step);
  void call_operator(Step& step);
  void run_host(Step& step);
  void push(Argument& argument);
  void keep(const Operand& result, c10::IValue&& value);
  void keep(ValueId id, at::Tensor tensor);
  at::Tensor make_result(ValueId id);
  void check_layout(ValueId id, const at::Tensor& tensor) const;
  void take_outputs(std::vector<at::Tensor>& outputs);
  void set_gradients();
  void drop(ValueId id);
  void release();

  std::shared_ptr<const Trace> trace_;
  std::vector<bool> no_direct_;  // by node: a direct kernel did not take it
  bool refused_ = false;         // one did not, in this run
  std::vector<Step> steps_;
  std::vector<at::Tensor> tensors_;    // by value
  std::vector<bool> is_view_;          // by value
  std::vector<bool> stays_;            // by value: the tensor is the same in all runs
  std::vector<ValueId> released_;      // values that a run makes
  std::vector<ValueId> copied_;        // constants that are written
  std::vector<Spare> spares_;          // by output
  std::vector<Block> blocks_;          // one a device
  std::vector<c10::Storage> nothing_;  // what views are of between runs, one a device
  torch::jit::Stack stack_;
  bool checked_ = false;
};

}  // namespace strata::graph
