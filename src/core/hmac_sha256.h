#pragma once

#include <string>
#include <string_view>

namespace strata::detail {

/// HMAC-SHA-256 of `message` as 32 bytes: only who knows `key` can make them or check them.
/// Source: RFC 2104, RFC 4231.
std::string hmac_sha256(std::string_view key, std::string_view message);

/// Whether two texts are equal, in a time that depends on their lengths alone: how long a wrong
/// guess takes must not tell how much of it is right.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace strata::detail
