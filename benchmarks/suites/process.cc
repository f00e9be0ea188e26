#include "suites/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <thread>

#include "strata/core/error.h"

namespace strata::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Runs in the child between fork and exec: system calls only.
[[noreturn]] void become(const ProcessSpec& spec, char** argv, int in, int out, int log) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_DFL);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  if (log >= 0) dup2(log, STDERR_FILENO);
  if (!spec.cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : spec.cpus) CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
  }
  for (const auto& [name, value] : spec.environment) setenv(name.c_str(), value.c_str(), 1);
  execvp(argv[0], argv);
  const char* text = strerror(errno);
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
  _exit(127);
}

}  // namespace

BenchProcess::BenchProcess(const ProcessSpec& spec, std::string log_path)
    : log_path_(std::move(log_path)) {
  int in[2], out[2];
  STRATA_CHECK(pipe2(in, O_CLOEXEC) == 0, kUnavailable,
               "[bench] start: got no pipe: ", strerror(errno));
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    STRATA_CHECK(false, kUnavailable, "[bench] start: got no pipe: ", strerror(errno));
  }
  const int log = open(log_path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  std::vector<char*> argv;
  for (const std::string& argument : spec.argv) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) become(spec, argv.data(), in[0], out[1], log);
  close(in[0]);
  close(out[1]);
  if (log >= 0) close(log);
  to_child_ = in[1];
  from_child_ = out[0];
  if (pid_ < 0) {
    close(to_child_);
    close(from_child_);
    STRATA_CHECK(false, kUnavailable, "[bench] start: fork failed: ", strerror(errno));
  }
}

BenchProcess::~BenchProcess() {
  end_input();
  close(from_child_);
  for (int i = 0; i < 100; ++i) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void BenchProcess::freeze() { kill(pid_, SIGSTOP); }
void BenchProcess::thaw() { kill(pid_, SIGCONT); }

void BenchProcess::end_input() {
  if (to_child_ >= 0) close(to_child_);
  to_child_ = -1;
}

void BenchProcess::send(const std::string& line) {
  const std::string text = line + "\n";
  const ssize_t written = write(to_child_, text.data(), text.size());
  STRATA_CHECK(written == static_cast<ssize_t>(text.size()), kUnavailable,
               "it ended: ", last_log_line());
}

std::string BenchProcess::receive(Clock::time_point deadline) {
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    STRATA_CHECK(left.count() > 0, kDeadlineExceeded, "it does not answer");
    pollfd poll_fd{from_child_, POLLIN, 0};
    const int ready = poll(&poll_fd, 1, static_cast<int>(left.count()));
    if (ready <= 0) continue;
    char chunk[4096];
    const ssize_t count = read(from_child_, chunk, sizeof(chunk));
    if (count < 0 && errno == EINTR) continue;
    STRATA_CHECK(count > 0, kUnavailable, "it ended: ", last_log_line());
    buffer_.append(chunk, static_cast<size_t>(count));
  }
}

double BenchProcess::cpu_seconds() const {
  clockid_t clock;
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

BenchProcess::Memory BenchProcess::memory() const {
  Memory memory;
  std::ifstream in("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(in, line);) {
    const auto kilobytes = [&line] {
      return std::strtod(line.c_str() + line.find(':') + 1, nullptr);
    };
    if (line.rfind("VmHWM:", 0) == 0) memory.peak = 1024 * kilobytes();
    if (line.rfind("RssFile:", 0) == 0) memory.files = 1024 * kilobytes();
  }
  return memory;
}

void BenchProcess::reset_peak_memory() const {
  std::ofstream("/proc/" + std::to_string(pid_) + "/clear_refs") << "5";
}

std::string BenchProcess::last_log_line() const {
  std::ifstream in(log_path_);
  std::string line, last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return last.empty() ? "it printed nothing" : last.substr(0, 300);
}

}  // namespace strata::bench
