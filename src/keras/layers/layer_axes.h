#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "strata/keras/layers/option_types.h"
#include "strata/keras/shape.h"

namespace strata::layers {

/// `axis` counted from the front. @throws Error kInvalidArgument: there is no such axis; as Keras
/// words it.
inline int64_t resolve_axis(int64_t axis, size_t rank, const keras::Shape& shape,
                            const std::string& layer) {
  const auto ndim = static_cast<int64_t>(rank);
  STRATA_CHECK(axis >= -ndim && axis < ndim, kInvalidArgument, "[keras] Layer \"", layer,
               "\": Axis ", axis, " is out of bounds for input shape ", keras::to_string(shape),
               ". Received: axis=", axis);
  return axis < 0 ? axis + ndim : axis;
}
inline int64_t resolve_axis(int64_t axis, const keras::Shape& shape, const std::string& layer) {
  return resolve_axis(axis, shape.size(), shape, layer);
}

/// All of them, rising.
inline std::vector<int64_t> resolve_axes(const Axes& axes, const keras::Shape& shape,
                                         const std::string& layer) {
  std::vector<int64_t> resolved;
  for (int64_t axis : axes.values) resolved.push_back(resolve_axis(axis, shape, layer));
  std::sort(resolved.begin(), resolved.end());
  return resolved;
}

}  // namespace strata::layers
