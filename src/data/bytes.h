#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

namespace strata::data::detail {

/// Uninitialised memory on the CPU, `[*sizes]`. Past the dispatcher: a third of at::empty's cost,
/// which counts where an element is a line of text.
inline at::Tensor empty_tensor(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::Tensor(at::detail::empty_cpu(sizes, dtype));
}

/// A scalar on the CPU.
template <class T>
at::Tensor scalar_of(T value) {
  at::Tensor tensor = empty_tensor({}, c10::CppTypeToScalarType<T>::value);
  *static_cast<T*>(tensor.mutable_data_ptr()) = value;
  return tensor;
}

}  // namespace strata::data::detail
