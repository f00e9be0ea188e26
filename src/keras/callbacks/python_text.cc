#include "keras/callbacks/python_text.h"

#include <charconv>

namespace strata::callbacks::detail {

std::string python_text(double value) {
  char buffer[40];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

}  // namespace strata::callbacks::detail
