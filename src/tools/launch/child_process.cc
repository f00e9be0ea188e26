#include "tools/launch/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

#include "strata/core/error.h"
#include "tools/launch/orphan_reaper.h"

extern char** environ;

namespace strata::tools {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!more.contains(std::string(text.substr(0, text.find('='))))) variables.emplace_back(text);
  }
  for (const auto& [name, value] : more) variables.push_back(str_cat(name, "=", value));
  return variables;
}

struct Pipe {
  int from = -1;
  int to = -1;

  Pipe() {
    int ends[2] = {};
    STRATA_CHECK(::pipe2(ends, O_CLOEXEC) == 0, kResourceExhausted,
                 "[strata launch] got no pipe: ", std::strerror(errno),
                 "; raise `ulimit -n` or start fewer tasks");
    from = ends[0];
    to = ends[1];
  }
  ~Pipe() {
    if (from >= 0) ::close(from);
    if (to >= 0) ::close(to);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

// What the child needs, made before the fork: afterwards only system calls are safe.
struct Preparation {
  const char* program;
  char** argv;
  char** envp;
  const cpu_set_t* cores;  // nullptr: unchanged
  pid_t parent;
  int in, out, err;
  int report;  // gets errno if it cannot become the program
};

[[noreturn]] void become(const Preparation& to, const OrphanReaper& guard) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != to.parent) ::_exit(127);  // it went before the line above
  bool fine = guard.watch(::getpid());
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  fine = fine && ::dup2(to.in, STDIN_FILENO) >= 0 && ::dup2(to.out, STDOUT_FILENO) >= 0 &&
         ::dup2(to.err, STDERR_FILENO) >= 0;
  if (to.cores != nullptr) fine = fine && ::sched_setaffinity(0, sizeof *to.cores, to.cores) == 0;
  if (fine) ::execve(to.program, to.argv, to.envp);
  const int error = errno;
  [[maybe_unused]] const ssize_t ignored = ::write(to.report, &error, sizeof error);
  ::_exit(127);
}

// 0 when the child has become the program.
int why_not(int report) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(report, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == sizeof error ? error : 0;
}

Error not_started(const std::string& program, int error) {
  const bool no_guard = error == EPIPE;  // it receives the child's number
  const bool no_room = error == ENOMEM || error == EAGAIN || error == EMFILE || error == ENFILE;
  return {no_guard  ? ErrorCode::kUnavailable
          : no_room ? ErrorCode::kResourceExhausted
                    : ErrorCode::kInvalidArgument,
          str_cat("[strata launch] ", program, " cannot be started: ",
                  no_guard ? "the launcher's guard process has ended; start the job again"
                           : std::strerror(error))};
}

}  // namespace

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name != nullptr ? str_cat("SIG", name) : str_cat("signal ", signal);
}

std::string ChildEnd::to_string() const {
  if (signal == 0) return str_cat("exit code ", code);
  return str_cat(signal_name(signal), " (", ::strsignal(signal), core_dumped ? ", core dumped" : "",
                 ")");
}

std::string find_program(const std::string& name) {
  const auto check = [&](bool fine, ErrorCode code, const std::string& why) {
    if (!fine) throw Error(code, str_cat("[strata launch] got the program ", name, why));
  };
  check(!name.empty(), ErrorCode::kNotFound, "\"\", an empty name");
  if (name.find('/') != std::string::npos) {
    check(::access(name.c_str(), F_OK) == 0, ErrorCode::kNotFound, ", which does not exist");
    check(::access(name.c_str(), X_OK) == 0, ErrorCode::kPermissionDenied,
          ", which is not executable; chmod +x it");
    return name;
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = str_cat(folder.empty() ? "." : folder, "/", name);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  check(::access(name.c_str(), X_OK) != 0, ErrorCode::kNotFound,
        str_cat(", which is not in PATH; did you mean ./", name, "?"));
  check(false, ErrorCode::kNotFound, ", which is not in PATH");
  return {};
}

ChildProcess::ChildProcess(const ChildSpec& spec, const OrphanReaper& guard)
    : guard_(guard), elsewhere_(spec.input.has_value()), unwritten_(spec.input.value_or("")) {
  std::vector<std::string> words = {spec.program};
  words.insert(words.end(), spec.arguments.begin(), spec.arguments.end());
  std::vector<std::string> variables = environment_with(spec.environment);
  const std::vector<char*> argv = pointers_to(words);
  const std::vector<char*> envp = pointers_to(variables);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : spec.cores) CPU_SET(core, &cores);

  Pipe out, err, report;
  // A socket, since writing to one that is closed need not raise a signal.
  int input[2] = {-1, -1};
  STRATA_CHECK(!elsewhere_ || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input) == 0,
               kResourceExhausted, "[strata launch] got no socket: ", std::strerror(errno),
               "; raise `ulimit -n` or start fewer tasks");
  in_ = input[1];
  const int from = elsewhere_ ? input[0] : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const Preparation to = {.program = spec.program.c_str(),
                          .argv = const_cast<char**>(argv.data()),
                          .envp = const_cast<char**>(envp.data()),
                          .cores = spec.cores.empty() ? nullptr : &cores,
                          .parent = ::getpid(),
                          .in = from,
                          .out = out.to,
                          .err = err.to,
                          .report = report.to};
  pid_ = ::fork();
  if (pid_ == 0) become(to, guard);
  int error = pid_ < 0 ? errno : 0;
  if (from >= 0) ::close(from);
  if (pid_ < 0) {
    close_all();
    throw Error(ErrorCode::kResourceExhausted,
                str_cat("[strata launch] got no process: ", std::strerror(error)));
  }
  ::setpgid(pid_, pid_);  // as the child does: whichever comes first
  ::close(std::exchange(report.to, -1));
  error = why_not(report.from);
  end_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  if (error == 0 && end_fd_ < 0) error = errno;
  out_ = std::exchange(out.from, -1);
  err_ = std::exchange(err.from, -1);
  ::fcntl(out_, F_SETFL, O_NONBLOCK);
  ::fcntl(err_, F_SETFL, O_NONBLOCK);
  if (error != 0) {
    ::kill(-pid_, SIGKILL);
    guard_.forget(pid_);
    ::waitpid(pid_, nullptr, 0);
    close_all();
    throw not_started(spec.program, error);
  }
}

ChildProcess::~ChildProcess() {
  if (!reaped_) {
    // SIGKILL ends it, unless the system holds it in a call: then it is left behind.
    constexpr int kLongestMs = 5000;
    ::kill(-pid_, SIGKILL);
    pollfd ended = {.fd = end_fd_, .events = POLLIN, .revents = 0};
    ::poll(&ended, 1, kLongestMs);
    guard_.forget(pid_);
    ::waitpid(pid_, nullptr, WNOHANG);
  }
  close_all();
}

void ChildProcess::close_all() {
  for (int* const fd : {&end_fd_, &in_, &out_, &err_}) {
    if (*fd >= 0) ::close(std::exchange(*fd, -1));
  }
}

void ChildProcess::signal(int number) {
  if (reaped_) return;
  if (!elsewhere_) {
    ::kill(-pid_, number);
  } else if (number == SIGKILL) {
    if (in_ >= 0) ::close(std::exchange(in_, -1));
    unwritten_.clear();
  } else if (in_ >= 0) {
    const char* const name = ::sigabbrev_np(number);
    unwritten_ += str_cat(name != nullptr ? name : "TERM", "\n");
    write();
  }
}

void ChildProcess::write() {
  while (in_ >= 0 && !unwritten_.empty()) {
    const ssize_t sent =
        ::send(in_, unwritten_.data(), unwritten_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) {  // it reads no more: its end tells why
      unwritten_.clear();
      return;
    }
    unwritten_.erase(0, static_cast<size_t>(sent));
  }
}

void ChildProcess::send_heartbeat() {
  if (!elsewhere_ || in_ < 0 || !unwritten_.empty()) return;
  unwritten_ = "\n";
  write();
}

std::optional<ChildEnd> ChildProcess::reap() {
  siginfo_t info = {};
  const int failed = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (reaped_ || failed != 0 || info.si_pid != pid_) return std::nullopt;
  // As long as it is not reaped its number is not reused.
  ::kill(-pid_, SIGKILL);
  guard_.forget(pid_);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  reaped_ = true;
  ChildEnd end;
  if (WIFEXITED(status)) end.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
    end.core_dumped = WCOREDUMP(status);
  }
  constexpr int kSignals = 128;  // above it, as shells count
  if (elsewhere_ && end.code > kSignals && end.code < kSignals + NSIG) {
    end.signal = std::exchange(end.code, 0) - kSignals;
  }
  return end;
}

}  // namespace strata::tools
