#pragma once

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

extern char** environ;

namespace strata::test {

/// What became of a training program. It prints "starts at step N" when its state is restored, and
/// "sha256 <digest>" at its end.
struct Outcome {
  int exit_code = -1;
  int signal = 0;
  std::string output;

  std::string sha256() const {
    const size_t at = output.find("sha256 ");
    return at == std::string::npos ? "none: " + output : output.substr(at + 7, 64);
  }
  long first_step() const {
    const size_t at = output.find("step ");
    return at == std::string::npos ? -1 : std::strtol(output.c_str() + at + 5, nullptr, 10);
  }
};

/// What happens to a program once, given its process.
struct Disturbance {
  int after_ms;
  bool from_start;  // or since it has restored its state, which it says in its first line
  std::function<void(pid_t)> act;
};

/// Runs `program`. One that prints nothing for two minutes is killed.
inline Outcome run_program(const std::string& program, const std::vector<std::string>& arguments,
                           const std::optional<Disturbance>& disturbance) {
  constexpr int kDeadlineMs = 120'000;
  int ends[2] = {};
  if (::pipe(ends) != 0) return {};
  std::vector<std::string> all = {program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& each : all) argv.push_back(each.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed != 0) return {};

  Outcome outcome;
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> due;
  bool sent = false;
  while (true) {
    const bool started = outcome.output.find('\n') != std::string::npos;
    pollfd wait = {.fd = ends[0], .events = POLLIN, .revents = 0};
    const bool timed = disturbance && (started || disturbance->from_start) && !sent;
    if (timed && !due) due = Clock::now() + std::chrono::milliseconds(disturbance->after_ms);
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(due.value_or(Clock::now()) - Clock::now());
    const int ready =
        ::poll(&wait, 1, timed ? std::max(0, static_cast<int>(left.count())) : kDeadlineMs);
    if (timed && Clock::now() >= *due) {
      disturbance->act(pid);
      sent = true;
    } else if (ready == 0 && !timed) {
      ::kill(pid, SIGKILL);
      outcome.output += "(nothing for two minutes)";
    }
    if (ready == 0) continue;
    char text[4096];
    const ssize_t got = ::read(ends[0], text, sizeof text);
    if (got <= 0) break;
    outcome.output.append(text, static_cast<size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  return outcome;
}

/// `signal` is sent `after_ms` after it has restored its state.
inline Outcome run_program(const std::string& program, const std::vector<std::string>& arguments,
                           std::optional<int> after_ms = std::nullopt, int signal = SIGKILL) {
  if (!after_ms) return run_program(program, arguments, std::optional<Disturbance>());
  return run_program(program, arguments, Disturbance{*after_ms, false, [signal](pid_t process) {
                                                       ::kill(process, signal);
                                                     }});
}

inline int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace strata::test
