#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

namespace strata::kernels {

/// The dispatch key of replica functions whose bits are the same on all processors
/// (ReplicaOptions::bits). It is below kReplicaKey, so what arrives at it is what this library does
/// not replace: operators that are exact in libtorch fall through it, others have kernels at it
/// (portable_operators.cc), and the rest are errors. libtorch has no kernels for this key.
inline constexpr c10::DispatchKey kPortableKey = c10::DispatchKey::FPGA;

/// Masks the keys of a call, to hand it on to libtorch's own operator.
inline const c10::DispatchKeySet kBelowPortableKey(c10::DispatchKeySet::FULL_AFTER, kPortableKey);

/// Whether the calling thread's bits are to be the same on all processors.
inline bool portable_bits() { return c10::impl::tls_is_dispatch_key_included(kPortableKey); }

/// Registers what there is at this key; later calls do nothing. Few programs want it, and it takes
/// 15 ms and 5 MB. Call it before the first PortableBitsGuard. Threads: any.
/// @return false: this build has no such kernels (STRATA_CPU_KERNELS=OFF).
bool use_portable_kernels();

/// Makes them so during its lifetime, if `wanted`. Threads: destroy it on the thread that made it.
class PortableBitsGuard {
 public:
  explicit PortableBitsGuard(bool wanted) {
    if (wanted) key_.emplace(kPortableKey);
  }

 private:
  std::optional<c10::impl::IncludeDispatchKeyGuard> key_;
};

}  // namespace strata::kernels
