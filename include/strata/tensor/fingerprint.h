#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::tensor {

/// Returns SHA-256, in hexadecimal, of dtype, shape and values of `tensors`, in order. It is equal
/// only if every bit is: it verifies that weights do not depend on the placement of replicas.
/// Cost: a copy to the CPU and about 3 ns a byte.
STRATA_API std::string fingerprint(const std::vector<at::Tensor>& tensors);

}  // namespace strata::tensor
