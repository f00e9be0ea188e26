#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::ps {

/// Where a variable may be cut when it is spread over servers.
enum class Split {
  kAnywhere,  ///< between any two elements: what is pulled and pushed whole
  kRows,      ///< between rows of axis 0: what is pulled and pushed by rows, such as an embedding
  kNever,     ///< not at all: its update rule looks at the whole variable (Lamb, Adafactor)
};

/// What must be known of a variable to give it a place. A value.
struct VariableSpec {
  std::string name;
  std::vector<int64_t> shape = {};  ///< empty: a scalar; -1: a size that is not known yet
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::string device = {};  ///< what the user asked for, such as `/job:ps/task:1`; empty: nothing
  Split split = Split::kAnywhere;
};

/// @throws Error  kInvalidArgument, for these: the shape has a size that is not known.
STRATA_API int64_t num_elements(const VariableSpec& variable);
STRATA_API int64_t num_bytes(const VariableSpec& variable);

}  // namespace strata::ps
