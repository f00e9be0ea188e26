#include "cluster/local_host.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "strata/core/error.h"

namespace strata::cluster {

namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses look_up(const std::string& host, int& failed) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  failed = ::getaddrinfo(host.c_str(), "9", &hints, &list);
  return {failed == 0 ? list : nullptr, &::freeaddrinfo};
}

}  // namespace

bool is_known_host(const std::string& host) {
  int failed = 0;
  (void)look_up(host, failed);
  return failed == 0;
}

std::string local_host_towards(const std::string& host) {
  int failed = 0;
  const Addresses list = look_up(host, failed);
  STRATA_CHECK(failed == 0, kNotFound, "[cluster] address: got the host \"", host,
               "\", which is not known: ", ::gai_strerror(failed));
  int error = 0;
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    const int fd = ::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage own = {};
    socklen_t size = sizeof own;
    // Connecting a datagram socket sends nothing; it asks the routing table.
    const bool routed = fd >= 0 && ::connect(fd, each->ai_addr, each->ai_addrlen) == 0 &&
                        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
    error = errno;
    if (fd >= 0) ::close(fd);
    char text[NI_MAXHOST];
    if (routed && ::getnameinfo(reinterpret_cast<const sockaddr*>(&own), size, text, sizeof text,
                                nullptr, 0, NI_NUMERICHOST) == 0) {
      return text;
    }
  }
  throw Error(ErrorCode::kUnavailable, str_cat("[cluster] address: no way to \"", host,
                                               "\" from here: ", std::strerror(error)));
}

}  // namespace strata::cluster
