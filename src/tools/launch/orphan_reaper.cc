#include "tools/launch/orphan_reaper.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include "strata/core/error.h"

namespace strata::tools {
namespace {

// The guard's life: numbers come, negative ones to be forgotten, until the launcher's end
// closes.
[[noreturn]] void guard(int from_launcher, const std::string& folder) {
  ::setsid();  // Ctrl-C is not for it
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  ::prctl(PR_SET_NAME, "strata-guard");
  ::dup2(from_launcher, 0);
  ::close_range(1, ~0U, 0);  // the launcher's output must not stay open here
  std::set<pid_t> groups;
  int32_t number = 0;
  while (true) {
    const ssize_t got = ::recv(0, &number, sizeof number, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof number) break;
    if (number > 0) {
      groups.insert(number);
    } else {
      groups.erase(-number);
    }
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
  ::_exit(0);
}

bool send_number(int fd, int32_t number) {
  ssize_t sent = 0;
  do {
    sent = ::send(fd, &number, sizeof number, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == sizeof number;
}

}  // namespace

OrphanReaper::OrphanReaper(const std::string& folder) {
  int ends[2] = {};
  STRATA_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0,
               kResourceExhausted, "[strata launch] got no socket: ", std::strerror(errno));
  guard_ = ::fork();
  if (guard_ == 0) {
    ::close(ends[1]);
    guard(ends[0], folder);
  }
  ::close(ends[0]);
  to_guard_ = ends[1];
  if (guard_ < 0) {
    const int error = errno;
    ::close(to_guard_);
    throw Error(ErrorCode::kResourceExhausted,
                str_cat("[strata launch] got no process: ", std::strerror(error)));
  }
}

OrphanReaper::~OrphanReaper() {
  ::close(to_guard_);
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool OrphanReaper::watch(pid_t group) const { return send_number(to_guard_, group); }

void OrphanReaper::forget(pid_t group) const { (void)send_number(to_guard_, -group); }

}  // namespace strata::tools
