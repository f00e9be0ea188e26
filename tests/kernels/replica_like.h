#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>

#include "strata/kernels/cpu_kernels.h"
#include "tensor/random_streams.h"

namespace strata {

/// What a replica function has.
class ReplicaLike {
 public:
  ReplicaLike() { kernels::use_cpu_kernels(); }

 private:
  tensor::RandomStream stream_{7, 0};
  tensor::RandomStreamGuard guard_{stream_};
};

/// Of any element, relative to the largest wanted one (at least 1).
inline double largest_error(const at::Tensor& got, const at::Tensor& want) {
  EXPECT_EQ(got.sizes(), want.sizes());
  if (got.sizes() != want.sizes() || got.numel() == 0) return 0;
  const at::Tensor reference = want.to(at::kDouble);
  const double scale = std::max(1.0, reference.abs().max().item<double>());
  return (got.to(at::kDouble) - reference).abs().max().item<double>() / scale;
}

/// What to compare two kernels' accuracy by: over many numbers it depends on the kernel alone,
/// while the largest error is one number's.
inline double root_mean_square_error(const at::Tensor& got, const at::Tensor& want) {
  return (got.to(at::kDouble) - want.to(at::kDouble)).square().mean().sqrt().item<double>();
}

/// Where a result is NaN or infinite: 0 if finite.
inline at::Tensor kinds(const at::Tensor& t) {
  return t.isnan().to(at::kByte) + t.isposinf().to(at::kByte) * 2 + t.isneginf().to(at::kByte) * 3;
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         (x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}

}  // namespace strata
