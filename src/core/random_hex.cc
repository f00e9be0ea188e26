#include "core/random_hex.h"

#include <sys/random.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "strata/core/error.h"

namespace strata::detail {

std::string random_hex(size_t count) {
  std::vector<unsigned char> bytes(count);
  STRATA_CHECK(::getrandom(bytes.data(), count, 0) == static_cast<ssize_t>(count), kUnavailable,
               "getrandom: ", std::generic_category().message(errno));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace strata::detail
