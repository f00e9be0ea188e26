#include "tools/shell_quote.h"

#include "strata/core/error.h"

namespace strata::tools {

std::string shell_quoted(std::string_view text) {
  // '=' in front would be a path to zsh, and '~' is a home folder.
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  STRATA_CHECK(text.find('\0') == std::string_view::npos, kInvalidArgument,
               "[strata] got a word with a NUL byte for a shell; expected none");
  const bool plain = !text.empty() && text.front() != '=' &&
                     text.find_first_not_of(kPlain) == std::string_view::npos;
  if (plain) return std::string(text);
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace strata::tools
