// How the systems of suites collective and network are started.
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

#include "strata/collective/algorithms.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "suites/collective.h"
#include "suites/systems.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

std::string on_path(const std::string& program) {
  for (const char* folder : {"/usr/bin", "/usr/local/bin"}) {
    if (fs::exists(fs::path(folder) / program)) return fs::path(folder) / program;
  }
  return {};
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

constexpr int kFirstNetworkPort = 7300;

}  // namespace

CollectiveSystems::CollectiveSystems(const BenchOptions& options, std::vector<RankHost> hosts,
                                     bool shared, fs::path folder)
    : options_(options), hosts_(std::move(hosts)), shared_(shared), folder_(std::move(folder)) {}

CollectiveSystems::~CollectiveSystems() {
  if (memory_fd_ >= 0) ::close(memory_fd_);
}

ProcessSpec CollectiveSystems::on(size_t rank, std::vector<std::string> argv) const {
  const RankHost& host = hosts_[rank];
  argv.insert(argv.begin(), host.enter.begin(), host.enter.end());
  return {std::move(argv), {}, host.cpus};
}

CallSystem CollectiveSystems::start(const std::string& name, const std::string& missing,
                                    const std::vector<ProcessSpec>& processes) {
  CallSystem system{name, nullptr, {"all_reduce"}, missing};
  if (!missing.empty()) return system;
  try {
    system.servers =
        std::make_shared<CallServers>(str_cat(name, "-", ++started_), processes, folder_);
  } catch (const Error& error) {
    system.missing = error.what();
  }
  return system;
}

std::vector<ProcessSpec> CollectiveSystems::strata_processes(const std::string& backend,
                                                             BenchOptions::Build build) {
  std::vector<std::string> addresses;
  if (shared_) ports_.emplace_back(static_cast<int>(hosts_.size()));
  for (size_t rank = 0; rank < hosts_.size(); ++rank) {
    const int port = shared_ ? ports_.back()[rank] : kFirstNetworkPort + static_cast<int>(rank);
    addresses.push_back(str_cat(hosts_[rank].address, ":", port));
  }
  std::vector<ProcessSpec> processes;
  for (size_t rank = 0; rank < hosts_.size(); ++rank) {
    std::vector<std::string> argv =
        options_.worker(build, {"collective-worker", "--backend", backend});
    argv.insert(argv.end(), {"--rank", str_cat(rank), "--ranks", str_cat(hosts_.size())});
    argv.insert(argv.end(), {"--ranks-per-host", str_cat(shared_ ? hosts_.size() : 1)});
    argv.insert(argv.end(), {"--addresses", joined(addresses)});
    argv.insert(argv.end(), {"--memory-fd", str_cat(memory_fd_)});
    processes.push_back(on(rank, std::move(argv)));
  }
  return processes;
}

std::vector<std::string> CollectiveSystems::algorithms() const {
  const std::vector<int> one_each(hosts_.size(), 1);
  const collective::Request request = {
      .collective = collective::Collective::kAllReduce,
      .placement =
          collective::Placement::blocks(one_each, shared_ ? static_cast<int>(hosts_.size()) : 1)};
  const collective::Algorithms standard = collective::Algorithms::standard();
  std::vector<std::string> names;
  for (const collective::Algorithm* each : standard.offered(request)) names.push_back(each->name);
  return names;
}

CallSystem CollectiveSystems::strata(const std::string& backend) {
  return start("strata", "", strata_processes(backend));
}

CallSystem CollectiveSystems::other(const std::string& backend) {
  return start("other", "", strata_processes(backend, BenchOptions::Build::kOther));
}

CallSystem CollectiveSystems::floor() {
  // Not close-on-exec: the processes of the floor map it.
  const int64_t size = kMostCallBytes * static_cast<int64_t>(hosts_.size());
  memory_fd_ = ::memfd_create("strata-bench-floor", 0);
  STRATA_CHECK(memory_fd_ >= 0 && ::ftruncate(memory_fd_, size) == 0, kResourceExhausted,
               "[strata bench] got no shared memory of ", size, " bytes");
  CallSystem system = start("floor", "", strata_processes("floor"));
  system.operations = {"floor", "floor_past_cache"};
  return system;
}

CallSystem CollectiveSystems::gloo() {
  const PythonPeers python(options_, {});
  const std::string missing = python.missing("torch", "gloo_collective.py");
  const fs::path store = folder_ / str_cat("gloo-store-", started_);
  std::vector<ProcessSpec> processes;
  for (size_t rank = 0; rank < hosts_.size(); ++rank) {
    ProcessSpec process =
        python.process("torch", "gloo_collective.py",
                       {"--rank", str_cat(rank), "--world", str_cat(hosts_.size()), "--store",
                        store, "--address", hosts_[rank].address},
                       hosts_[rank].cpus);
    const auto& enter = hosts_[rank].enter;
    process.argv.insert(process.argv.begin(), enter.begin(), enter.end());
    processes.push_back(std::move(process));
  }
  return start("gloo", missing, processes);
}

std::string CollectiveSystems::mpi_program() const {
  return options_.peers_dir / "mpi" / "strata-peer-mpi";
}

CallSystem CollectiveSystems::mpi(const std::string& name,
                                  const std::vector<std::string>& transport) {
  std::string missing;
  const std::string mpirun = on_path("mpirun");
  if (mpirun.empty() || !fs::exists(mpi_program())) {
    missing = str_cat("no mpirun, or no ", mpi_program(), "; run scripts/install_peers.sh mpi");
  }
  const fs::path folder = folder_ / str_cat("mpi-", started_);
  fs::create_directories(folder);
  ProcessSpec process;
  process.argv = {mpirun, "--allow-run-as-root", "-n", str_cat(hosts_.size())};
  const auto add = [&](const std::vector<std::string>& more) {
    process.argv.insert(process.argv.end(), more.begin(), more.end());
  };
  if (shared_) {
    if (hosts_.size() <= 2) {
      add({"--bind-to", "core"});
    } else {
      add({"--bind-to", "core:overload-allowed", "--oversubscribe"});
    }
    add({"--mca", "oob_tcp_if_include", "lo"});
  } else {
    // mpirun is in the first host, and starts its daemons in the others as ssh would. None of them
    // may outlive this process: their parent's death ends them, one after the other.
    const fs::path agent = folder / "agent";
    std::ofstream script(agent);
    script << "#!/bin/sh\nhost=$1\nshift\n"
           << "command=$(printf '%s' \"$*\" | sed 's#[^ ]*orted #exec &#')\ncase $host in\n";
    std::vector<std::string> names;
    for (const RankHost& host : hosts_) {
      names.push_back(host.address + ":1");
      script << host.address << ") exec setpriv --pdeathsig KILL";
      for (const std::string& word : host.enter) script << " " << word;
      script << " /bin/sh -c \"$command\" ;;\n";
    }
    script << "esac\nexit 1\n";
    script.close();
    fs::permissions(agent, fs::perms::owner_all);
    // All hosts share this machine's cores, of which Open MPI knows nothing.
    add({"--host", joined(names), "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"});
    add({"--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1"});
    add({"--leave-session-attached"});
    process.argv.insert(process.argv.begin(), hosts_[0].enter.begin(), hosts_[0].enter.end());
  }
  add(transport);
  add({mpi_program(), folder});
  CallSystem system = start(name, missing, {process});
  system.operations = {"all_reduce", "all_reduce_in_place"};
  return system;
}

CallSystem CollectiveSystems::mpi_memory() { return mpi("mpi", {}); }

CallSystem CollectiveSystems::mpi_tcp() {
  std::vector<std::string> transport = {"--mca", "pml", "ob1", "--mca", "btl", "self,tcp"};
  if (shared_) transport.insert(transport.end(), {"--mca", "btl_tcp_if_include", "lo"});
  return mpi("mpi", transport);
}

}  // namespace strata::bench
