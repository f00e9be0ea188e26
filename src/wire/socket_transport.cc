#include "strata/wire/socket_transport.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "strata/core/log.h"
#include "wire/epoll_reactor.h"
#include "wire/resolve.h"
#include "wire/stream_transport.h"
#include "wire/tcp_stream.h"
#include "wire/tls.h"

namespace strata::wire {
namespace {

constexpr int kBacklog = 1024;

ErrorCode code_of_bind(int error) {
  switch (error) {
    case EADDRINUSE:
      return ErrorCode::kAlreadyExists;
    case EACCES:
    case EPERM:
      return ErrorCode::kPermissionDenied;
    default:
      return ErrorCode::kInvalidArgument;
  }
}

class SocketTransport final : public StreamTransport {
 public:
  SocketTransport(const SocketOptions& options, std::shared_ptr<TlsContext> tls,
                  EpollReactor& reactor, std::unique_ptr<Reactor> owned)
      : StreamTransport(std::move(owned),
                        {.eager_limit = options.eager_limit, .eager_budget = options.eager_budget}),
        reactor_(reactor),
        tls_(std::move(tls)) {}
  ~SocketTransport() override { shut_down(); }

 private:
  class Listener final : public Pollable {
   public:
    Listener(SocketTransport& transport, FileDescriptor fd)
        : transport_(transport), fd_(std::move(fd)) {}

    bool ready(bool&, bool) override {
      bool any = false;
      while (true) {
        sockaddr_storage from = {};
        socklen_t size = sizeof from;
        FileDescriptor fd(::accept4(fd_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                                    SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd.open()) {
          transport_.come_in(std::move(fd), address_of(from, size));
          any = true;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
          STRATA_LOG(kWarning) << "[wire] a peer cannot be let in: " << std::strerror(errno);
          return any;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
          return any;
        }  // else: that one has gone already
      }
    }

    int fd() const { return fd_.get(); }

   private:
    SocketTransport& transport_;
    const FileDescriptor fd_;
  };

  std::unique_ptr<Stream> make_stream(FileDescriptor fd, bool connects) {
    std::unique_ptr<Stream> stream = std::make_unique<TcpStream>(std::move(fd), connects, reactor_);
    return tls_ == nullptr ? std::move(stream) : tls_->secure(std::move(stream), connects);
  }

  void come_in(FileDescriptor fd, const Address& from) {
    knock(make_stream(std::move(fd), false), from);
  }

  Address start_listening(const Address& address) override {
    const auto limit = Deadline::after(std::chrono::seconds(10));
    std::vector<SocketAddress> all;
    try {
      all = resolve(address, true, progress_loop(), limit, {});
    } catch (const Error& error) {
      strata::detail::throw_error(
          ErrorCode::kInvalidArgument,
          str_cat("[wire] listen: got ", address.to_string(), ": ", error.what()));
    }
    int error = 0;
    for (const SocketAddress& each : all) {
      FileDescriptor fd(
          ::socket(each.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      const int on = 1;
      ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (fd.open() &&
          ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&each.address), each.size) == 0 &&
          ::listen(fd.get(), kBacklog) == 0) {
        sockaddr_storage bound = {};
        socklen_t size = sizeof bound;
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size);
        listener_ = std::make_shared<Listener>(*this, std::move(fd));
        const uint64_t key = progress_loop()->new_key();
        progress_loop()->set(key, listener_);
        reactor_.add(listener_->fd(), key, true);
        return address_of(bound, size);
      }
      if (error == 0) error = errno;
    }
    strata::detail::throw_error(
        code_of_bind(error),
        str_cat("[wire] listen: got ", address.to_string(), ": ", std::strerror(error),
                error == EADDRINUSE ? "; port 0 takes a free one" : ""));
  }

  std::unique_ptr<Stream> dial(const Address& address, Deadline deadline,
                               const std::stop_token& stop) override {
    const auto all = resolve(address, false, progress_loop(), deadline, stop);
    const SocketAddress& to = all[dials_++ % all.size()];  // the next try takes the next one
    FileDescriptor fd(
        ::socket(to.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    STRATA_CHECK(fd.open(), kResourceExhausted,
                 "[wire] connect: no socket: ", std::strerror(errno));
    const int outcome =
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.address), to.size);
    STRATA_CHECK(outcome == 0 || errno == EINPROGRESS, kUnavailable, std::strerror(errno));
    return make_stream(std::move(fd), true);
  }

  EpollReactor& reactor_;
  const std::shared_ptr<TlsContext> tls_;
  std::shared_ptr<Listener> listener_;
  std::atomic<size_t> dials_{0};
};

}  // namespace

std::unique_ptr<Transport> make_socket_transport(const SocketOptions& options) {
  std::shared_ptr<TlsContext> tls;
  if (options.tls) tls = make_tls_context(*options.tls);
  auto reactor = std::make_unique<EpollReactor>();
  EpollReactor& epoll = *reactor;
  return std::make_unique<SocketTransport>(options, std::move(tls), epoll, std::move(reactor));
}

}  // namespace strata::wire
