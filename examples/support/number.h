#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

#include "strata/core/error.h"

namespace examples {

/// The whole number from 1 on that `text` is. @param what  The argument, for the error.
inline int64_t number(std::string_view text, std::string_view what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  STRATA_CHECK(error == std::errc() && end == text.data() + text.size() && value >= 1,
               kInvalidArgument, "got ", what, " '", text, "'; expected a whole number from 1 on");
  return value;
}

}  // namespace examples
