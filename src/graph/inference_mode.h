#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "strata/core/export.h"

namespace strata::graph {

/// True while this thread records an inference graph, which is for other programs: its operators are
/// libtorch's, and its values need not have the bits of an eager call.
STRATA_API bool tracing_inference();

/// Makes it true while it lives.
class InferenceModeGuard {
 public:
  InferenceModeGuard();
  ~InferenceModeGuard();
  InferenceModeGuard(const InferenceModeGuard&) = delete;
  InferenceModeGuard& operator=(const InferenceModeGuard&) = delete;

 private:
  bool before_;
};

/// In an inference graph, calls what the operator is made of, to be recorded in its place.
/// @param stack  The arguments on its end; then the results.
/// @return False: the operator is to be recorded itself.
bool call_decomposition(const c10::OperatorHandle& op, torch::jit::Stack& stack);

}  // namespace strata::graph
