#include <algorithm>

#include "cluster/most_tasks.h"
#include "strata/cluster/launcher_resolvers.h"
#include "strata/core/error.h"

namespace strata::cluster {
namespace {

// The variables of a process that torchrun or a PyTorchJob started, or of a pod of the latter.
struct RankVariables {
  const char *rank, *size, *address, *port;
};
constexpr RankVariables kOfProcess = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
constexpr RankVariables kOfPod = {"PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR",
                                  "PET_MASTER_PORT"};
constexpr int kLastPort = 65'535;

int number_of(const Environment& environment, const char* name, const RankVariables& all) {
  const auto number = environment.get_number(name);
  STRATA_CHECK(number.has_value(), kInvalidArgument, "[cluster] torchrun: got no ", name,
               ", but some of ", all.rank, ", ", all.size, ", ", all.address, " and ", all.port,
               "; expected all four: start the program with torchrun or as a PyTorchJob, or unset "
               "them to run as one process");
  return *number;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// Kubeflow calls the master "localhost" in its own pod alone; the others know it by the pod's name.
std::string master_of(const Environment& environment, const RankVariables& names, int rank) {
  const auto address = environment.get(names.address);
  STRATA_CHECK(address && !address->empty(), kInvalidArgument, "[cluster] torchrun: got ",
               names.rank, " and ", names.size, ", but no ", names.address,
               "; expected the host of rank 0: start the program with torchrun or as a PyTorchJob, "
               "or unset them to run as one process");
  const auto pod = environment.get("HOSTNAME");
  if (rank == 0 && is_loopback(*address) && environment.has("KUBERNETES_SERVICE_HOST") && pod) {
    return *pod;
  }
  return *address;
}

}  // namespace

TorchrunResolver::TorchrunResolver(TorchrunOptions options) : options_(std::move(options)) {}

Resolution TorchrunResolver::do_resolve() const {
  const Environment environment =
      options_.environment ? *options_.environment : Environment::of_process();
  const bool of_process = environment.has(kOfProcess.rank) || environment.has(kOfProcess.size) ||
                          !environment.has(kOfPod.rank);
  const RankVariables& names = of_process ? kOfProcess : kOfPod;
  const int rank = number_of(environment, names.rank, names);
  const int size = number_of(environment, names.size, names);
  STRATA_CHECK(rank < size, kInvalidArgument, "[cluster] torchrun: got ", names.rank, "=", rank,
               " and ", names.size, "=", size, "; expected a rank below the size");
  STRATA_CHECK(size <= kMostTasks, kInvalidArgument, "[cluster] torchrun: got ", names.size, "=",
               size, "; expected at most ", kMostTasks);
  const std::string master = master_of(environment, names, rank);
  const int port = options_.port ? *options_.port : number_of(environment, names.port, names) + 1;
  STRATA_CHECK(port > 0 && port <= kLastPort, kInvalidArgument, "[cluster] torchrun: got ",
               names.port, "=", port - 1,
               "; expected a lower one: rank 0 listens one port above it");
  const bool brackets = master.find(':') != std::string::npos && !master.starts_with('[');
  const bool one_host =
      environment.get_number("LOCAL_WORLD_SIZE") == size || (is_loopback(master) && size > 1);
  std::vector<std::string> addresses = {
      str_cat(brackets ? "[" : "", master, brackets ? "]" : "", ":", port)};
  addresses.resize(static_cast<size_t>(size), one_host ? "127.0.0.1:0" : ":0");
  Resolution resolution;
  resolution.source = "torchrun";
  resolution.spec = ClusterSpec({{"worker", addresses}});
  resolution.task_type = "worker";
  resolution.task_id = rank;
  return resolution;
}

}  // namespace strata::cluster
