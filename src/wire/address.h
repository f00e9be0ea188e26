#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "strata/core/export.h"

namespace strata::wire {

/// The address of a task: a name, an IPv4 or an IPv6 address, and a port.
struct STRATA_API Address {
  std::string host;   ///< "worker-1.example", "10.0.0.3", "::1" (no brackets)
  uint16_t port = 0;  ///< 0 to listen: the system picks one

  /// Reads "host:port" and "[::1]:port". Names are not looked up here.
  /// @throws Error kInvalidArgument: quotes the part that is wrong.
  static Address parse(std::string_view text);

  /// Prints the form that `parse` reads.
  std::string to_string() const;

  friend bool operator==(const Address&, const Address&) = default;
};

}  // namespace strata::wire
