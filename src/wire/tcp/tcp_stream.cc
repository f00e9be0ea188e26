#include "wire/tcp/tcp_stream.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace strata::wire {
namespace {

bool on_this_host(int fd) {
  sockaddr_storage here = {};
  sockaddr_storage there = {};
  socklen_t here_size = sizeof here;
  socklen_t there_size = sizeof there;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) == 0 &&
         address_of(here, here_size).host == address_of(there, there_size).host;
}

}  // namespace

TcpStream::TcpStream(FileDescriptor fd, bool connecting, EpollReactor& reactor)
    : fd_(std::move(fd)), connecting_(connecting), reactor_(reactor) {
  const int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Stream::Outcome TcpStream::failed_with(int error) {
  return failed(ErrorCode::kUnavailable,
                str_cat(connecting_ ? "" : "the peer has disconnected: ", std::strerror(error)));
}

Stream::Outcome TcpStream::establish() {
  if (!connecting_) {
    // There is no congestion within a host, and BBR's pacing costs up to half of the rate there.
    constexpr char kPlain[] = "reno";
    if (on_this_host(fd_.get()))
      ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_CONGESTION, kPlain, sizeof kPlain - 1);
    return Outcome::kMoved;
  }
  pollfd wait = {.fd = fd_.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&wait, 1, 0) == 0) return Outcome::kBlocked;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return failed_with(error);
  connecting_ = false;
  return establish();
}

Stream::Result TcpStream::write(std::span<const iovec> parts) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  while (true) {
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) return {Outcome::kMoved, static_cast<size_t>(sent)};
    if (sent < 0 && errno == EINTR) continue;
    if (sent == 0 || errno == EAGAIN || errno == EWOULDBLOCK) return {Outcome::kBlocked};
    return {failed_with(errno)};
  }
}

Stream::Result TcpStream::read(std::span<const iovec> parts) {
  size_t asked = 0;
  for (const iovec& part : parts) asked += part.iov_len;
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  while (true) {
    const ssize_t came = parts.size() == 1
                             ? ::recv(fd_.get(), parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT)
                             : ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (came > 0) {
      received_any_ = true;
      const auto bytes = static_cast<size_t>(came);
      return {Outcome::kMoved, bytes, bytes < asked};
    }
    if (came == 0) return {Outcome::kEnd};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {Outcome::kBlocked};
    return {failed_with(errno)};
  }
}

void TcpStream::end() { ::shutdown(fd_.get(), SHUT_WR); }

Address address_of(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "0";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port,
                sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return {.host = host, .port = static_cast<uint16_t>(std::strtoul(port, nullptr, 10))};
}

}  // namespace strata::wire
