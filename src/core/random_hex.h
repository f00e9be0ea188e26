#pragma once

#include <cstddef>
#include <string>

namespace strata::detail {

/// So many bytes that nobody can guess, as twice as many digits.
/// @throws Error  kUnavailable: the kernel gives none.
std::string random_hex(size_t bytes);

}  // namespace strata::detail
