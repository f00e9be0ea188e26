#pragma once

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <cstdint>

namespace strata::collective {

inline constexpr at::ScalarType kSummedDtypes[] = {at::kFloat, at::kHalf, at::kLong};
inline constexpr int64_t kSummedSizes[] = {1, 77, 12'345, 300'001};

/// What a replica brings, in whatever process it lives.
inline at::Tensor replica_value(int64_t size, at::ScalarType dtype, int replica) {
  at::manual_seed(static_cast<uint64_t>(size + replica));
  return (at::randn({size}) * 100).to(dtype);
}

}  // namespace strata::collective
