#pragma once

#include <cstddef>
#include <vector>

namespace strata::tools {

/// Free ports of 127.0.0.1 that stay this process's until it ends: two launches at the same time
/// never get the same one, and no connection takes one for its own end, also while a task is
/// started again.
///
/// Each is bound by a socket that does not listen. Linux lets another socket bind to the same port
/// and listen there if both have SO_REUSEADDR, as the sockets of wire::Transport and of most
/// servers have; the system itself does not assign such a port. So tasks need nothing but their
/// address: no socket is handed down, and there is no moment at which the port is free.
class PortReservation {
 public:
  /// @throws Error  kResourceExhausted: not that many are free.
  explicit PortReservation(int count);
  ~PortReservation();
  PortReservation(const PortReservation&) = delete;
  PortReservation& operator=(const PortReservation&) = delete;

  int operator[](size_t i) const { return ports_[i]; }

 private:
  void close_all();

  std::vector<int> sockets_;
  std::vector<int> ports_;
};

}  // namespace strata::tools
