#pragma once

#include <cstdint>
#include <string>

namespace strata::standalone {

/// A port of this host that stays this process's while it lives, without listening: a socket with
/// SO_REUSEADDR, as those of wire::Transport are, can listen there meanwhile.
class ReservedPort {
 public:
  /// @param host  An address of this host, or a name of one.
  /// @throws Error  kUnavailable: no such address here, or no port is free.
  explicit ReservedPort(const std::string& host);
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  uint16_t number() const { return number_; }

 private:
  int socket_ = -1;
  uint16_t number_ = 0;
};

}  // namespace strata::standalone
