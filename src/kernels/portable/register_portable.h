#pragma once

#include <string_view>

namespace torch {
class Library;
}

namespace strata::kernels::portable {

/// @throws Error kUnimplemented: `name` has no kernel for these arguments whose bits are the same
/// on all processors.
[[noreturn]] void refuse_operator(std::string_view name);

// The kernels at kPortableKey, a file each.
// @param library  A block for that key.

/// sum and mean.
void register_sums(torch::Library& library);
/// mm, bmm, addmm and the like, of all sizes and strides.
void register_products(torch::Library& library);
/// Of one and two dimensions.
void register_convolution(torch::Library& library);
/// exp, tanh, gelu and the like, and their backward.
void register_functions(torch::Library& library);
/// uniform_ and normal_.
void register_random(torch::Library& library);
/// Operators that are compositions of others: softmax, normalizations, losses.
void register_compositions(torch::Library& library);

}  // namespace strata::kernels::portable
