#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata::detail {

/// Text of a stranger's for logs and errors: control characters, quotes' backslash and all bytes
/// beyond ASCII as `\xNN`, so that it can neither end the line nor reach a terminal as a command;
/// at most `limit` bytes of it, then "...".
std::string escaped(std::string_view text, size_t limit = 300);

}  // namespace strata::detail
