#pragma once

namespace torch {
class Library;
}

// What replica functions run below autograd instead of libtorch's own kernels. It all hangs on one
// dispatch key, kReplicaKey, which a RandomStreamGuard includes on its thread.
namespace strata::tensor::detail {

/// Called before the first replica function, so that a static library's linker takes
/// replica_operators.cc, whose registrations run at start; what other libraries have registered by
/// then skips kReplicaKey too. Cost after the first call: none.
void link_replica_operators();

void register_random_ops(torch::Library& library);

}  // namespace strata::tensor::detail
