#pragma once

#include <string>
#include <string_view>

namespace strata::kernels {

/// The name of what replica functions run: kernel_table_name, or, where their bits are portable
/// (ReplicaOptions::bits), a name that all processors share.
std::string kernels_of_replicas(bool portable);

/// Whether STRATA_KERNELS_MISMATCH lets this process go on with kernels that round otherwise:
/// `allow`; `refuse` or nothing: it does not.
/// @throws Error  kInvalidArgument: another value.
bool mismatch_allowed();

/// Refuses to continue what the kernels `expected` computed with this process's, `own` (names as
/// kernel_table_name has them). Nothing happens where they are equal, or either is empty: unknown.
/// @param what  For messages: "[checkpoint] restore: /run/ckpt-1 was saved with".
/// @param allowed  The bits may differ: a line in the log says so.
/// @throws Error  kFailedPrecondition: they differ and may not.
void require_same_kernels(std::string_view what, std::string_view expected, std::string_view own,
                          bool allowed);

}  // namespace strata::kernels
