#include "strategies/standalone/reserved_port.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "strata/core/error.h"

namespace strata::standalone {

ReservedPort::ReservedPort(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int looked_up = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), "0", &hints, &found);
  STRATA_CHECK(looked_up == 0, kUnavailable, "[standalone] port: got the host '", host,
               "': ", ::gai_strerror(looked_up), "; start the server with an address of its host");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  socket_ = ::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  auto* const any = reinterpret_cast<sockaddr*>(&bound);
  const bool good = socket_ >= 0 &&
                    ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                    ::bind(socket_, list->ai_addr, list->ai_addrlen) == 0 &&
                    ::getsockname(socket_, any, &size) == 0;
  const int error = errno;
  if (!good && socket_ >= 0) ::close(socket_);
  STRATA_CHECK(good, kUnavailable, "[standalone] port: no port of '", host,
               "': ", std::strerror(error), "; start the server with an address of its host");
  number_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                              : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

ReservedPort::~ReservedPort() { ::close(socket_); }

}  // namespace strata::standalone
