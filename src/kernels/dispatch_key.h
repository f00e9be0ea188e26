#pragma once

#include <c10/core/DispatchKeySet.h>

namespace strata::kernels {

/// The dispatch key of replica functions: operators that are replaced inside them are registered
/// under it.
inline constexpr c10::DispatchKey kReplicaKey = c10::DispatchKey::CustomRNGKeyId;

/// Masks the keys of a call, to hand it on to libtorch's own operator.
inline const c10::DispatchKeySet kBelowReplicaKey(c10::DispatchKeySet::FULL_AFTER, kReplicaKey);

}  // namespace strata::kernels
