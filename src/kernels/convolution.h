#pragma once

namespace strata::kernels {

/// Whether convolution.cc's kernels take convolutions of some class of shapes: by STRATA_KERNELS,
/// else by the table (kernel_choice.h). Where bits are portable they take all that they can.
bool use_own_convolution();

}  // namespace strata::kernels
