#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

// Plain data only: the kernels behind this are compiled for one instruction set.

namespace strata::kernels {

/// Sums whose order the sizes alone decide.
template <typename T>
struct PortableSums {
  /// out[r] = sum over c of in[r * columns + c].
  void (*rows)(const T* in, int64_t rows, int64_t columns, T* out);
  /// out[c] = sum over r of in[r * columns + c]. @param scratch  64 * columns elements.
  void (*columns)(const T* in, int64_t rows, int64_t columns, T* out, T* scratch);
};

/// out[i] = f(in[i]); `out` may be `in`.
using PortableFunction = void (*)(const float* in, int64_t size, float* out);

struct PortableKernels {
  PortableSums<float> sums_f32;
  PortableSums<double> sums_f64;
  PortableFunction exp;
  PortableFunction log;
  PortableFunction erf;
};

const PortableKernels& portable_kernels();  // the best for this processor
const PortableKernels& portable_kernels_baseline();
const PortableKernels& portable_kernels_avx2();
const PortableKernels& portable_kernels_avx512();

}  // namespace strata::kernels
