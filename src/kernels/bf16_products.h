#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace strata::kernels {

/// What multiplies matrices of bfloat16 in replica functions.
enum class Bf16Products {
  kAmx,        ///< Our kernels, with AMX.
  kEngine,     ///< libtorch, where the processor has AMX and products are libtorch's.
  kOwn,        ///< Our kernels, with AVX512_BF16.
  kOwnFloat,   ///< Our float kernels, which widen what they pack.
  kFloatCopy,  ///< libtorch's float products of float copies, rounded at the end.
};
Bf16Products bf16_products();

namespace detail {

Bf16Products bf16_products_for(bool has_amx, bool has_avx512_bf16, bool own_products);

/// a b (+ bias in each row) by float copies of the operands, rounded to `result` at the end.
at::Tensor product_of_floats(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                             at::ScalarType result);
/// The same by a kernel, or nothing where an operand's rows and columns are both strided.
/// @param way  kAmx, kOwn or kOwnFloat.
std::optional<at::Tensor> own_bf16_product(const at::Tensor& a, const at::Tensor& b,
                                           const at::Tensor& bias, at::ScalarType result,
                                           Bf16Products way = Bf16Products::kOwn);

}  // namespace detail

/// a b (+ bias in each row) of matrices of bfloat16, or of batches of them, or nothing when
/// libtorch shall do it.
/// @param bias    One dimension, bfloat16 or float; or undefined.
/// @param result  kBFloat16: sums are rounded once. kFloat: they are not.
std::optional<at::Tensor> bf16_product(const at::Tensor& a, const at::Tensor& b,
                                       const at::Tensor& bias = {},
                                       at::ScalarType result = at::kBFloat16);

}  // namespace strata::kernels
