#pragma once

#include <sys/socket.h>

#include <memory>

#include "wire/address.h"
#include "wire/stream.h"
#include "wire/tcp/epoll_reactor.h"
#include "wire/tcp/file_descriptor.h"

namespace strata::wire {

/// A TCP connection, or one that is being made.
class TcpStream final : public Stream {
 public:
  /// `reactor` must outlive the call of `watch`.
  TcpStream(FileDescriptor fd, bool connecting, EpollReactor& reactor);

  void watch(uint64_t key) override { reactor_.add(fd_.get(), key, false); }
  Outcome establish() override;
  Result write(std::span<const iovec> parts) override;
  Result read(std::span<const iovec> parts) override;
  void end() override;
  void close() override { fd_.close(); }
  bool received_any_bytes() const override { return received_any_; }

 private:
  Outcome failed_with(int error);

  FileDescriptor fd_;
  bool connecting_;
  bool received_any_ = false;
  EpollReactor& reactor_;
};

/// Where a socket is, or its peer.
Address address_of(const sockaddr_storage& address, socklen_t size);

}  // namespace strata::wire
