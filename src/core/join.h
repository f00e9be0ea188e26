#pragma once

#include <functional>
#include <sstream>
#include <string>
#include <string_view>

namespace strata {

/// The printed forms of a range's elements, "adam, sgd": for lists in messages.
/// @param text  What to print of an element: a function, or a pointer to a member.
template <typename Range, typename Text = std::identity>
std::string join(const Range& range, const Text& text = {}, std::string_view separator = ", ") {
  std::ostringstream out;
  bool first = true;
  for (const auto& each : range) {
    if (!first) out << separator;
    first = false;
    out << std::invoke(text, each);
  }
  return out.str();
}

}  // namespace strata
