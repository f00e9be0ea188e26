#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <concepts>
#include <cstdint>
#include <optional>

#include "strata/core/export.h"
#include "strata/keras/layer.h"

/// New tensors of given numbers. They are on the CPU; `dtype` is float32 where it is unset, or,
/// of `arange` with whole numbers, int32.
/// Source: keras.ops 3.15.
namespace strata::keras::ops {

using Dtype = std::optional<at::ScalarType>;

STRATA_API at::Tensor zeros(const Shape& shape, Dtype dtype = {});
STRATA_API at::Tensor ones(const Shape& shape, Dtype dtype = {});
STRATA_API at::Tensor empty(const Shape& shape, Dtype dtype = {});
STRATA_API at::Tensor full(const Shape& shape, double fill_value, Dtype dtype = {});
/// @param M  Columns; unset: N.
STRATA_API at::Tensor eye(int64_t N, std::optional<int64_t> M = {}, int64_t k = 0,
                          Dtype dtype = {});
STRATA_API at::Tensor identity(int64_t n, Dtype dtype = {});
/// Ones at and below diagonal `k`.
STRATA_API at::Tensor tri(int64_t N, std::optional<int64_t> M = {}, int64_t k = 0,
                          Dtype dtype = {});
STRATA_API at::Tensor arange(int64_t stop);
STRATA_API at::Tensor arange_of_integers(int64_t start, int64_t stop, int64_t step);
template <std::integral Start, std::integral Stop>
at::Tensor arange(Start start, Stop stop, int64_t step = 1) {
  return arange_of_integers(start, stop, step);
}
STRATA_API at::Tensor arange(double start, double stop, double step = 1, Dtype dtype = {});
STRATA_API at::Tensor linspace(double start, double stop, int64_t num = 50, bool endpoint = true,
                               Dtype dtype = {});
STRATA_API at::Tensor logspace(double start, double stop, int64_t num = 50, bool endpoint = true,
                               double base = 10, Dtype dtype = {});
STRATA_API at::Tensor geomspace(double start, double stop, int64_t num = 50, bool endpoint = true,
                                Dtype dtype = {});

// Symmetric windows of so many numbers.
STRATA_API at::Tensor bartlett(int64_t x);
STRATA_API at::Tensor blackman(int64_t x);
STRATA_API at::Tensor hamming(int64_t x);
STRATA_API at::Tensor hanning(int64_t x);
STRATA_API at::Tensor kaiser(int64_t x, double beta);

inline Shape shape(const at::Tensor& x) { return x.sizes().vec(); }
inline const Shape& shape(const SymbolicTensor& x) { return x.shape(); }
inline int64_t ndim(const at::Tensor& x) { return x.dim(); }
inline int64_t ndim(const SymbolicTensor& x) { return static_cast<int64_t>(x.shape().size()); }
inline int64_t size(const at::Tensor& x) { return x.numel(); }
inline at::ScalarType dtype(const at::Tensor& x) { return x.scalar_type(); }
inline at::ScalarType dtype(const SymbolicTensor& x) { return x.dtype(); }

}  // namespace strata::keras::ops
