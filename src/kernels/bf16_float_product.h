#pragma once

#include "kernels/bf16_matmul_kernels.h"

namespace strata::kernels {

/// The product by our float kernels, for processors without AVX512_BF16. The larger side is widened
/// in blocks that stay in the caches, so that memory is read once, in 16 bits. The bits are those
/// of the float product, rounded.
void bf16_float_product(const Bf16Problem& problem);

}  // namespace strata::kernels
