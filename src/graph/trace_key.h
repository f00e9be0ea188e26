#pragma once

#include <c10/core/DispatchKey.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace strata::graph {

/// The dispatch key of a trace: below autograd and autocast, above the replicas' own operators
/// (kernels::kReplicaKey) and every device's. libtorch keeps it for functorch's transformations, which
/// C++ programs have no way into.
inline constexpr c10::DispatchKey kTraceKey = c10::DispatchKey::FuncTorchDynamicLayerBackMode;

/// Registers the recording of every operator that there is, also of those that libraries have brought
/// since the last call. Cost: about 30 ms once, then 0.2 ms.
void register_trace_kernels();

/// Whether that was called: later calls are cheap.
bool has_trace_kernels();

/// While it lives, this thread's operators are recorded.
class TraceKeyGuard {
 public:
  TraceKeyGuard() : include_(kTraceKey) {}

 private:
  c10::impl::IncludeDispatchKeyGuard include_;
};

/// While it lives, this thread calls what backward passes call: libtorch's engine has a thread of its own for
/// each GPU, on which no step is recorded. Where gradients meet, it may add them in another order.
class OneAutogradThread {
 public:
  OneAutogradThread();
  ~OneAutogradThread();
  OneAutogradThread(const OneAutogradThread&) = delete;
  OneAutogradThread& operator=(const OneAutogradThread&) = delete;

 private:
  bool before_;
};

class Layouts;

/// While it lives, this thread's operators are computed, and `layouts` sees how their results lie.
class ObserveLayoutsGuard {
 public:
  explicit ObserveLayoutsGuard(Layouts& layouts);
  ~ObserveLayoutsGuard();
  ObserveLayoutsGuard(const ObserveLayoutsGuard&) = delete;
  ObserveLayoutsGuard& operator=(const ObserveLayoutsGuard&) = delete;

 private:
  Layouts* before_;
  OneAutogradThread autograd_;
  c10::impl::IncludeDispatchKeyGuard include_;
};

/// While it lives, this thread's operators are computed as they are without a trace.
/// @param replica_kernels  false: nor by the replicas' own kernels.
class NoTraceGuard {
 public:
  explicit NoTraceGuard(bool replica_kernels = true);

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
};

}  // namespace strata::graph
