// How the systems of suite ps are started.
#include <utility>

#include "strata/core/error.h"
#include "strata/core/json.h"
#include "strata/core/str_cat.h"
#include "suites/ps.h"
#include "suites/step_data.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> addresses_of(const tools::PortReservation& ports, size_t first,
                                      size_t count) {
  std::vector<std::string> addresses;
  for (size_t i = first; i < first + count; ++i) {
    addresses.push_back(str_cat("127.0.0.1:", ports[i]));
  }
  return addresses;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

}  // namespace

PsSystems::PsSystems(const BenchOptions& options, int servers, fs::path folder)
    : options_(options), servers_(servers), folder_(std::move(folder)), cpus_(two_cores()) {}

CallSystem PsSystems::start(const std::string& name, const std::string& missing,
                            const std::vector<ProcessSpec>& processes, BetweenCalls between) {
  CallSystem system{name, nullptr, {""}, missing};
  if (!missing.empty()) return system;
  try {
    system.servers = std::make_shared<CallServers>(name, processes, folder_, between);
  } catch (const Error& error) {
    system.missing = error.what();
  }
  return system;
}

std::vector<ProcessSpec> PsSystems::strata_processes(const std::string& worker_role,
                                                     const std::string& server_role,
                                                     BenchOptions::Build build) {
  const tools::PortReservation& ports = ports_.emplace_back(1 + servers_);
  const std::string workers = joined(addresses_of(ports, 0, 1));
  const std::string servers = joined(addresses_of(ports, 1, static_cast<size_t>(servers_)));
  const auto process = [&](const std::string& role, int task, int cpu) -> ProcessSpec {
    return {options_.worker(build, {"ps-worker", "--role", role, "--task", str_cat(task),
                                    "--workers", workers, "--servers", servers}),
            {},
            {cpu}};
  };
  std::vector<ProcessSpec> processes = {process(worker_role, 0, cpus_[0])};
  for (int i = 0; i < servers_; ++i) processes.push_back(process(server_role, i, cpus_[1]));
  return processes;
}

CallSystem PsSystems::strata() { return start("strata", "", strata_processes("worker", "server")); }

CallSystem PsSystems::strata_by_wire() {
  return start("strata-tcp", "", strata_processes("wire-worker", "server"));
}

CallSystem PsSystems::other() {
  return start("other", "", strata_processes("worker", "server", BenchOptions::Build::kOther));
}

CallSystem PsSystems::other_by_wire() {
  return start("other-tcp", "",
               strata_processes("wire-worker", "server", BenchOptions::Build::kOther));
}

CallSystem PsSystems::copy() {
  return start("copy", "", strata_processes("memory-worker", "memory-server"));
}

CallSystem PsSystems::copy_by_wire() {
  return start("copy-tcp", "", strata_processes("copy-worker", "copy-server"));
}

CallSystem PsSystems::rpc(const std::string& name, const std::string& wire) {
  const PythonPeers python(options_, {});
  std::vector<ProcessSpec> processes;
  for (int rank = 0; rank <= servers_; ++rank) {  // rank 0 is the worker
    processes.push_back(python.process("torch", "rpc_ps.py",
                                       {"--rank", str_cat(rank), "--servers", str_cat(servers_),
                                        "--store", folder_ / (name + "-store"), "--wire", wire},
                                       {cpus_[rank == 0 ? 0 : 1]}));
  }
  // TensorPipe polls the host's memory without a pause.
  return start(name, python.missing("torch", "rpc_ps.py"), processes,
               wire == "tcp" ? BetweenCalls::kSleep : BetweenCalls::kSpin);
}

CallSystem PsSystems::tensorflow() {
  const PythonPeers python(options_, {});
  const tools::PortReservation& ports = ports_.emplace_back(1 + servers_);
  const std::string workers = joined(addresses_of(ports, 0, 1));
  const std::string servers = joined(addresses_of(ports, 1, static_cast<size_t>(servers_)));
  const auto process = [&](const std::string& role, int task, int cpu) {
    return python.process(
        "tf", "tf_ps.py",
        {"--role", role, "--task", str_cat(task), "--workers", workers, "--servers", servers},
        {cpu});
  };
  std::vector<ProcessSpec> processes = {process("chief", 0, cpus_[0]),
                                        process("worker", 0, cpus_[0])};
  for (int i = 0; i < servers_; ++i) processes.push_back(process("ps", i, cpus_[1]));
  CallSystem system = start("tf-ps", python.missing("tf", "tf_ps.py"), processes);
  system.operations = {":loop", ":call"};
  return system;
}

std::vector<SystemSpec> ps_mnist_systems(const BenchOptions& options,
                                         const std::string& cluster_kind, const fs::path& data,
                                         const tools::PortReservation& ports) {
  const std::vector<int> cpus = two_cores();
  const auto strata = [&](const std::string& name, BenchOptions::Build build,
                          size_t first_port) -> SystemSpec {
    const std::vector<std::string> worker_addresses = addresses_of(ports, first_port, 2);
    const std::vector<std::string> server_addresses = addresses_of(ports, first_port + 2, 1);
    Json cluster = Json::object();
    Json workers = Json::array();
    for (const std::string& address : worker_addresses) workers.push_back(address);
    cluster.set("worker", std::move(workers));
    cluster.set("ps", Json::array().push_back(server_addresses[0]));
    Variant variant;
    for (int i = 0; i < 2; ++i) {
      Json task = Json::object();
      task.set("type", "worker").set("index", i);
      Json config = Json::object();
      config.set("cluster", cluster).set("task", std::move(task));
      variant.processes.push_back({options.worker(build, {"worker", "--case", "mlp-loop", "--data",
                                                          data, "--cluster", cluster_kind}),
                                   {{"TF_CONFIG", config.dump()}},
                                   {cpus[static_cast<size_t>(i)]}});
    }
    variant.processes.push_back(
        {options.worker(build, {"ps-worker", "--role", "server", "--task", "0", "--workers",
                                joined(worker_addresses), "--servers", joined(server_addresses)}),
         {},
         cpus});
    return {name, 2 * kStepBatch, {std::move(variant)}, {}};
  };
  const auto tensorflow = [&]() -> SystemSpec {
    const PythonPeers python(options, {});
    SystemSpec system{"tf-ps", 2 * kStepBatch, {}, python.missing("tf", "tf_ps.py")};
    size_t port = 3;
    for (const char* mode : {"loop", "call"}) {
      const std::string workers = joined(addresses_of(ports, port, 2));
      const std::string servers = joined(addresses_of(ports, port + 2, 1));
      port += 3;
      const auto process = [&](const char* role, int task, const std::vector<int>& where) {
        return python.process("tf", "tf_ps.py",
                              {"--role", role, "--task", str_cat(task), "--workers", workers,
                               "--servers", servers, "--mnist", data, "--mode", mode},
                              where);
      };
      system.variants.push_back({mode,
                                 {process("chief", 0, cpus), process("worker", 0, {cpus[0]}),
                                  process("worker", 1, {cpus[1]}), process("ps", 0, cpus)}});
    }
    return system;
  };
  Variant apart;
  for (int i = 0; i < 2; ++i) {
    apart.processes.push_back({options.worker(BenchOptions::Build::kThis,
                                              {"worker", "--case", "mlp-loop", "--data", data}),
                               {},
                               {cpus[static_cast<size_t>(i)]}});
  }
  std::vector<SystemSpec> systems = {strata("strata", BenchOptions::Build::kThis, 0),
                                     {"independent-2", 2 * kStepBatch, {std::move(apart)}, {}}};
  // Its coordinator's steps are each worker's own.
  if (cluster_kind != "servers-in-step") systems.push_back(tensorflow());
  if (!options.against.empty()) {
    systems.push_back(strata("other", BenchOptions::Build::kOther, kPsMnistPorts - 3));
  }
  return systems;
}

}  // namespace strata::bench
