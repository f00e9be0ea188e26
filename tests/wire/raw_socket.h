#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "wire/address.h"
#include "wire/tcp/file_descriptor.h"

namespace strata::wire {

/// A stranger: a plain TCP connection on this host.
class RawSocket {
 public:
  explicit RawSocket(const Address& to) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(to.port);
    connected_ =
        ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }

  /// @return false: the other side has closed.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  /// What goes without waiting. @return how much.
  size_t send_some(std::string_view bytes) const {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 ? 0 : static_cast<size_t>(sent);
  }
  /// What has come.
  void throw_away() const {
    char bytes[65536];
    while (::recv(fd_.get(), bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
  }
  bool closed_by_peer() const {
    pollfd look = {.fd = fd_.get(), .events = POLLRDHUP, .revents = 0};
    return ::poll(&look, 1, 0) > 0;
  }
  void send_nothing_more() const { ::shutdown(fd_.get(), SHUT_WR); }

  /// All that comes until the other side closes, or `size` bytes.
  std::string receive(size_t size = SIZE_MAX) const {
    std::string bytes;
    while (bytes.size() < size) {
      pollfd wait = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, 30'000) <= 0) return bytes + "(nothing came for 30 s)";
      char buffer[4096];
      const size_t wanted = std::min(sizeof buffer, size - bytes.size());
      const ssize_t came = ::recv(fd_.get(), buffer, wanted, 0);
      if (came <= 0) break;
      bytes.append(buffer, static_cast<size_t>(came));
    }
    return bytes;
  }

 private:
  FileDescriptor fd_;
  bool connected_ = false;
};

}  // namespace strata::wire
