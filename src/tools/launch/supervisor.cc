#include "tools/launch/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "strata/core/error.h"

namespace strata::tools {
namespace {

constexpr size_t kReadAtOnce = size_t{64} << 10;
constexpr size_t kMostInAPipe = size_t{1} << 20;  // what the system lets a pipe hold
constexpr auto kKillTakes = std::chrono::seconds(5);

std::string seconds_text(std::chrono::nanoseconds time) {
  const auto tenths = std::chrono::round<std::chrono::milliseconds>(time).count() / 100;
  return tenths % 10 == 0 ? str_cat(tenths / 10, " s")
                          : str_cat(tenths / 10, ".", tenths % 10, " s");
}

/// Whether `line` has the task's full name ("/job:worker/task:1" of "worker:1").
bool names_task(std::string_view line, std::string_view short_name) {
  const size_t colon = short_name.find(':');
  const std::string name =
      str_cat("/job:", short_name.substr(0, colon), "/task:", short_name.substr(colon + 1));
  for (size_t at = line.find(name); at != line.npos; at = line.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (end == line.size() || line[end] < '0' || line[end] > '9') return true;
  }
  return false;
}

}  // namespace

Supervisor::Supervisor(std::vector<SupervisedTask> tasks, const SupervisorOptions& options,
                       const OrphanReaper& guard, TaskOutput& output)
    : options_(options),
      guard_(guard),
      output_(output),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      buffer_(kReadAtOnce) {
  STRATA_CHECK(wake_ >= 0, kResourceExhausted,
               "[strata launch] got no file descriptor: ", std::strerror(errno));
  for (SupervisedTask& task : tasks) {
    if (!task.host.empty()) heartbeat_ = Clock::now();
    tasks_.push_back({.spec = std::move(task)});
  }
}

Supervisor::~Supervisor() {
  for (Task& task : tasks_) {
    if (task.child) task.child->signal(SIGKILL);  // all first: each is waited for below
  }
  tasks_.clear();
  ::close(wake_);
}

void Supervisor::stop(int signal) noexcept {
  const int saved = errno;
  stop_signal_.store(signal);
  stops_.fetch_add(1);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(wake_, &one, sizeof one);
  errno = saved;
}

int Supervisor::run() {
  while (true) {
    run_once();
    if (stopped_by_ != 0 || failures_.empty()) return status();
    report();
    const auto why = may_restart(cause());
    if (!why) return status();
    output_.say(str_cat("starting all tasks again", *why));
    for (size_t i = 0; i < tasks_.size(); ++i) output_.start_again(i);
  }
}

void Supervisor::run_once() {
  phase_ = Phase::kRunning;
  deadline_.reset();
  failures_.clear();
  for (size_t i = 0; i < tasks_.size(); ++i) {
    tasks_[i].alone = false;
    start(i);
  }
  while (std::ranges::any_of(tasks_, [](const Task& task) { return task.child != nullptr; })) {
    wait();
    if (deadline_ && Clock::now() >= *deadline_) pass_deadline();
    if (heartbeat_ && Clock::now() >= *heartbeat_) send_heartbeats();
  }
}

void Supervisor::start(size_t index) {
  Task& task = tasks_[index];
  task.end.reset();
  task.started = Clock::now();
  task.child = std::make_unique<ChildProcess>(task.spec.child, guard_);
  task.out_open = task.err_open = true;
}

// Until something happens, or the deadline passes.
void Supervisor::wait() {
  enum class What { kEnd, kIn, kOut, kErr };
  struct Source {
    size_t task;
    What what;
  };
  std::vector<pollfd> fds = {{.fd = wake_, .events = POLLIN, .revents = 0}};
  std::vector<Source> sources = {{}};
  const auto watch = [&](int fd, Source source) {
    const short events = source.what == What::kIn ? POLLOUT : POLLIN;
    fds.push_back({.fd = fd, .events = events, .revents = 0});
    sources.push_back(source);
  };
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const Task& task = tasks_[i];
    if (!task.child) continue;
    if (task.child->in() >= 0) watch(task.child->in(), {i, What::kIn});
    if (task.out_open) watch(task.child->out(), {i, What::kOut});
    if (task.err_open) watch(task.child->err(), {i, What::kErr});
    watch(task.child->end_fd(), {i, What::kEnd});
  }
  int timeout_ms = -1;
  const auto next = deadline_ && heartbeat_ ? std::min(*deadline_, *heartbeat_)
                    : deadline_             ? deadline_
                                            : heartbeat_;
  if (next) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
  }
  if (::poll(fds.data(), fds.size(), timeout_ms) <= 0) return;
  take_stop();
  for (size_t i = 1; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    const auto& [task, what] = sources[i];
    if (what == What::kIn) {
      tasks_[task].child->write();
      continue;
    }
    if (what != What::kEnd) {
      read(task, false);
      continue;
    }
    if (const auto end = tasks_[task].child->reap()) note_end(task, *end);
  }
}

void Supervisor::take_stop() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(wake_, &count, sizeof count);
  if (stops_.load() == stops_taken_) return;
  const bool again = stops_.load() > stops_taken_ + 1 || stopped_by_ != 0;
  stops_taken_ = stops_.load();
  stopped_by_ = stop_signal_.load();
  output_.say(str_cat("got ", signal_name(stopped_by_), again ? " again: killing " : ": ending ",
                      names_of_running(), again ? "" : "; again kills"));
  if (again) {
    end_all(Phase::kKilled, SIGKILL);
  } else {
    end_all(Phase::kEnding, stopped_by_ == SIGINT ? SIGINT : SIGTERM);
  }
}

void Supervisor::read(size_t index, bool to_the_end) {
  Task& task = tasks_[index];
  const auto read_one = [&](int fd, bool& open, TaskOutput::Stream stream) {
    size_t total = 0;
    while (open && total < (to_the_end ? kMostInAPipe : 1)) {
      const ssize_t got = ::read(fd, buffer_.data(), buffer_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return;  // nothing more for now
      open = got > 0;
      total += static_cast<size_t>(got);
      output_.add(index, stream, {buffer_.data(), static_cast<size_t>(got)});
    }
  };
  read_one(task.child->out(), task.out_open, TaskOutput::Stream::kOut);
  read_one(task.child->err(), task.err_open, TaskOutput::Stream::kErr);
  if (output_.broken() && stopped_by_ == 0) {
    stopped_by_ = SIGPIPE;
    end_all(Phase::kEnding, SIGTERM);
  }
}

void Supervisor::note_end(size_t index, const ChildEnd& end) {
  Task& task = tasks_[index];
  read(index, true);
  output_.finish(index);
  task.child.reset();
  task.end = end;
  if (phase_ >= Phase::kEnding) return;
  if (!end.well()) {
    note_failure({.task = index,
                  .end = end,
                  .life = Clock::now() - task.started,
                  .last_lines = output_.last_lines(index)});
  }
  if (phase_ == Phase::kSettling && others_ended(false)) deadline_ = Clock::now();
  if (phase_ == Phase::kRunning && others_ended(true)) {
    phase_ = Phase::kLingering;
    deadline_ = Clock::now() + options_.linger;
  }
}

void Supervisor::note_failure(Failure failure) {
  Task& task = tasks_[failure.task];
  if (options_.elastic && phase_ <= Phase::kLingering && any_ended_well()) {
    if (!task.spec.leads && !task.spec.serves) {
      return output_.say(str_cat(task.spec.name, " ended with ", failure.end.to_string(),
                                 "; the others end without it"));
    }
  } else if (options_.elastic && phase_ <= Phase::kLingering) {
    if (const auto why = may_restart(failure)) {
      output_.say(str_cat(task.spec.name, " ended with ", failure.end.to_string(),
                          "; starting it again", *why));
      output_.start_again(failure.task);
      task.alone = true;
      return start(failure.task);
    }
  }
  // Who was asked to stop and has saved leaves the others the time to do the same.
  const auto until = Clock::now() + (preempted(failure.end)          ? options_.grace
                                     : blames_one_that_runs(failure) ? options_.settle_named
                                                                     : options_.settle);
  deadline_ = phase_ == Phase::kSettling ? std::min(*deadline_, until) : until;
  phase_ = Phase::kSettling;
  failures_.push_back(std::move(failure));
}

void Supervisor::pass_deadline() {
  deadline_.reset();
  const std::string names = names_of_running();
  if (phase_ == Phase::kKilled) {
    const std::string hosts = hosts_of_running();
    output_.say(hosts.empty()
                    ? str_cat(names, " cannot be killed: the system holds it; leaving it behind")
                    : str_cat("no answer from ", hosts, ", where ", names,
                              " ran; what still runs there ends by itself within ",
                              seconds_text(options_.host_timeout)));
    for (Task& task : tasks_) task.child.reset();
    return;
  }
  if (phase_ == Phase::kEnding) {
    output_.say(str_cat(names, " did not end within ", seconds_text(options_.grace), "; killing"));
    return end_all(Phase::kKilled, SIGKILL);
  }
  if (names.empty()) return;
  if (phase_ == Phase::kLingering) {
    output_.say(str_cat("ending ", names, ", ", seconds_text(options_.linger),
                        " after the others have ended well"));
  } else {
    const Failure& failure = cause();
    output_.say(str_cat(tasks_[failure.task].spec.name, " ended with ", failure.end.to_string(),
                        "; ending ", names));
  }
  end_all(Phase::kEnding, SIGTERM);
}

void Supervisor::end_all(Phase phase, int signal) {
  phase_ = phase;
  deadline_ =
      Clock::now() + (phase == Phase::kKilled ? Clock::duration(kKillTakes) : options_.grace);
  for (const Task& task : tasks_) {
    if (task.child) task.child->signal(signal);
  }
}

void Supervisor::send_heartbeats() {
  constexpr int kHeartbeatsInTime = 4;
  for (const Task& task : tasks_) {
    if (task.child) task.child->send_heartbeat();
  }
  heartbeat_ = Clock::now() + options_.host_timeout / kHeartbeatsInTime;
}

std::string Supervisor::hosts_of_running() const {
  std::string hosts;
  for (const Task& task : tasks_) {
    if (!task.child || task.spec.host.empty()) continue;
    if (hosts.find(task.spec.host) != std::string::npos) continue;
    hosts += str_cat(hosts.empty() ? "" : ", ", task.spec.host);
  }
  return hosts;
}

std::string Supervisor::names_of_running() const {
  std::string names;
  for (const Task& task : tasks_) {
    if (task.child) names += str_cat(names.empty() ? "" : ", ", task.spec.name);
  }
  return names;
}

bool Supervisor::any_ended_well() const {
  return std::ranges::any_of(tasks_, [](const Task& task) {
    return !task.spec.serves && !task.child && task.end && task.end->well();
  });
}

bool Supervisor::others_ended(bool well) const {
  return std::ranges::all_of(tasks_, [&](const Task& task) {
    const bool spare = task.alone && !task.spec.leads;
    return task.spec.serves || (spare && any_ended_well()) ||
           (!task.child && task.end && (!well || task.end->well()));
  });
}

bool Supervisor::preempted(const ChildEnd& end) const {
  return end.signal == 0 && end.code == options_.preempted_code;
}

/// Its last words name the other: it lost that peer, or got that peer's error.
bool Supervisor::blames(const Failure& failure, size_t other) const {
  constexpr size_t kLines = 2;  // an error, or "terminate called" and the error
  const auto& lines = failure.last_lines;
  return other != failure.task &&
         std::any_of(
             lines.end() - static_cast<std::ptrdiff_t>(std::min(kLines, lines.size())), lines.end(),
             [&](const std::string& line) { return names_task(line, tasks_[other].spec.name); });
}

bool Supervisor::blames_one_that_runs(const Failure& failure) const {
  for (size_t other = 0; other < tasks_.size(); ++other) {
    if (tasks_[other].child && blames(failure, other)) return true;
  }
  return false;
}

// Several may fail at once, since those that lose a peer fail, too: by an error (or abort, where
// it is not caught) that names it, and is no cause then.
int Supervisor::cause_priority(const Failure& failure) const {
  if (failure.end.signal != 0 && failure.end.signal != SIGABRT) return 3;
  if (preempted(failure.end)) return 0;
  return std::ranges::any_of(failures_,
                             [&](const Failure& each) { return blames(failure, each.task); })
             ? 1
             : 2;
}

const Supervisor::Failure& Supervisor::cause() const {
  return *std::ranges::max_element(failures_, {},
                                   [&](const Failure& each) { return cause_priority(each); });
}

std::optional<std::string> Supervisor::may_restart(const Failure& failure) {
  if (options_.restarts == 0 || stopped_by_ != 0) return std::nullopt;
  if (preempted(failure.end) && failure.life >= options_.shortest_life) {
    return ", since it was preempted and has saved";
  }
  if (restarts_ == options_.restarts) return std::nullopt;
  return str_cat(" (restart ", ++restarts_, " of ", options_.restarts, ")");
}

void Supervisor::report() const {
  const Failure& first = cause();
  const SupervisedTask& spec = tasks_[first.task].spec;
  std::string text =
      str_cat(spec.name, spec.host.empty() ? "" : " on " + spec.host, " failed with ",
              first.end.to_string(), " after ", seconds_text(first.life));
  text += first.last_lines.empty() ? "; it printed nothing" : "; its last lines:";
  for (const std::string& line : first.last_lines) text += "\n    " + line;
  for (const Failure& other : failures_) {
    if (&other == &first) continue;
    text += str_cat("\n  ", tasks_[other.task].spec.name, " failed as well, with ",
                    other.end.to_string());
    if (!other.last_lines.empty()) text += ": " + other.last_lines.back();
  }
  if (options_.explain != nullptr) {
    const std::string hint = options_.explain(spec, first.end, first.last_lines);
    if (!hint.empty()) text += "\n  " + hint;
  }
  output_.say(text);
}

int Supervisor::status() const {
  if (stopped_by_ == 0) return failures_.empty() ? 0 : cause().end.status();
  if (others_ended(true)) return 0;
  const bool saved = std::ranges::all_of(tasks_, [&](const Task& task) {
    return task.spec.serves || (task.end && (task.end->well() || preempted(*task.end)));
  });
  return saved ? options_.preempted_code : 128 + stopped_by_;
}

}  // namespace strata::tools
