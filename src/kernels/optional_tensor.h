#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace strata::kernels {

/// An operator's `Tensor?`.
using OptionalTensor = std::optional<at::Tensor>;

inline OptionalTensor if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

/// The elements, or null where there is no tensor.
inline const float* floats_or_null(const OptionalTensor& tensor) {
  return tensor ? tensor->const_data_ptr<float>() : nullptr;
}

}  // namespace strata::kernels
