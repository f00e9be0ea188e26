#include "tensor/replica_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>

#include "kernels/dispatch_key.h"
#include "kernels/registration.h"

namespace strata::tensor::detail {

namespace {

/// libtorch counts this key as a device, so the generic kernels of operators like add (which exist
/// for devices without one of their own, and are slower) would be taken at it. Those operators
/// fall through explicitly. Not the ones that are generic only, and never
/// CompositeImplicitAutograd ones: a registration would make them ambiguous for sparse tensors.
bool must_fall_through(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(kernels::kReplicaKey)) return false;
  const bool generic =
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
  return generic && (op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
                     op.hasKernelForDispatchKey(c10::DispatchKey::CUDA));
}

void fall_through(const c10::OperatorName& name, torch::Library& library) {
  std::string full = name.name;
  if (!name.overload_name.empty()) full.append(".").append(name.overload_name);
  library.impl(full.c_str(), torch::CppFunction::makeFallthrough());
}

void fall_through_elsewhere(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    if (op && must_fall_through(*op)) fall_through(name, library);
  }
}

/// The same for operators of this library and of programs, which are registered in any order at
/// start.
void fall_through_beside_aten() {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !must_fall_through(*op)) continue;
    // Registered for the life of the program.
    auto* library = new torch::Library(torch::Library::IMPL, std::string(*name.getNamespace()),
                                       kernels::kReplicaKey, __FILE__, __LINE__);
    fall_through(name, *library);
  }
}

}  // namespace

void link_replica_operators() {
  static const bool done = (fall_through_beside_aten(), true);
  static_cast<void>(done);
}

TORCH_LIBRARY_IMPL(_, CustomRNGKeyId, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

// One block, since the order matters: what is registered first is left alone by the last line.
TORCH_LIBRARY_IMPL(aten, CustomRNGKeyId, library) {
  register_random_ops(library);
  kernels::register_cpu_kernels(library);
  fall_through_elsewhere(library);
}

// No backend key: other devices' and sparse tensors' autograd stays as it is; libtorch's own
// kernels are for all, so none is overwritten.
TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) { kernels::register_cpu_nodes(library); }

}  // namespace strata::tensor::detail
