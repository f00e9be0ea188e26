#include "tools/launch/port_reservation.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "strata/core/error.h"

namespace strata::tools {

PortReservation::PortReservation(int count) {
  for (int i = 0; i < count; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    const bool bound = fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                       ::bind(fd, any, size) == 0 && ::getsockname(fd, any, &size) == 0;
    const int error = errno;
    if (fd >= 0) sockets_.push_back(fd);
    if (!bound) {
      close_all();
      throw Error(ErrorCode::kResourceExhausted,
                  str_cat("[strata launch] got ", i, " free ports of 127.0.0.1; expected ", count,
                          ": ", std::strerror(error)));
    }
    ports_.push_back(ntohs(address.sin_port));
  }
}

PortReservation::~PortReservation() { close_all(); }

void PortReservation::close_all() {
  for (const int fd : sockets_) ::close(fd);
  sockets_.clear();
}

}  // namespace strata::tools
