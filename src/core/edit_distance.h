#pragma once

#include <cstddef>
#include <string_view>

namespace strata::detail {

/// How many letters of `a` must be changed, added or left out for `b` (Levenshtein's distance): for
/// hints in messages, "did you mean ...?".
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace strata::detail
