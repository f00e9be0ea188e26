#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace strata::graph {

/// Finds out how the results of operators lie, without computing them where possible: from the
/// operator's own kernel for the meta device, or, if it has none that can be trusted, from what was seen
/// of a call, or else from its device's kernel on zeros; each question is asked once.
/// Threads: one.
class Layouts {
 public:
  /// @param stack  The operator's arguments; then its results, in fake memory, or in an argument's.
  void results_of(const c10::OperatorHandle& op, torch::jit::Stack& stack);

  /// Calls the operator, and sees how its results lie, if that is a question for its device's kernel.
  /// @param keys  Of the call. @param stack  The arguments on its end; then the results.
  void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);

  /// Adds what `other` knows.
  void take(Layouts&& other) { known_.merge(other.known_); }

 private:
  /// A result as it lies in memory number `memory` of the call: its arguments' come first.
  struct Layout {
    bool defined = false;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    int64_t offset = 0;
    at::ScalarType dtype = at::kFloat;
    c10::Device device = c10::kCPU;
    size_t memory = 0;
    int64_t bytes = 0;  // of that memory
  };
  struct Result {
    bool list = false;
    std::vector<Layout> tensors;
  };
  using Results = std::vector<Result>;

  Results find(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) const;
  static Results on_meta(const c10::OperatorHandle& op, const torch::jit::Stack& arguments);
  static Results on_zeros(const c10::OperatorHandle& op, const torch::jit::Stack& arguments);
  static Results describe(const torch::jit::Stack& results,
                          const std::vector<at::Tensor>& arguments);

  std::map<std::string, Results> known_;
};

/// The device that a call's arguments name for its results; none: they name none.
std::optional<c10::Device> device_argument(const c10::FunctionSchema& schema,
                                           const torch::jit::Stack& arguments);

/// Calls `call(tensor)` for each tensor in `value`, also in lists; what it returns takes its place.
template <typename Call>
c10::IValue map_tensors(const c10::IValue& value, const Call& call) {
  if (value.isTensor()) return call(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector()) list.push_back(call(each));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector()) {
      list.push_back(each ? std::optional<at::Tensor>(call(*each)) : std::nullopt);
    }
    return list;
  }
  return value;
}

}  // namespace strata::graph
