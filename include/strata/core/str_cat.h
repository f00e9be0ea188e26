#pragma once

#include <sstream>
#include <string>

namespace strata {

/// Concatenates the printed forms of `parts`. GCC 12 has no <format>, and a machine with nothing
/// but libtorch has no fmt.
template <typename... Parts>
std::string str_cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace strata
