#pragma once

#include <ATen/core/Formatting.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <concepts>

#include "strata/core/export.h"

namespace torch {
using at::Tensor;
}

/// at::Tensor as programs use it, without libtorch's heavy headers: the name torch::Tensor, `<<`,
/// and the operators `+ - * / % & | ^ < <= > >= == !=` between tensors, variables and numbers.
///
/// libtorch defines these operators in <ATen/TensorOperators.h>, which costs a file 3 to 5 seconds
/// of compiling. The templates below call the same methods. Where a file includes libtorch's too,
/// its functions are chosen, since a function is preferred to a template that fits equally well.
namespace strata::detail {

/// A tensor like `tensor` with `value` everywhere: the left side of `1 - tensor`.
STRATA_API at::Tensor filled_like(const at::Scalar& value, const at::Tensor& tensor);

template <typename T>
concept IsTensor = std::same_as<T, at::Tensor>;

/// At least one tensor, and what converts to one.
template <typename A, typename B>
concept TensorAndTensor = (IsTensor<A> || IsTensor<B>)&&std::convertible_to<
    const A&, at::Tensor>&& std::convertible_to<const B&, at::Tensor>;

}  // namespace strata::detail

namespace at {  // where the compiler looks for operators of at::Tensor

#define STRATA_TENSOR_OPERATOR(op, method, number_on_the_left)                                \
  template <typename A, typename B>                                                           \
  requires strata::detail::TensorAndTensor<A, B> Tensor operator op(const A& a, const B& b) { \
    const Tensor &x = a, &y = b;                                                              \
    return x.method(y);                                                                       \
  }                                                                                           \
  template <strata::detail::IsTensor T>                                                       \
  Tensor operator op(const T& x, const Scalar& y) {                                           \
    return x.method(y);                                                                       \
  }                                                                                           \
  template <strata::detail::IsTensor T>                                                       \
  Tensor operator op(const Scalar& x, const T& y) {                                           \
    return number_on_the_left;                                                                \
  }

/// @cond  doxygen does not expand them
STRATA_TENSOR_OPERATOR(+, add, y.add(x))
STRATA_TENSOR_OPERATOR(-, sub, strata::detail::filled_like(x, y).sub_(y))
STRATA_TENSOR_OPERATOR(*, mul, y.mul(x))
STRATA_TENSOR_OPERATOR(/, div, strata::detail::filled_like(x, y).div_(y))
STRATA_TENSOR_OPERATOR(%, remainder, strata::detail::filled_like(x, y).remainder_(y))
STRATA_TENSOR_OPERATOR(&, bitwise_and, y.bitwise_and(x))
STRATA_TENSOR_OPERATOR(|, bitwise_or, y.bitwise_or(x))
STRATA_TENSOR_OPERATOR(^, bitwise_xor, y.bitwise_xor(x))
STRATA_TENSOR_OPERATOR(<, lt, y.gt(x))
STRATA_TENSOR_OPERATOR(<=, le, y.ge(x))
STRATA_TENSOR_OPERATOR(>, gt, y.lt(x))
STRATA_TENSOR_OPERATOR(>=, ge, y.le(x))
STRATA_TENSOR_OPERATOR(==, eq, y.eq(x))
STRATA_TENSOR_OPERATOR(!=, ne, y.ne(x))
/// @endcond

#undef STRATA_TENSOR_OPERATOR

}  // namespace at
