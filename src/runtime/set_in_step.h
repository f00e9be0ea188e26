#pragma once

#include <ATen/core/Tensor.h>

#include "strata/runtime/replica_context.h"
#include "strata/runtime/variable.h"

namespace strata::detail {

/// In a step that is recorded for servers or a compiler: gives a variable a value that all replicas have
/// computed alike. By all replicas.
/// @param value  Of the variable's sizes and dtype.
STRATA_API void set_in_step(VariableState& variable, const ReplicaContext& replica,
                            const at::Tensor& value);

}  // namespace strata::detail
