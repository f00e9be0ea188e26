// strata-server, which `strata server --listen HOST:PORT` runs: graphs of standalone clients.
#include <csignal>
#include <iostream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "cluster/job_secret_environment.h"
#include "strata/cluster/cluster_spec.h"
#include "strata/cluster/resolvers.h"
#include "strata/cluster/tls_environment.h"
#include "strata/core/error.h"
#include "strategies/standalone/server.h"
#include "tools/command_line.h"
#include "tools/exit_status.h"

namespace strata::tools {
namespace {

CommandHelp server_help() {
  return {
      .usage = "strata server --listen HOST:PORT [options]",
      .description =
          R"(Runs the steps of programs that have `.client = "standalone"`: their graphs, without their code. Variables
and optimizers live here, in sessions that outlive their clients for a while. Prints its address when
it listens, and ends with SIGINT or SIGTERM. docs/standalone.md has all of it.
)",
      .examples =
          "  strata certs certs --tasks worker=2,client=1\n"
          "  strata server --listen 10.0.0.1:9000 --task worker:0 --certificates certs\n"};
}

struct Settings {
  standalone::ServerOptions server;
  std::string task = "worker:0";
  std::string certificates;
  std::chrono::duration<double> time{300};
  std::chrono::duration<double> keep{600};
  int64_t memory = 0;
  int64_t graph = 1 << 20;
  int sessions = 16;
};

/// @return false: the help was asked for.
bool read_settings(std::vector<std::string> words, Settings& settings) {
  CommandLine line("strata server", server_help());
  line.text("--listen", "HOST:PORT", "its address; port 0: any (default: 127.0.0.1:0)",
            settings.server.listen);
  line.text("--task", "JOB:INDEX", "its name, that of its certificate (default: worker:0)",
            settings.task);
  line.text("--certificates", "DIR",
            "a folder as strata certs makes it (default: STRATA_TLS_DIR); only\n"
            "clients with a certificate of the same authority are admitted",
            settings.certificates);
  line.text("--data", "DIR",
            "a folder of files that clients' datasets may read (default: none)",
            settings.server.data);
  line.number("--memory", "BYTES", "of all sessions (default: half of the machine's)",
              settings.memory, 1);
  line.seconds("--time", "SECONDS", "the limit of a step (default: 300)", settings.time);
  line.seconds("--keep", "SECONDS", "how long a session waits for its client (default: 600)",
               settings.keep);
  line.number("--graph", "BYTES", "the limit of a step's graph (default: 1048576)", settings.graph,
              1);
  line.number("--sessions", "N", "the limit of sessions (default: 16)", settings.sessions, 1);
  if (!line.read(std::move(words))) {
    std::cout << line.help();
    return false;
  }
  STRATA_CHECK(line.operands().empty(), kInvalidArgument, "[strata server] got '",
               line.operands().empty() ? "" : line.operands()[0], "'; expected options alone");
  return true;
}

std::optional<wire::TlsOptions> certificates_of(const Settings& settings,
                                                const cluster::TaskId& task) {
  if (settings.certificates.empty()) return cluster::tls_from_environment(task);
  return cluster::tls_from_environment(
      task, cluster::Environment({{"STRATA_TLS_DIR", settings.certificates}}));
}

int run_server(int argc, char** argv) {
  Settings settings;
  if (!read_settings({argv + 1, argv + argc}, settings)) return 0;
  const cluster::TaskId task = cluster::TaskId::parse(settings.task);
  standalone::ServerOptions& options = settings.server;
  options.task = task.to_string();
  options.tls = certificates_of(settings, task);
  options.job_secret = cluster::job_secret_from_environment();
  options.memory = static_cast<uint64_t>(settings.memory);
  options.graph_bytes = static_cast<uint64_t>(settings.graph);
  options.sessions = static_cast<size_t>(settings.sessions);
  options.step_time = std::chrono::duration_cast<std::chrono::nanoseconds>(settings.time);
  options.keep = std::chrono::duration_cast<std::chrono::nanoseconds>(settings.keep);

  // A thread of its own takes the signals; all others leave them to it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  standalone::StandaloneServer server(options);
  std::cout << "strata server: " << options.task << " at " << server.address() << std::endl;
  std::stop_source stop;
  std::jthread waiter([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    stop.request_stop();
  });
  server.serve(stop.get_token());
  return 0;
}

}  // namespace
}  // namespace strata::tools

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("strata",
                                       [&] { return strata::tools::run_server(argc, argv); });
}
