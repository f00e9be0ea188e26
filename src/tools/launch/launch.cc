// `strata launch`: a cluster on this machine, from start to end.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/job_secret_environment.h"
#include "strata/core/error.h"
#include "tools/certs/job_certificates.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/local_cluster.h"
#include "tools/launch/orphan_reaper.h"
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
      struct sigaction action = {};
      action.sa_handler = on_signal;
      sigemptyset(&action.sa_mask);
      ::sigaction(signal, &action, nullptr);
    }
  }
  ~PassSignals() { g_supervisor.store(nullptr); }
  PassSignals(const PassSignals&) = delete;
  PassSignals& operator=(const PassSignals&) = delete;
};

// For this run's certificates; empty without --tls. The guard removes it.
std::string certificates_for(const LaunchOptions& options) {
  if (!options.tls) return {};
  std::string folder = (std::filesystem::temp_directory_path() / "strata-tls-XXXXXX").string();
  STRATA_CHECK(::mkdtemp(folder.data()) != nullptr, kPermissionDenied,
               "[strata launch] got --tls, but ", folder, " cannot be made; TMPDIR sets the place");
  return folder;
}

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

int launch(const LaunchOptions& options) {
  const std::string certificates = certificates_for(options);
  const OrphanReaper guard(certificates);
  if (options.tls) make_job_certificates(certificates, options.tasks(), {.job = "strata launch"});
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
  return supervisor.run();
}

int dry_run(const LaunchOptions& options) {
  if (!options.hosts.empty()) {
    for (const SupervisedTask& task : RemoteCluster(options).tasks()) {
      std::cout << "# " << task.name << " on " << task.host << ": "
                << LocalCluster::shell_line(task) << " with this on its input\n"
                << *task.child.input;
    }
    return 0;
  }
  const LocalCluster cluster(options, options.tls ? "DIR_OF_THE_RUN" : "");
  for (const SupervisedTask& task : cluster.tasks()) {
    std::cout << "# " << task.name << '\n' << LocalCluster::shell_line(task) << '\n';
  }
  return 0;
}

}  // namespace

int launch_main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    std::cerr << read_launch_options({"--help"}).help;
    return kUsageError;
  }
  const LaunchOptions options = read_launch_options(words);
  if (!options.help.empty()) {
    std::cout << options.help;
    return 0;
  }
  return options.dry_run ? dry_run(options) : launch(options);
}

}  // namespace strata::tools
