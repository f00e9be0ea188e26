#include "wire/tcp/epoll_reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "strata/core/error.h"

namespace strata::wire {
namespace {

constexpr uint64_t kInterrupt = 0;  // the key of event_
constexpr int kMaxEvents = 64;

}  // namespace

EpollReactor::EpollReactor()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  STRATA_CHECK(epoll_.open() && event_.open(), kResourceExhausted,
               "[wire] transport: no file descriptor left (", std::strerror(errno),
               "); raise `ulimit -n`");
  add(event_.get(), kInterrupt, false);
}

void EpollReactor::add(int fd, uint64_t key, bool while_readable) {
  epoll_event event = {};
  event.events = while_readable ? EPOLLIN : EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = key;
  STRATA_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, kResourceExhausted,
               "[wire] transport: a connection cannot be watched (", std::strerror(errno), ")");
}

void EpollReactor::set_reported(int fd, uint64_t key, bool reported) {
  epoll_event event = {};
  if (reported) event.events = EPOLLIN;
  event.data.u64 = key;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EpollReactor::poll(std::vector<uint64_t>& ready, TimePoint until) {
  int timeout_ms = 0;
  if (until != TimePoint::min()) {
    const auto left = until - std::chrono::steady_clock::now();
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    timeout_ms = static_cast<int>(std::clamp<int64_t>(ms, 0, 60'000));
  }
  epoll_event events[kMaxEvents];
  const int count = ::epoll_wait(epoll_.get(), events, kMaxEvents, timeout_ms);
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events[i].data.u64;
    if (key == kInterrupt) continue;
    constexpr uint32_t kGone = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    const uint64_t reported = (events[i].events & kGone) != 0 ? key | kHungUp : key;
    const auto there = std::ranges::find(ready, key);
    if (there == ready.end()) {
      ready.push_back(reported);
    } else {
      *there = reported;
    }
  }
}

// Edge-triggered: every write is an event, so no caller needs to read it.
void EpollReactor::interrupt() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
}

}  // namespace strata::wire
