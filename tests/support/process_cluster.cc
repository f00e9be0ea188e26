#include "support/process_cluster.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <random>
#include <utility>

#include "strata/core/error.h"
#include "strata/core/json.h"

extern char** environ;

namespace strata::test {
namespace {

cluster::ClusterSpec local_spec(const std::map<std::string, int>& jobs) {
  int total = 0;
  for (const auto& job : jobs) total += job.second;
  const std::vector<int> ports = free_ports(total);
  std::map<std::string, std::vector<std::string>> addresses;
  size_t next = 0;
  for (const auto& [job, count] : jobs) {
    for (int i = 0; i < count; ++i) addresses[job].push_back(str_cat("127.0.0.1:", ports[next++]));
  }
  return cluster::ClusterSpec(addresses);
}

// The first port that the system may give to a connection that names none.
int first_connection_port() {
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0;
  return range >> first && first > 2048 ? first : 32768;
}

// Whether no other test has the port: an abstract Unix socket of its name is held until this process ends.
bool claim(int port) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const std::string name = str_cat("strata-test-port-", port);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::ranges::copy(name, address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) return true;
  if (fd >= 0) ::close(fd);
  return false;
}

bool can_listen(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound =
      fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (fd >= 0) ::close(fd);
  return bound;
}

}  // namespace

std::vector<int> free_ports(int count) {
  const int end = first_connection_port();
  const int begin = std::max(1024, end - 20000);
  std::random_device random;
  std::uniform_int_distribution<int> choose(begin, end - 1);
  std::vector<int> ports;
  // A bounded number of tries: a machine on which nearly all ports are taken is an error of its own.
  for (int i = 0; i < 100 * count && std::ssize(ports) < count; ++i) {
    const int port = choose(random);
    if (claim(port) && can_listen(port)) ports.push_back(port);
  }
  STRATA_DCHECK(std::ssize(ports) == count);
  return ports;
}

ProcessCluster::ProcessCluster(std::string program, std::vector<std::string> arguments,
                               const std::map<std::string, int>& jobs)
    : ProcessCluster(std::move(program), std::move(arguments), local_spec(jobs)) {}

ProcessCluster::ProcessCluster(std::string program, std::vector<std::string> arguments,
                               cluster::ClusterSpec spec)
    : program_(std::move(program)), arguments_(std::move(arguments)), spec_(std::move(spec)) {
  for (const std::string& job : spec_.jobs()) {
    for (const int i : spec_.task_indices(job)) {
      Process& process = processes_[{job, i}];
      process.ended = true;
      process.environment["TF_CONFIG"] =
          Json::object()
              .set("cluster", spec_.to_json())
              .set("task", Json::object().set("type", job).set("index", i))
              .dump();
    }
  }
}

ProcessCluster::~ProcessCluster() {
  for (auto& entry : processes_) end(entry.second);
}

void ProcessCluster::end(Process& process) {
  {
    const MutexLock lock(mutex_);
    if (!process.ended) ::kill(process.pid, SIGKILL);
  }
  if (process.reader.joinable()) process.reader.join();
}

std::vector<cluster::TaskId> ProcessCluster::tasks() const {
  std::vector<cluster::TaskId> tasks;
  for (const auto& entry : processes_) tasks.push_back(entry.first);
  return tasks;
}

void ProcessCluster::set_arguments(const cluster::TaskId& task,
                                   std::vector<std::string> arguments) {
  processes_.at(task).arguments = std::move(arguments);
}

void ProcessCluster::set_environment(const cluster::TaskId& task, const std::string& name,
                                     const std::string& value) {
  processes_.at(task).environment[name] = value;
}

void ProcessCluster::set_prefix(const cluster::TaskId& task, std::vector<std::string> words) {
  processes_.at(task).prefix = std::move(words);
}

void ProcessCluster::start() {
  for (const auto& entry : processes_) start(entry.first);
}

void ProcessCluster::start(const cluster::TaskId& task) {
  Process& process = processes_.at(task);
  if (process.reader.joinable()) process.reader.join();

  std::vector<std::string> words = process.prefix;
  words.push_back(program_);
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  words.insert(words.end(), process.arguments.begin(), process.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!process.environment.contains(std::string(text.substr(0, text.find('='))))) {
      variables.emplace_back(text);
    }
  }
  for (const auto& [name, value] : process.environment) variables.push_back(name + "=" + value);
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);

  int ends[2] = {};
  STRATA_DCHECK(::pipe2(ends, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, argv.front(), &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  STRATA_DCHECK(failed == 0);
  {
    const MutexLock lock(mutex_);
    process.pid = pid;
    process.ended = false;
    process.exit = Exit();
  }
  process.reader =
      Thread("output", [this, &process, from = ends[0], pid] { read(process, from, pid); });
}

void ProcessCluster::read(Process& process, int from, int pid) {
  char text[4096];
  while (true) {
    const ssize_t got = ::read(from, text, sizeof text);
    if (got <= 0) break;
    {
      const MutexLock lock(mutex_);
      process.exit.output.append(text, static_cast<size_t>(got));
    }
    changed_.notify_all();
  }
  ::close(from);
  // Known to be dead before it is reaped: no signal may reach another process with its number.
  siginfo_t info = {};
  ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  {
    const MutexLock lock(mutex_);
    int status = 0;
    ::waitpid(pid, &status, 0);
    process.ended = true;
    if (WIFEXITED(status)) process.exit.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) process.exit.signal = WTERMSIG(status);
  }
  changed_.notify_all();
}

void ProcessCluster::kill(const cluster::TaskId& task, int signal) {
  const MutexLock lock(mutex_);
  const Process& process = processes_.at(task);
  if (!process.ended) ::kill(process.pid, signal);
}

bool ProcessCluster::wait_for_output(const cluster::TaskId& task, const std::string& text,
                                     std::chrono::milliseconds limit) {
  MutexLock lock(mutex_);
  const Process& process = processes_.at(task);
  const auto found = [&] { return process.exit.output.find(text) != std::string::npos; };
  changed_.wait_for(lock, limit, [&] { return found() || process.ended; });
  return found();
}

std::string ProcessCluster::output(const cluster::TaskId& task) const {
  const MutexLock lock(mutex_);
  return processes_.at(task).exit.output;
}

ProcessCluster::Exit ProcessCluster::wait(const cluster::TaskId& task,
                                          std::chrono::milliseconds limit) {
  Process& process = processes_.at(task);
  bool in_time = false;
  {
    MutexLock lock(mutex_);
    in_time = changed_.wait_for(lock, limit, [&] { return process.ended; });
  }
  end(process);
  const MutexLock lock(mutex_);
  process.exit.in_time = in_time;
  return process.exit;
}

std::map<cluster::TaskId, ProcessCluster::Exit> ProcessCluster::wait(
    std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  std::map<cluster::TaskId, Exit> exits;
  for (const auto& entry : processes_) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    exits[entry.first] = wait(entry.first, std::max(left, std::chrono::milliseconds(0)));
  }
  return exits;
}

}  // namespace strata::test
