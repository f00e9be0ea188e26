#include "cluster/local_host.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "strata/core/error.h"
#include "wire/tcp/resolve.h"

namespace strata::cluster {

void look_up_host(const std::string& host, wire::Deadline deadline) {
  (void)wire::resolve({.host = host, .port = 0}, true, deadline);
}

std::string local_host_towards(const std::string& host, wire::Deadline deadline) {
  constexpr uint16_t kAnyPort = 9;
  int error = 0;
  for (const auto& each : wire::resolve({.host = host, .port = kAnyPort}, false, deadline)) {
    const auto* const there = reinterpret_cast<const sockaddr*>(&each.address);
    const int fd = ::socket(there->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage own = {};
    socklen_t size = sizeof own;
    // Connecting a datagram socket sends nothing; it asks the routing table.
    const bool routed = fd >= 0 && ::connect(fd, there, each.size) == 0 &&
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
