#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "strata/data/example.h"

namespace strata::data::detail {

/// Copies rows `indices` of `source`, `row_bytes` each, to `out`, one behind the other. Runs of
/// consecutive rows are one copy.
void copy_rows(const char* source, std::span<const int64_t> indices, size_t row_bytes, char* out);

/// Stacks equal examples along a new dimension 0.
/// @throws Error kInvalidArgument: they differ in number of fields, shape or dtype.
Example stack_examples(std::span<const Example> examples);

/// Counts the in-place writes to `tensor`'s data; 0 for inference tensors, which do not count.
inline int64_t tensor_version(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor._version();
}

}  // namespace strata::data::detail
