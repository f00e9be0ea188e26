// What hangs on the key of a trace: one kernel, which records, for every operator.
#include "graph/trace_key.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <unordered_set>
#include <vector>

#include "core/mutex.h"
#include "graph/layouts.h"
#include "graph/tracer.h"
#include "kernels/dispatch_key.h"
#include "kernels/portable/portable_bits.h"

namespace strata::graph {
namespace {

thread_local Layouts* this_threads_layouts = nullptr;

bool may_be_composition(const c10::OperatorHandle& op) {
  return op.schema().name() != "aten::max_pool1d" &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
         !op.hasKernelForDispatchKey(kernels::kReplicaKey);
}

/// Whether an operator that has a kernel of its own only on GPUs is called without GPU tensors, so that it
/// is composed of other operators.
bool is_composition_here(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (!may_be_composition(op)) return false;
  const auto given = static_cast<int64_t>(op.schema().arguments().size());
  bool on_gpu = false;
  for (auto argument = stack.end() - given; argument != stack.end(); ++argument) {
    map_tensors(*argument, [&](const at::Tensor& tensor) {
      on_gpu = on_gpu || (tensor.defined() && tensor.is_cuda());
      return tensor;
    });
  }
  return !on_gpu;
}

void record_operator(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                     torch::jit::Stack* stack) {
  if (!Tracer::active() && this_threads_layouts != nullptr) {
    return this_threads_layouts->observe(op, keys, *stack);
  }
  if (is_composition_here(op, *stack)) {
    return op.redispatchBoxed(
        keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kTraceKey), stack);
  }
  Tracer::current().record(op, *stack);
}

/// Operators that are only compositions of others: what they are made of is recorded. Not that of
/// libtorch's which reads elements itself where nothing is differentiated.
bool is_composition(const c10::OperatorHandle& op) {
  return may_be_composition(op) && !op.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

/// For the program's life.
struct Registered {
  Mutex mutex;
  std::unordered_set<c10::OperatorName> names STRATA_GUARDED_BY(mutex);
  std::vector<c10::RegistrationHandleRAII> handles STRATA_GUARDED_BY(mutex);
};

std::atomic<bool> trace_kernels_are_registered = false;

class NoWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

c10::impl::LocalDispatchKeySet keys_without(c10::DispatchKeySet removed) {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  keys.included_ = keys.included_ - removed;
  return keys;
}

}  // namespace

void register_trace_kernels() {
  static auto* registered = new Registered();
  const MutexLock lock(registered->mutex);
  auto& dispatcher = c10::Dispatcher::singleton();
  const std::vector<c10::OperatorName> names = dispatcher.getAllOpNames();
  if (names.size() == registered->names.size()) return;
  // functorch has kernels for some views, which are taken over: libtorch would warn of that.
  NoWarnings handler;
  const c10::WarningUtils::WarningHandlerGuard quiet(&handler);
  for (const c10::OperatorName& name : names) {
    if (!registered->names.insert(name).second) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op) continue;
    registered->handles.push_back(dispatcher.registerImpl(
        name, kTraceKey,
        is_composition(*op) ? c10::KernelFunction::makeFallthrough()
                            : c10::KernelFunction::makeFromBoxedFunction<&record_operator>(),
        std::nullopt, nullptr, "strata::graph"));
  }
  trace_kernels_are_registered = true;
}

bool has_trace_kernels() { return trace_kernels_are_registered; }

OneAutogradThread::OneAutogradThread()
    : before_(c10::AutogradState::get_tls_state().get_multithreading_enabled()) {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}
OneAutogradThread::~OneAutogradThread() {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(before_);
}

ObserveLayoutsGuard::ObserveLayoutsGuard(Layouts& layouts)
    : before_(this_threads_layouts), include_(kTraceKey) {
  register_trace_kernels();
  this_threads_layouts = &layouts;
}
ObserveLayoutsGuard::~ObserveLayoutsGuard() { this_threads_layouts = before_; }

NoTraceGuard::NoTraceGuard(bool replica_kernels)
    : keys_(keys_without(replica_kernels ? c10::DispatchKeySet(kTraceKey)
                                         : c10::DispatchKeySet({kTraceKey, kernels::kReplicaKey,
                                                                kernels::kPortableKey}))) {}

}  // namespace strata::graph
