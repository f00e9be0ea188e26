#pragma once

namespace strata::kernels {

/// Whether convolution.cc's kernels take the convolutions that they are made for. Decided once, by
/// the processor and STRATA_CONV.
bool use_own_convolution();

}  // namespace strata::kernels
