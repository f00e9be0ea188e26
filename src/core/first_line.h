#pragma once

#include <string_view>

namespace strata {

/// Of a message: libtorch's have a backtrace behind it.
inline std::string_view first_line(std::string_view message) {
  return message.substr(0, message.find('\n'));
}

}  // namespace strata
