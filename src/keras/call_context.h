#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "keras/fusion.h"
#include "strata/summary/trace_recorder.h"

namespace strata::keras::detail {

/// What layers called on this thread are part of.
struct CallContext {
  bool training = false;
  /// Takes what `add_loss` is given; null: nobody wants it.
  std::vector<at::Tensor>* losses = nullptr;
  /// Takes what is done when; null: nobody looks.
  summary::TraceRecorder* trace = nullptr;
  /// For the layer that is called next, which takes it away.
  Fusion* fusion = nullptr;
};

CallContext& call_context();

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
