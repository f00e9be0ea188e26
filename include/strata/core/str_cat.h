#pragma once

#include <cmath>
#include <sstream>
#include <string>
#include <type_traits>

namespace strata {

/// Returns `value` in its printed form: streams would print the sign bit of a NaN, which has no
/// meaning.
template <typename T>
[[nodiscard]] decltype(auto) printed(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value) ? std::abs(value) : value;
  } else {
    return (value);
  }
}

/// Concatenates the printed forms of `parts`; NaN is "nan" with either sign. GCC 12 has no
/// `<format>`, and fmt may be missing on a machine with libtorch.
template <typename... Parts>
std::string str_cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << printed(parts));
  return out.str();
}

}  // namespace strata
