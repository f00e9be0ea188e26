#pragma once

#include <string>
#include <string_view>

namespace strata::tools {

/// `text` as a double-quoted YAML 1.2 scalar, on one line, which every YAML reader reads back as the
/// same characters.
/// @throws Error  kInvalidArgument: it is not UTF-8, which a YAML file must be, or has a NUL.
std::string yaml_quoted(std::string_view text);

}  // namespace strata::tools
