#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

namespace strata::tensor {

/// Writes `size` independent draws of a Bernoulli distribution: 1 with probability threshold /
/// 2^32. Element i depends on `key` and i alone. `size` < 2^32.
template <typename T>
using MaskKernel = void (*)(uint64_t key, uint32_t threshold, int64_t size, T* out);

struct MaskKernels {
  MaskKernel<float> f32;
  MaskKernel<double> f64;
  MaskKernel<uint8_t> u8;
};

const MaskKernels& mask_kernels(CpuIsa isa);  // in random_ops.cc
const MaskKernels& mask_kernels_baseline();
const MaskKernels& mask_kernels_avx2();
const MaskKernels& mask_kernels_avx512();

}  // namespace strata::tensor
