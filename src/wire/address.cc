#include "wire/address.h"

#include <algorithm>
#include <charconv>

#include "strata/core/error.h"

namespace strata::wire {

Address Address::parse(std::string_view text) {
  const bool bracketed = text.starts_with('[');
  const size_t host_end = bracketed ? text.find(']') : text.rfind(':');
  STRATA_CHECK(host_end != std::string_view::npos, kInvalidArgument, "[wire] address: got \"", text,
               "\"; expected host:port or [IPv6]:port");
  const std::string_view host = bracketed ? text.substr(1, host_end - 1) : text.substr(0, host_end);
  const std::string_view rest = text.substr(host_end + (bracketed ? 1 : 0));
  STRATA_CHECK(!host.empty() && host.size() <= 255, kInvalidArgument, "[wire] address: got \"",
               text, "\", whose host has ", host.size(), " characters; expected 1 to 255");
  STRATA_CHECK(bracketed || host.find(':') == std::string_view::npos, kInvalidArgument,
               "[wire] address: got \"", text, "\"; an IPv6 address is written in brackets: [",
               host, "]:port");
  const auto plain = [](char c) {
    return c > ' ' && c < 127 && c != '[' && c != ']' && c != '/' && c != '"';
  };
  STRATA_CHECK(std::ranges::all_of(host, plain), kInvalidArgument, "[wire] address: got \"", text,
               "\"; the host \"", host, "\" is no name and no address");
  STRATA_CHECK(rest.size() > 1 && rest.front() == ':', kInvalidArgument, "[wire] address: got \"",
               text, "\", which has no port; expected host:port");
  uint16_t port = 0;
  const std::string_view digits = rest.substr(1);
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  STRATA_CHECK(failure == std::errc() && end == digits.data() + digits.size(), kInvalidArgument,
               "[wire] address: got \"", text, "\" with port \"", digits,
               "\"; expected a number from 0 to 65535");
  return {.host = std::string(host), .port = port};
}

std::string Address::to_string() const {
  const bool bracket = host.find(':') != std::string::npos;
  return str_cat(bracket ? "[" : "", host, bracket ? "]:" : ":", port);
}

}  // namespace strata::wire
