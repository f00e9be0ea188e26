#pragma once

#include <cmath>
#include <sstream>
#include <string>
#include <type_traits>

namespace strata {

/// `value` as it is to be printed: the sign bit of a NaN means nothing, but streams print it.
template <typename T>
[[nodiscard]] decltype(auto) printed(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value) ? std::abs(value) : value;
  } else {
    return (value);
  }
}

/// Concatenates the printed forms of `parts`; NaN is "nan" whatever its sign. GCC 12 has no
/// <format>, and a machine with nothing but libtorch has no fmt.
template <typename... Parts>
std::string str_cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << printed(parts));
  return out.str();
}

}  // namespace strata
