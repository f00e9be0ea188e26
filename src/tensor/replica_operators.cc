#include "tensor/replica_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>

#include "kernels/registration.h"

namespace strata::tensor::detail {

void link_replica_operators() {}

namespace {

/// libtorch counts this key as a device, so the generic kernels of operators like add (which exist
/// for devices without one of their own, and are slower) would be taken at it. Those operators
/// fall through explicitly. Not the ones that are generic only, and never
/// CompositeImplicitAutograd ones: a registration would make them ambiguous for sparse tensors.
void fall_through_elsewhere(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || op->hasKernelForDispatchKey(c10::DispatchKey::CustomRNGKeyId)) continue;
    const bool generic =
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
    const bool own = op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
                     op->hasKernelForDispatchKey(c10::DispatchKey::CUDA);
    if (!generic || !own) continue;
    std::string full = name.name;
    if (!name.overload_name.empty()) full.append(".").append(name.overload_name);
    library.impl(full.c_str(), torch::CppFunction::makeFallthrough());
  }
}

}  // namespace

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
