#include "core/escaped.h"

namespace strata::detail {

std::string escaped(std::string_view text, size_t limit) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char letter : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x20 && byte < 0x7F && letter != '\\') {
      out += letter;
    } else {
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  if (text.size() > limit) out += "...";
  return out;
}

}  // namespace strata::detail
