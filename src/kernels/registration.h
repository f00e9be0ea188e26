#pragma once

namespace torch {
class Library;
}

namespace strata::kernels {

/// Registers the operators that replica functions run below autograd in place of libtorch's own.
/// @param library  A block for kReplicaKey.
void register_cpu_kernels(torch::Library& library);

/// Registers nodes of autograd's graph. Their kernels look for kReplicaKey themselves.
/// @param library  A block for autograd's key of the CPU.
void register_cpu_nodes(torch::Library& library);

// The parts, a file each.
void register_products(torch::Library& library);
void register_convolution(torch::Library& library);
void register_relu(torch::Library& library);
void register_max_pool(torch::Library& library);
void register_image_copy(torch::Library& library);
void register_activations(torch::Library& library);
void register_layer_norm(torch::Library& library);
void register_embedding(torch::Library& library);
void register_softmax(torch::Library& library);
void register_attention(torch::Library& library);
void register_dense_layer(torch::Library& library);
void register_relu_node(torch::Library& library);
void register_recurrent(torch::Library& library);

}  // namespace strata::kernels
