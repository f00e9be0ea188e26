#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "keras/graph/input_layer.h"
#include "keras/ops/operation.h"

/// What rows of several tables do with their arguments.
namespace strata::keras::detail {

/// Whole numbers become float32.
inline at::Tensor floating(const at::Tensor& x) {
  return x.is_floating_point() || x.is_complex() ? x : x.to(at::kFloat);
}

/// From 0 on. @throws Error kInvalidArgument: no axis of so many.
inline int64_t positive_axis(int64_t axis, int64_t ndim) {
  STRATA_CHECK(axis >= -ndim && axis < ndim, kInvalidArgument, "[keras] operation: got axis ", axis,
               "; expected one of ", ndim, " dimensions");
  return axis < 0 ? axis + ndim : axis;
}

/// The option `axis` from 0 on; none: all of them.
inline std::vector<int64_t> positive_axes(const OperationCall& call, int64_t ndim,
                                          const char* name = "axis") {
  std::vector<int64_t> axes = call.integers(name);
  if (call.option(name).is_null()) {
    axes.resize(static_cast<size_t>(ndim));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = positive_axis(axis, ndim);
  return axes;
}

/// The dtype that all have in common.
inline at::ScalarType common_dtype(const Tensors& tensors) {
  at::ScalarType dtype = tensors.at(0).scalar_type();
  for (const at::Tensor& each : tensors) dtype = c10::promoteTypes(dtype, each.scalar_type());
  return dtype;
}

/// Of the dtype that all have in common.
inline Tensors promoted(Tensors tensors) {
  const at::ScalarType dtype = common_dtype(tensors);
  for (at::Tensor& each : tensors) each = each.to(dtype);
  return tensors;
}

/// A list of integers that is an argument or an option; one integer is a list of one.
inline std::vector<int64_t> integers_in(const Json& json) {
  if (json.is_int()) return {json.as_int()};
  std::vector<int64_t> integers;
  from_config(json, integers);
  return integers;
}

/// The option `dtype`, or another.
inline at::ScalarType dtype_option(const OperationCall& call, at::ScalarType otherwise) {
  const Json& dtype = call.option("dtype");
  return dtype.is_null() ? otherwise : dtype_of_name(dtype.as_string());
}

}  // namespace strata::keras::detail
