#pragma once

namespace torch {
class Library;
}

// What replica functions run below autograd instead of libtorch's own kernels. It all hangs on one
// dispatch key, CustomRNGKeyId, which a RandomStreamGuard includes on its thread.
namespace strata::tensor::detail {

/// Called so that a static library's linker takes replica_kernels.cc, whose registrations run at
/// start.
void link_replica_kernels();

void register_random_ops(torch::Library& library);
void register_engine_kernels(torch::Library& library);
void register_convolution(torch::Library& library);
void register_relu(torch::Library& library);
void register_max_pool(torch::Library& library);
void register_image_copy(torch::Library& library);
/// At autograd's key; kernels that look for CustomRNGKeyId themselves.
void register_dense_layer(torch::Library& library);
void register_relu_node(torch::Library& library);

}  // namespace strata::tensor::detail
