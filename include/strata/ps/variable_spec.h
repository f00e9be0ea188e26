#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::ps {

/// The places where a variable may be cut when it is spread over servers.
enum class Split {
  kAnywhere,  ///< between any two elements: a variable that is pulled and pushed whole
  /// between rows of axis 0: a variable that is pulled and pushed by rows, such as an embedding
  kRows,
  kNever,  ///< nowhere: its update rule needs the whole variable (Lamb, Adafactor)
};

/// The properties of a variable that its placement depends on. A value.
struct VariableSpec {
  std::string name;
  std::vector<int64_t> shape = {};  ///< empty: a scalar; -1: an unknown size
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::string device = {};  ///< the requested device, such as `/job:ps/task:1`; empty: none
  Split split = Split::kAnywhere;
};

/// @throws Error  kInvalidArgument, both: the shape has an unknown size.
STRATA_API int64_t num_elements(const VariableSpec& variable);
STRATA_API int64_t num_bytes(const VariableSpec& variable);

}  // namespace strata::ps
