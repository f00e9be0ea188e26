#include "multi_worker/fault_points.h"

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace strata::test {
namespace {

struct FaultPoint {
  std::string kind;
  std::string phase;
  int64_t number = -1;
  int64_t steps = 0;
};

const FaultPoint& fault() {
  static const FaultPoint wanted = [] {
    FaultPoint read;
    if (const char* text = std::getenv("STRATA_TEST_FAULT")) {
      std::istringstream(text) >> read.kind >> read.phase >> read.number >> read.steps;
    }
    return read;
  }();
  return wanted;
}

// Steps to go; 0: not (or no longer) armed. Touched by functions that run before main.
constinit std::atomic<int64_t> g_left{0};

bool is_tcp(int fd) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof peer;
  return ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
         peer.ss_family == AF_INET;
}

// While it is true nothing is sent: nobody is to hear from this process which of its connections
// was cut first.
constinit std::atomic<bool> g_cutting{false};

void cut_connections() {
  constexpr int kMostDescriptors = 1024;
  g_cutting = true;
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    if (is_tcp(fd)) ::shutdown(fd, SHUT_RDWR);
  }
  g_cutting = false;
}

void strike() {
  char line[64];
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const int size = std::snprintf(line, sizeof line, "fault %lld\n",
                                 static_cast<long long>(std::chrono::nanoseconds(now).count()));
  [[maybe_unused]] const ssize_t ignored = ::write(1, line, static_cast<size_t>(size));
  if (fault().kind == "cut") return cut_connections();
  ::kill(::getpid(), fault().kind == "stop" ? SIGSTOP : SIGKILL);
}

void protocol_step() {
  if (g_left.load(std::memory_order_relaxed) > 0 && g_left.fetch_sub(1) == 1) strike();
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool is_the_one(std::string_view name, int64_t number) {
  return fault().phase == name && fault().number == number;
}

}  // namespace

void begin_phase(std::string_view name, int64_t number) {
  static std::atomic<bool> armed = false;
  if (is_the_one(name, number) && !armed.exchange(true)) g_left = fault().steps;
}

void end_phase(std::string_view name, int64_t number) {
  if (is_the_one(name, number) && g_left.exchange(0) > 0) strike();
}

}  // namespace strata::test

// In place of the C library's, for all that is linked into this program.
extern "C" {

#define STRATA_SEEN __attribute__((visibility("default")))

STRATA_SEEN ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static auto* const real = strata::test::next<decltype(::sendmsg)>("sendmsg");
  strata::test::protocol_step();
  if (strata::test::g_cutting && strata::test::is_tcp(fd)) {
    errno = EPIPE;
    return -1;
  }
  return real(fd, message, flags);
}

STRATA_SEEN int connect(int fd, const sockaddr* address, socklen_t size) {
  static auto* const real = strata::test::next<decltype(::connect)>("connect");
  strata::test::protocol_step();
  return real(fd, address, size);
}

STRATA_SEEN int epoll_wait(int fd, epoll_event* events, int size, int timeout_ms) {
  static auto* const real = strata::test::next<decltype(::epoll_wait)>("epoll_wait");
  const int ready = real(fd, events, size, timeout_ms);
  if (ready > 0) strata::test::protocol_step();
  return ready;
}

STRATA_SEEN int fsync(int fd) {
  static auto* const real = strata::test::next<decltype(::fsync)>("fsync");
  strata::test::protocol_step();
  return real(fd);
}

STRATA_SEEN int rename(const char* from, const char* to) noexcept {
  static auto* const real = strata::test::next<int(const char*, const char*)>("rename");
  strata::test::protocol_step();
  return real(from, to);
}

// Futexes.
STRATA_SEEN long syscall(long number, ...) noexcept {
  static auto* const real = strata::test::next<long(long, ...)>("syscall");
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex) strata::test::protocol_step();
  return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
              arguments[5]);
}
}
