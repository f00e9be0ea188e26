#pragma once

#include <torch/torch.h>

#include "kernels/matmul_kernels.h"

namespace strata::kernels {

/// c = a b (+ bias), in whatever order their elements lie.
inline MatmulProblem problem_of(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                                at::Tensor& c) {
  return {a.size(0),
          b.size(1),
          a.size(1),
          {a.const_data_ptr<float>(), a.stride(0), a.stride(1)},
          {b.const_data_ptr<float>(), b.stride(0), b.stride(1)},
          bias.defined() ? bias.const_data_ptr<float>() : nullptr,
          c.mutable_data_ptr<float>(),
          c.stride(0)};
}

}  // namespace strata::kernels
