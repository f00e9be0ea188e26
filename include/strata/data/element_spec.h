#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::data {

/// The shape and dtype of a field before it is read. Source: tf.TensorSpec.
struct STRATA_API TensorSpec {
  std::vector<int64_t> shape;  ///< -1: varies, or unknown
  at::ScalarType dtype = at::kFloat;

  /// Prints "Float[-1, 28, 28]".
  std::string to_string() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// One for each field.
using ElementSpec = std::vector<TensorSpec>;

}  // namespace strata::data
