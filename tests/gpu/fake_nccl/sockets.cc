#include "gpu/fake_nccl/sockets.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace strata::test::fake_nccl {
namespace {

constexpr int kFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    throw Failure{ncclInternalError, path + " is too long"};
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

[[noreturn]] void throw_system_error(const std::string& what) {
  throw Failure{ncclSystemError, what + ": " + std::strerror(errno)};
}

int milliseconds_until(Deadline deadline) {
  if (deadline == Deadline::max()) return -1;
  using std::chrono::milliseconds;
  const auto left =
      std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now()) +
      milliseconds(1);
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000'000));
}

bool try_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<Socket> listen_at(const std::string& path) {
  Socket socket(::socket(AF_UNIX, kFlags, 0));
  const sockaddr_un address = address_of(path);
  if (!socket) throw_system_error("socket");
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EADDRINUSE) return std::nullopt;
    throw_system_error("bind " + path);
  }
  if (::listen(socket.fd(), 1024) != 0) throw_system_error("listen " + path);
  return socket;
}

std::optional<Socket> connect_to(const std::string& path) {
  Socket socket(::socket(AF_UNIX, kFlags, 0));
  const sockaddr_un address = address_of(path);
  if (!socket) throw_system_error("socket");
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return std::nullopt;
  }
  return socket;
}

std::optional<Socket> accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return std::nullopt;
  return socket;
}

void wait_for_socket(int first, int second, short events, const StopSignal& stop,
                     Deadline deadline) {
  std::array<pollfd, 3> polled = {
      {{stop.fd(), POLLIN, 0}, {first, events, 0}, {second, events, 0}}};
  for (;;) {
    const int ready = ::poll(polled.data(), polled.size(), milliseconds_until(deadline));
    if (stop.requested()) throw Stopped{};
    if (ready > 0) return;
    if (ready == 0) throw Failure{ncclSystemError, "a connection has not been made in time"};
    if (errno != EINTR) throw_system_error("poll");
  }
}

bool receive_all(const Socket& socket, void* data, size_t bytes, const StopSignal& stop,
                 Deadline deadline) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket.fd(), to, bytes, 0);
    if (got == 0) return false;
    if (got < 0) {
      if (!try_again(errno)) return false;
      wait_for_socket(socket.fd(), -1, POLLIN, stop, deadline);
      continue;
    }
    to += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool send_all(const Socket& socket, const void* data, size_t bytes, const StopSignal& stop,
              Deadline deadline) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket.fd(), from, bytes, MSG_NOSIGNAL);
    if (sent < 0) {
      if (!try_again(errno)) return false;
      wait_for_socket(socket.fd(), -1, POLLOUT, stop, deadline);
      continue;
    }
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace strata::test::fake_nccl
