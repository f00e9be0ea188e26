#include "cluster/address.h"

#include <algorithm>
#include <charconv>

#include "strata/core/str_cat.h"

namespace strata::cluster {

std::string what_is_wrong_with_address(std::string_view address) {
  if (address.find("://") != std::string_view::npos) return "it has a scheme";
  const size_t colon = address.rfind(':');
  const bool v6 = address.starts_with('[');
  if (colon == std::string_view::npos || (v6 && address[colon - 1] != ']')) return "it has no port";
  const std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  if (!v6 && host.find(':') != std::string_view::npos) {
    return "it has several colons (an IPv6 address stands in brackets, [::1]:2222)";
  }
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number > 65535) {
    return str_cat("\"", port, "\" is no port from 0 to 65535");
  }
  if (host.empty() && number != 0) return "it has no host";
  const bool blank =
      std::ranges::any_of(host, [](unsigned char c) { return c <= ' ' || c == '/'; });
  return blank ? "its host has a blank or a slash" : "";
}

}  // namespace strata::cluster
