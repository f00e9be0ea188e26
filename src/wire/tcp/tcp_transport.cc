#include "wire/tcp/tcp_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/log_limiter.h"
#include "strata/core/log.h"
#include "wire/tcp/resolve.h"
#include "wire/tcp/tcp_stream.h"

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

/// What is sent must be acknowledged within the limit; where nothing is sent, the system asks.
void limit_silence(int fd, std::chrono::milliseconds limit) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  const auto seconds = [](std::chrono::milliseconds time) {  // at least one
    return static_cast<int>(std::max<int64_t>(1, time.count() / 1000));
  };
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit.count()));
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds(limit / 2));
  set(IPPROTO_TCP, TCP_KEEPINTVL, seconds(limit / 4));
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

class TcpTransport final : public StreamTransport {
 public:
  TcpTransport(const StreamTransportOptions& options, std::chrono::milliseconds silence,
               std::unique_ptr<Reactor> reactor, EpollReactor& epoll, MakeStream make_stream)
      : StreamTransport(std::move(reactor), options),
        silence_(silence),
        reactor_(epoll),
        make_stream_(std::move(make_stream)) {}
  ~TcpTransport() override { shut_down(); }

 private:
  /// Lets peers in, a few at a time, so that those that are in are heard between two bursts. Where
  /// the process is out of descriptors or memory it stops listening for a while, which grows: the
  /// peers stay in the system's queue meanwhile.
  class Listener final : public Pollable {
   public:
    /// @throws Error  kResourceExhausted: no descriptor left.
    Listener(TcpTransport& transport, FileDescriptor fd)
        : transport_(transport),
          fd_(std::move(fd)),
          timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
          key_(transport.progress_engine()->new_key()),
          resume_(std::make_shared<Resume>(*this)) {
      STRATA_CHECK(timer_.open(), kResourceExhausted,
                   "[wire] listen: no file descriptor left; raise `ulimit -n`");
    }

    /// From now on peers are let in.
    void start(const std::shared_ptr<Listener>& self) {
      transport_.progress_engine()->set(key_, self);
      transport_.reactor_.add(fd_.get(), key_, true);
      const uint64_t resume_key = transport_.progress_engine()->new_key();
      transport_.progress_engine()->set(resume_key, resume_);
      transport_.reactor_.add(timer_.get(), resume_key, true);
    }

    bool ready(bool&, bool) override {
      bool any = false;
      for (int i = 0; i < kBurst; ++i) {
        sockaddr_storage from = {};
        socklen_t size = sizeof from;
        FileDescriptor fd(::accept4(fd_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                                    SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd.open()) {
          pause_ = kFirstPause;
          transport_.come_in(std::move(fd), address_of(from, size));
          any = true;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
          const int error = errno;
          if (transport_.reject_idle_handshake()) continue;
          rest(error);
          return any;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
          return any;
        }  // else: that one has ended already
      }
      return any;
    }

   private:
    static constexpr int kBurst = 16;
    static constexpr std::chrono::milliseconds kFirstPause{50};
    static constexpr std::chrono::milliseconds kLongestPause{1000};

    /// The timer of a rest has run out.
    class Resume final : public Pollable {
     public:
      explicit Resume(Listener& listener) : listener_(listener) {}
      bool ready(bool&, bool) override {
        uint64_t times = 0;
        if (::read(listener_.timer_.get(), &times, sizeof times) <= 0) return false;
        listener_.transport_.reactor_.set_reported(listener_.fd_.get(), listener_.key_, true);
        return true;
      }

     private:
      Listener& listener_;
    };

    void rest(int error) {
      if (const auto count = refusals_.admit()) {
        STRATA_LOG(kWarning) << "[wire] no peer can be admitted for " << pause_.count()
                             << " ms: " << std::strerror(error)
                             << (error == EMFILE ? str_cat("; this process may have ", open_limit(),
                                                           " open; raise `ulimit -n`")
                                                 : std::string())
                             << *count;
      }
      transport_.reactor_.set_reported(fd_.get(), key_, false);
      itimerspec time = {};
      time.it_value.tv_sec = pause_.count() / 1000;
      time.it_value.tv_nsec = pause_.count() % 1000 * 1'000'000;
      ::timerfd_settime(timer_.get(), 0, &time, nullptr);
      pause_ = std::min(2 * pause_, kLongestPause);
    }

    static uint64_t open_limit() {
      rlimit limit = {};
      ::getrlimit(RLIMIT_NOFILE, &limit);
      return limit.rlim_cur;
    }

    TcpTransport& transport_;
    const FileDescriptor fd_;
    const FileDescriptor timer_;
    const uint64_t key_;
    const std::shared_ptr<Resume> resume_;
    std::chrono::milliseconds pause_ = kFirstPause;
    strata::detail::LogLimiter refusals_{1};
  };

  std::unique_ptr<Stream> make_stream(FileDescriptor fd, bool connects) {
    if (silence_.count() > 0) limit_silence(fd.get(), silence_);
    return make_stream_(std::make_unique<TcpStream>(std::move(fd), connects, reactor_), connects);
  }

  void come_in(FileDescriptor fd, const Address& from) {
    on_incoming_stream(make_stream(std::move(fd), false), from);
  }

  Address start_listening(const Address& address) override {
    const auto limit = Deadline::after(std::chrono::seconds(10));
    std::vector<SocketAddress> all;
    try {
      all = resolve(address, true, progress_engine(), limit, {});
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
        listener_->start(listener_);
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
    const auto all = resolve(address, false, progress_engine(), deadline, stop);
    const SocketAddress& to = all[dials_++ % all.size()];  // the next try takes the next one
    FileDescriptor fd(
        ::socket(to.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    STRATA_CHECK(fd.open(), kResourceExhausted, "[wire] connect: no socket: ", std::strerror(errno),
                 errno == EMFILE ? "; raise `ulimit -n`" : "");
    const int outcome =
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.address), to.size);
    STRATA_CHECK(outcome == 0 || errno == EINPROGRESS, kUnavailable, std::strerror(errno));
    return make_stream(std::move(fd), true);
  }

  const std::chrono::milliseconds silence_;
  EpollReactor& reactor_;
  const MakeStream make_stream_;
  std::shared_ptr<Listener> listener_;
  std::atomic<size_t> dials_{0};
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(const StreamTransportOptions& options,
                                              std::chrono::milliseconds silence,
                                              std::unique_ptr<Reactor> reactor, EpollReactor& epoll,
                                              MakeStream make_stream) {
  return std::make_unique<TcpTransport>(options, silence, std::move(reactor), epoll,
                                        std::move(make_stream));
}

}  // namespace strata::wire
