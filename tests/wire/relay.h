#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/thread.h"
#include "wire/address.h"
#include "wire/tcp/file_descriptor.h"

namespace strata::wire {

/// A stretch of network on the way to `to`: passes on what comes, and keeps a copy. It can be cut.
/// Threads: any.
class Relay {
 public:
  /// @param port  Where it listens; 0: anywhere.
  explicit Relay(const Address& to, uint16_t port = 0)
      : to_(to), listener_(::socket(AF_INET, kSocket, 0)) {
    const int on = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address = loopback(port);
    socklen_t size = sizeof address;
    ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_.get(), 16);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    door_ = Thread("relay", [this] { let_in(); });
  }
  ~Relay() { cut(); }

  uint16_t port() const { return port_; }
  Address address() const { return {.host = "127.0.0.1", .port = port_}; }

  /// What has passed, in both directions and all connections.
  std::string seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

  /// Ends the connections that there are, and lets none through from now on.
  void cut() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    if (door_.joinable()) door_.join();
    std::vector<std::unique_ptr<Pair>> gone;
    {
      const std::lock_guard lock(mutex_);
      gone.swap(pairs_);
    }
    for (const auto& pair : gone) {
      for (const FileDescriptor* end : {&pair->in, &pair->out}) ::shutdown(end->get(), SHUT_RDWR);
    }
  }

 private:
  static constexpr int kSocket = SOCK_STREAM | SOCK_CLOEXEC;

  struct Pair {
    FileDescriptor in;
    FileDescriptor out;
    Thread there;  // joined before the ends are closed
    Thread back;
  };

  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }

  void let_in() {
    while (true) {
      FileDescriptor in(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!in.open()) return;
      FileDescriptor out(::socket(AF_INET, kSocket, 0));
      const sockaddr_in to = loopback(to_.port);
      if (::connect(out.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) continue;
      auto pair = std::make_unique<Pair>();
      pair->in = std::move(in);
      pair->out = std::move(out);
      const int ends[] = {pair->in.get(), pair->out.get()};
      pair->there = Thread("relay", [this, ends] { pass_on(ends[0], ends[1]); });
      pair->back = Thread("relay", [this, ends] { pass_on(ends[1], ends[0]); });
      const std::lock_guard lock(mutex_);
      pairs_.push_back(std::move(pair));
    }
  }

  void pass_on(int from, int to) {
    std::vector<char> bytes(65536);
    while (true) {
      const ssize_t came = ::recv(from, bytes.data(), bytes.size(), 0);
      if (came <= 0) break;
      {
        const std::lock_guard lock(mutex_);
        seen_.append(bytes.data(), static_cast<size_t>(came));
      }
      ssize_t sent = 0;
      while (sent < came) {
        const ssize_t now =
            ::send(to, bytes.data() + sent, static_cast<size_t>(came - sent), MSG_NOSIGNAL);
        if (now <= 0) break;
        sent += now;
      }
      if (sent < came) break;
    }
    ::shutdown(to, SHUT_WR);
  }

  const Address to_;
  FileDescriptor listener_;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::string seen_;
  Thread door_;
};

}  // namespace strata::wire
