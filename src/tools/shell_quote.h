#pragma once

#include <string>
#include <string_view>

namespace strata::tools {

/// `text` as one word of a POSIX shell, which reads it back byte by byte: as it is where that is
/// safe, else in single quotes. A NUL byte, which no argument can have, is an error.
/// @throws Error  kInvalidArgument: it has a NUL byte.
std::string shell_quoted(std::string_view text);

}  // namespace strata::tools
