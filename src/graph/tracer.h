#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/host_call.h"
#include "graph/layouts.h"
#include "graph/places.h"
#include "strata/graph/graph.h"

namespace strata::graph {

/// What happens to a leaf's `.grad()` in the step, which no operator says.
struct GradientEffect {
  at::Tensor leaf;
  /// The sum of these takes the place of the earlier gradient, or is added to it. None: there is no
  /// gradient afterwards.
  std::vector<ValueId> gradients;
  bool adds = false;
};

struct Trace {
  Graph graph;
  std::vector<GradientEffect> effects;
  /// The program has a tensor of the step, beyond the results and gradients: a replay renews none.
  bool leaves_tensors = false;
  /// Of the sparse tensors that host functions take, in the order of the program: sizes that the functions have,
  /// and the graph has not.
  std::vector<std::vector<int64_t>> sparse_sizes = {};
};

/// Records a step: this thread's operators below autograd, while its function runs. Nothing is computed;
/// results are tensors with sizes and no elements. Values are told apart by (memory, offset, sizes,
/// strides, dtype), not by their objects: autograd makes copies of those without an operator. Memory
/// that the trace has not seen before is a capture.
/// Threads: the one that made it.
class Tracer {
 public:
  using Step = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

  /// Runs `step` with stand-ins for `inputs`.
  /// @param layouts  What earlier traces of the step have found.
  /// @param leaves  That an earlier trace of the step had effects on. Only if it knows them beforehand, a
  ///   trace sees whether the step adds to an earlier gradient or replaces it.
  /// @param name  Of the function, for messages.
  /// @param others_may_change  Other replicas may bring other sizes to a run.
  /// @throws Error  kFailedPrecondition: the step asks for elements of a tensor, or has another reason
  ///   why it cannot be recorded. kUnimplemented: sparse tensors; for what is compiled,
  ///   exported or sent elsewhere, tensors on a GPU.
  static Trace trace(const std::string& name, const std::vector<at::Tensor>& inputs,
                     const Step& step, Layouts& layouts, const std::vector<at::Tensor>& leaves = {},
                     bool others_may_change = false);

  /// This thread's.
  /// @throws Error  kInternal: it has none.
  static Tracer& current();
  static bool active();

  bool others_may_change() const { return others_may_change_; }

  void record(const c10::OperatorHandle& op, torch::jit::Stack& stack);

  std::vector<at::Tensor> record_host(std::string_view name, const std::vector<at::Tensor>& inputs,
                                      const std::vector<HostResult>& layouts, HostFunction function,
                                      const std::vector<double>& numbers, HostInputs held,
                                      std::weak_ptr<HostSubject> subject);

  /// @throws Error  kFailedPrecondition: always; with the function's name, the last operator, and the line of
  ///   the program.
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const;

 private:
  enum class Origin { kStep, kProgram, kNumbers };
  struct Memory {
    /// Weak: code that writes in place what nothing else has (a gradient) finds the owners of eager steps.
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    Origin origin;
    std::vector<ValueId> values;
  };

  Tracer(const std::string& name, Layouts& layouts);
  [[noreturn]] void refuse_at(const std::string& place, const std::string& what,
                              const std::string& hint) const;

  ValueId value_of(const at::Tensor& tensor);
  ValueId add_value(const at::Tensor& tensor, ValueKind kind, Memory& memory);
  ValueId find(const Memory& memory, const at::Tensor& tensor) const;
  ValueId derive(Memory& memory, const at::Tensor& tensor);
  Memory& memory_of(const at::Tensor& tensor, Origin origin);
  Operand operand_of(const c10::IValue& value);
  Operand result_of(const c10::IValue& value, bool& is_new);
  void write(Node& node, const c10::IValue& value);
  void add_node(Node node, const torch::jit::Stack& results);
  void check_arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const;
  bool compares_with_itself(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  bool keeps_real(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  void expect_gradient(const at::Tensor& leaf);
  void note_leaf(const at::Tensor& tensor);
  void finish(const std::vector<at::Tensor>& outputs);
  GradientEffect effect_on_expected(const at::Tensor& leaf, const at::Tensor& earlier);
  void put_gradients_back();
  bool leaves_tensors() const;

  Trace trace_;
  Places places_;
  Layouts& layouts_;
  bool others_may_change_ = false;
  std::unordered_map<c10::StorageImpl*, Memory> memories_;
  struct Leaf {
    at::Tensor tensor;
    at::Tensor before;   // its gradient
    at::Tensor earlier;  // the stand-in for that; undefined: not expected
  };
  std::vector<Leaf> leaves_;
};

}  // namespace strata::graph
