#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/portable/portable_bits.h"

namespace strata::kernels {

inline bool is_cpu_bfloat16(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kBFloat16 &&
         tensor.layout() == at::kStrided;
}

/// Whether kernels of bfloat16 may run: where bits are to be the same everywhere, float32 alone is.
inline bool takes_bfloat16(const at::Tensor& tensor) {
  return is_cpu_bfloat16(tensor) && !portable_bits();
}

// The elements as bits.
inline const uint16_t* bf16_data(const at::Tensor& tensor) {
  return static_cast<const uint16_t*>(tensor.const_data_ptr());
}
inline uint16_t* mutable_bf16_data(const at::Tensor& tensor) {
  return static_cast<uint16_t*>(tensor.mutable_data_ptr());
}

}  // namespace strata::kernels
