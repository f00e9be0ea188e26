#include "tools/render/yaml_quote.h"

#include <array>
#include <cstdint>

#include "strata/core/error.h"

namespace strata::tools {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: no UTF-8
};

Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC0 || lead > 0xF7 || text.size() < bytes) return {};
  uint32_t code = lead & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[bytes] || code > 0x10FFFF || surrogate) return {};
  return {code, bytes};
}

// YAML's c-printable, less what its readers fold or what hides: line ends, the byte order mark.
bool stays(uint32_t code) {
  return (code >= 0x20 && code < 0x7F && code != '"' && code != '\\') ||
         (code >= 0xA0 && code != 0x2028 && code != 0x2029 && code != 0xFEFF && code < 0xFFFE) ||
         code >= 0x10000;
}

std::string escaped(uint32_t code) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    default:
      break;
  }
  const bool small = code < 0x100;
  std::string text = small ? "\\x" : "\\u";
  for (int shift = small ? 4 : 12; shift >= 0; shift -= 4) text += kDigits[code >> shift & 0xF];
  return text;
}

}  // namespace

std::string yaml_quoted(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const auto [code, bytes] = first_character(text);
    STRATA_CHECK(bytes > 0 && code != 0, kInvalidArgument, "[strata render] got text with ",
                 bytes > 0 ? "a NUL byte" : "bytes that are no UTF-8",
                 " for a YAML file; expected characters");
    result += stays(code) ? std::string(text.substr(0, bytes)) : escaped(code);
    text.remove_prefix(bytes);
  }
  return result + "\"";
}

}  // namespace strata::tools
