#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>

#include "strata/runtime/replica_context.h"

namespace strata::detail {

/// The replica context as an autograd function's saved attribute: backward may run on another
/// thread (autograd's, on a GPU), so it cannot be looked up there. Null stays null.
inline int64_t save_context(const ReplicaContext* context) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(context));
}
inline const ReplicaContext* saved_context(const c10::IValue& saved) {
  return reinterpret_cast<const ReplicaContext*>(static_cast<intptr_t>(saved.toInt()));
}

}  // namespace strata::detail
