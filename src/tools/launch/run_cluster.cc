#include "tools/launch/run_cluster.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "cluster/job_secret_environment.h"
#include "tools/launch/local_cluster.h"
#include "tools/launch/remote_cluster.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/task_output.h"

namespace strata::tools {
namespace {

// A signal handler can reach nothing but static storage.
std::atomic<Supervisor*> g_supervisor{nullptr};

void on_signal(int signal) {
  if (Supervisor* const supervisor = g_supervisor.load()) supervisor->stop(signal);
}

// Ctrl-C and the like end the tasks instead of the launcher, while it lives.
class PassSignals {
 public:
  explicit PassSignals(Supervisor& supervisor) {
    g_supervisor.store(&supervisor);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction old = {};
      ::sigaction(signal, nullptr, &old);
      if (old.sa_handler == SIG_IGN) continue;  // nohup
      before_.emplace_back(signal, old);
      struct sigaction action = {};
      action.sa_handler = on_signal;
      sigemptyset(&action.sa_mask);
      ::sigaction(signal, &action, nullptr);
    }
  }
  ~PassSignals() {
    for (const auto& [signal, action] : before_) ::sigaction(signal, &action, nullptr);
    g_supervisor.store(nullptr);
  }
  PassSignals(const PassSignals&) = delete;
  PassSignals& operator=(const PassSignals&) = delete;

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

// With a secret of this run alone, unless the user has chosen one or none. It is handed over in the
// environment, which other users cannot read. To other hosts it travels on ssh's input, and a
// chosen one with it: this process's environment does not reach them, and its file need not.
LaunchOptions with_secret(LaunchOptions options) {
  if (options.environment.contains("STRATA_JOB_SECRET_FILE")) return options;
  auto secret = cluster::job_secret_from_environment();
  if (secret && options.hosts.empty()) return options;
  if (!secret && options.secret) secret = wire::JobSecret::random();
  if (secret) options.environment["STRATA_JOB_SECRET"] = secret->reveal();
  return options;
}

bool wants_colours() {
  const char* const refused = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (refused == nullptr || *refused == '\0');
}

}  // namespace

ClusterEnd run_cluster(const LaunchOptions& options, const OrphanReaper& guard,
                       const std::string& certificates) {
  std::optional<LocalCluster> here;  // holds its ports
  std::vector<SupervisedTask> tasks;
  if (options.hosts.empty()) {
    tasks = here.emplace(with_secret(options), certificates).tasks();
  } else {
    tasks = RemoteCluster(with_secret(options), certificates).tasks();
  }
  std::vector<std::string> names;
  for (const SupervisedTask& task : tasks) names.push_back(task.name);
  TaskOutput output(names, {.colours = wants_colours(), .log_folder = options.log_folder});
  ::signal(SIGPIPE, SIG_IGN);  // the supervisor distinguishes `| head` from errors
  SupervisorOptions how = options.supervisor;
  how.explain = explain_ssh;
  Supervisor supervisor(std::move(tasks), how, guard, output);
  const PassSignals pass(supervisor);
  const int status = supervisor.run();
  return {.status = status, .stopped_by = supervisor.stopped_by()};
}

}  // namespace strata::tools
