#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace strata::detail {

// ASCII letters; other bytes stay.

inline std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

inline std::string upper_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::toupper(c); });
  return result;
}

}  // namespace strata::detail
