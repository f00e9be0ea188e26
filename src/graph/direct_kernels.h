#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string_view>
#include <vector>

#include "strata/core/export.h"

namespace strata::graph {

/// An operator of a graph as a kernel sees it that writes into memory that its results have already:
/// prepared once, called in every run.
class DirectCall {
 public:
  /// Argument `i`; undefined: none was given.
  const at::Tensor& tensor(size_t i) const { return *arguments[i].tensor; }
  std::optional<at::Tensor> optional_tensor(size_t i) const {
    return tensor(i).defined() ? std::optional(tensor(i)) : std::nullopt;
  }
  const c10::IValue& number(size_t i) const { return *arguments[i].number; }
  /// Result `i`; undefined: nothing reads it.
  const at::Tensor& result(size_t i) const { return *results[i]; }

  struct Argument {
    const at::Tensor* tensor;
    const c10::IValue* number;
  };
  std::vector<Argument> arguments;
  std::vector<const at::Tensor*> results;  ///< Of an operator that writes an argument: none.
};

/// @return False, and has written nothing: the operator is to be called instead.
using DirectKernel = bool (*)(const DirectCall& call);

/// What a direct kernel is good for.
struct DirectRow {
  DirectKernel kernel = nullptr;
  /// It has the bits of the kernel that replica functions run, which for this operator is not
  /// libtorch's.
  bool of_replicas = false;
};

/// For a module above this one, when its library is loaded.
/// @param name  An operator's, as a node has it; the program's life long.
STRATA_API void register_direct_kernel(std::string_view name, const DirectRow& row);

struct DirectKernelRegistration {
  DirectKernelRegistration(std::string_view name, const DirectRow& row) {
    register_direct_kernel(name, row);
  }
};

/// For an operator called by this thread, as it is set up. Null: none. Portable bits have none.
DirectKernel direct_kernel(std::string_view name);

}  // namespace strata::graph
