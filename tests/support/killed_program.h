#pragma once

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
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

/// Runs `program`; `signal` is sent `after_ms` after it has restored its state. A program that
/// prints nothing for two minutes is killed.
inline Outcome run_program(const std::string& program, const std::vector<std::string>& arguments,
                           std::optional<int> after_ms = std::nullopt, int signal = SIGKILL) {
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
  bool sent = false;
  while (true) {
    const bool started = outcome.output.find('\n') != std::string::npos;
    pollfd wait = {.fd = ends[0], .events = POLLIN, .revents = 0};
    const bool timed = after_ms && started && !sent;
    const int ready = ::poll(&wait, 1, timed ? *after_ms : kDeadlineMs);
    if (ready == 0) {
      ::kill(pid, timed ? signal : SIGKILL);
      if (!timed) outcome.output += "(nothing for two minutes)";
      sent = true;
      continue;
    }
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

inline int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace strata::test
