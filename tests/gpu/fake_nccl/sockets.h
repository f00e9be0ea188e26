#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "gpu/fake_nccl/failure.h"

namespace strata::test::fake_nccl {

using Deadline = std::chrono::steady_clock::time_point;

/// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A Unix-domain socket that listens at `path`; nothing if another does.
/// @throws Failure  ncclSystemError.
std::optional<Socket> listen_at(const std::string& path);

/// Nothing if no process listens there.
std::optional<Socket> connect_to(const std::string& path);

std::optional<Socket> accept_from(const Socket& listener);

/// Waits until one of two sockets (`second` may be -1) has something to read or, with `events` POLLOUT, takes something.
/// @throws Stopped.  Failure  ncclSystemError: the deadline has passed.
void wait_for_socket(int first, int second, short events, const StopSignal& stop,
                     Deadline deadline);

/// Both return false when the other side has closed the connection.
/// @throws Stopped.  Failure  ncclSystemError: the deadline has passed.
bool receive_all(const Socket& socket, void* data, size_t bytes, const StopSignal& stop,
                 Deadline deadline);
bool send_all(const Socket& socket, const void* data, size_t bytes, const StopSignal& stop,
              Deadline deadline);

}  // namespace strata::test::fake_nccl
