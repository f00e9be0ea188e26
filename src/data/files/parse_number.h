#pragma once

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>

namespace strata::data::detail {

/// `text` without spaces around it, as a number, the whole of it. Floats beyond the type's range
/// are infinite or 0. @return false: it is no such number.
template <class T>
bool parse_number(std::string_view text, T& value) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return false;
  text = text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
  if (text[0] == '+') {
    text.remove_prefix(1);
    if (text.starts_with('-')) return false;
  }
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (stopped != end || error == std::errc::invalid_argument) return false;
  if constexpr (std::is_floating_point_v<T>) {
    if (error == std::errc::result_out_of_range) {
      const std::string copy(text);
      value = static_cast<T>(std::strtod(copy.c_str(), nullptr));
    }
    return true;
  }
  return error == std::errc{};
}

}  // namespace strata::data::detail
