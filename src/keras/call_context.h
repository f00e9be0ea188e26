#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "keras/fusion.h"
#include "strata/summary/trace_recorder.h"

namespace strata::keras::detail {

/// What layers called on this thread are part of.
struct CallContext {
  bool training = false;
  /// A layer around, or fit, has said `training`. Else see `training_by_default`.
  bool decided = false;
  /// Takes what `add_loss` is given; null: not wanted.
  std::vector<at::Tensor>* losses = nullptr;
  /// Takes what is done when; null: no observer.
  summary::TraceRecorder* trace = nullptr;
  /// For the layer that is called next, which takes it away.
  Fusion* fusion = nullptr;
};

CallContext& call_context();

/// True inside `run`, where Strategy::run was called by a program or by fit.
bool inside_run();

/// The mode of a call that does not say it: that of the layer around; else, inside `run`, training
/// where gradients are recorded; else inference.
bool training_by_default();

/// Makes `context` this thread's while it lives.
class CallContextGuard {
 public:
  explicit CallContextGuard(const CallContext& context) : previous_(call_context()) {
    call_context() = context;
  }
  ~CallContextGuard() { call_context() = previous_; }
  CallContextGuard(const CallContextGuard&) = delete;
  CallContextGuard& operator=(const CallContextGuard&) = delete;

 private:
  CallContext previous_;
};

}  // namespace strata::keras::detail
