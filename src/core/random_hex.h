#pragma once

#include <cstddef>
#include <string>

namespace strata::detail {

/// So many random bytes, as twice as many digits.
/// @throws Error  kUnavailable: the kernel gives none.
std::string random_hex(size_t bytes);

}  // namespace strata::detail
