#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

namespace strata::kernels {

/// Smooth activations of `size` elements, by kernels/elementary.h. `out` may be the input or the
/// gradient.
struct ActivationKernels {
  using Forward = void(const float* x, int64_t size, float* out);
  /// The gradient of x from that of the output.
  using Backward = void(const float* gradient, const float* x, int64_t size, float* out);

  Forward* gelu;
  Backward* gelu_backward;
  /// With the hyperbolic tangent in the normal distribution's place.
  Forward* gelu_tanh;
  Backward* gelu_tanh_backward;
  Forward* sigmoid;
  Forward* tanh;

  // bfloat16, as bits, has 65,536 values: a function of it is a table of them.
  /// out[i] = table[x[i]]
  void (*look_up)(const uint16_t* table, const uint16_t* x, int64_t size, uint16_t* out);
  /// out[i] = gradient[i] * slopes[x[i]], rounded.
  void (*scale_by)(const float* slopes, const uint16_t* gradient, const uint16_t* x, int64_t size,
                   uint16_t* out);
};

const ActivationKernels& activation_kernels();  // the best for this processor; in activations.cc
const ActivationKernels& activation_kernels_baseline();
const ActivationKernels& activation_kernels_avx2();
const ActivationKernels& activation_kernels_avx512();

}  // namespace strata::kernels
