#pragma once

#include <ATen/core/Tensor.h>

namespace torch::autograd {
struct Node;
}

namespace strata::kernels {

/// `half`, a copy of `weight` in 16 bits that is kept beside it, as the result of a cast: its
/// gradient goes to `weight`, in `weight`'s dtype. It shares `half`'s memory and version.
at::Tensor as_cast_of(const at::Tensor& half, const at::Tensor& weight);

/// The node that as_cast_of made for `tensor`, or null. A node that takes `tensor` may hand a
/// gradient in the weight's dtype to this node's next edge in its place.
torch::autograd::Node* cast_node_of(const at::Tensor& tensor);

}  // namespace strata::kernels
