#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::tensor {

/// SHA-256, in hexadecimal, of dtype, shape and values of `tensors`, in order. Equal only if every
/// bit is: the check behind the promise that weights do not depend on where the replicas live.
/// Cost: a copy to the CPU and about 3 ns a byte.
STRATA_API std::string fingerprint(const std::vector<at::Tensor>& tensors);

}  // namespace strata::tensor
