#pragma once

#include <string>

#include "strata/core/export.h"

namespace strata::kernels {

/// Registers faster kernels under a few of libtorch's CPU operators, for float32, on the threads
/// that hold a RandomStreamGuard (every replica function does). They are below autograd, so
/// unchanged modules, their backward and double backward use them. On all other threads libtorch's
/// own run, and here, too, for other dtypes, other strides and sizes where they are as good.
/// Idempotent; strategies call it. Threads: any.
///
///   mm, addmm, bmm   On processors with AVX-512: 2 times as fast for the sizes of training where
///                    libtorch's MKL takes its AVX2 path (AMD), 1.15 to 1.4 on Intel. An element's
///                    bits depend on its row, its column and the length of the sum alone: not on
///                    the batch size, strides, addresses, or the number of threads. Where most
///                    elements of one side are zero (images on black, one-hot rows) and the other
///                    side is finite, zeros are left out: the same bits (but for the sign of what
///                    underflows to zero), twice as fast again with a fifth of the elements.
///   convolution      2-D, no dilation, one group, contiguous, on the same processors: stride 1,
///                    planes not too small; kernels of 1 x 1, any stride, from 8 channels on, as
///                    matrix products; stride 2 over at most 4 channels (an image), as stride 1,
///                    where a NaN reaches one row and column more. 1.1 to 2.3 times as fast as
///                    libtorch's oneDNN, more with few channels. 3 x 3 kernels of 16 channels or
///                    more by Winograd's minimal filtering: rounding errors of outputs are up to
///                    twice oneDNN's, and a NaN reaches up to 4 x 4 outputs, not 3 x 3. An image's
///                    bits do not depend on the rest of the batch, and no bits on the number of
///                    threads.
///   max_pool2d       2 x 2 windows side by side, contiguous, and its backward, also of a gradient
///                    with channels last; 3 x 3 windows two apart: same values and indices, bit for
///                    bit.
///   clone            Of images whose channels become the last dimension in memory, or the second
///                    (reshape and contiguous() end there): 8 x 8 floats at a time.
///
///   addmm's node     Not below autograd but at it: of bias + a b (torch::nn::Linear) all gradients
///                    in one call, the bias's as sums of fours; grad_fn is DenseLayerBackward.
///   relu, relu_      Any order of dimensions: the same bits in less time. Their backward
///                    writes into its gradient where no one else holds that; grad_fn is
///                    ReluBackward.
///
/// Whether libtorch's kernel runs or strata's is decided for each class of shapes, since it decides
/// bits in the last place, by CPUID alone: from a table in the source of what was measured, and
/// never by a measurement at run time. STRATA_KERNELS in the environment overrides the table:
/// `libtorch`, `strata`, or parts such as `matmul=libtorch,convolution=strata`; docs/kernels.md has
/// all, and `strata kernels` prints what runs.
/// @throws Error  kInvalidArgument: a wrong STRATA_KERNELS.
STRATA_API void use_cpu_kernels();

/// One line for logs and bug reports, e.g. "matmul: strata (AVX-512); convolution: strata
/// (AVX-512); max_pool2d: strata (AVX-512); table zen4-avx512/3".
STRATA_API std::string describe_cpu_kernels();

/// The name of what runs, "zen4-avx512/3": the table's row, the version of the kernels' arithmetic,
/// and what the environment overrides. The workers of a job agree on it, and checkpoints keep it:
/// other kernels, other bits in the last place.
STRATA_API std::string kernel_table_name();

}  // namespace strata::kernels
