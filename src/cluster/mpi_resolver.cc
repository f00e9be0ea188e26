#include "strata/cluster/resolvers.h"

#include "cluster/most_tasks.h"
#include "strata/core/error.h"

namespace strata::cluster {
namespace {

struct Ranks {
  int rank;
  int size;
  std::optional<int> local_size;
};

std::optional<Ranks> ranks_of(const Environment& environment) {
  static constexpr struct {
    const char *rank, *size, *local_size;
  } kVariables[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ""},
  };
  for (const auto& names : kVariables) {
    const auto rank = environment.get_number(names.rank);
    const auto size = environment.get_number(names.size);
    if (!rank || !size) continue;
    STRATA_CHECK(*rank < *size, kInvalidArgument, "[cluster] MPI: got ", names.rank, "=", *rank,
                 " and ", names.size, "=", *size, "; expected a rank below the size");
    STRATA_CHECK(*size <= kMostTasks, kInvalidArgument, "[cluster] MPI: got ", names.size, "=",
                 *size, "; expected at most ", kMostTasks);
    return Ranks{*rank, *size, environment.get_number(names.local_size)};
  }
  return std::nullopt;
}

std::string leader_of(const MpiOptions& options, const Environment& environment,
                      const Ranks& ranks) {
  if (options.leader) return *options.leader;
  if (const auto leader = environment.get("STRATA_LEADER")) return *leader;
  if (ranks.local_size == ranks.size) return "127.0.0.1";
  // mpirun puts rank 0 on the first node of its allocation.
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (const auto nodes = environment.get(name)) return expand_host_list(*nodes).front();
  }
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[cluster] MPI: got ", ranks.size,
                      " ranks on several hosts, and no address of rank 0; pass it: "
                      "mpirun -x STRATA_LEADER=host:port, or MpiOptions{.leader}"));
}

bool has_port(std::string_view leader) {
  const size_t colon = leader.rfind(':');
  return colon != std::string_view::npos && !leader.ends_with(']') &&
         (leader.starts_with('[') || leader.find(':') == colon);
}

}  // namespace

MpiResolver::MpiResolver(MpiOptions options) : options_(std::move(options)) {}

Resolution MpiResolver::do_resolve() const {
  const Environment environment =
      options_.environment ? *options_.environment : Environment::of_process();
  const auto ranks = ranks_of(environment);
  STRATA_CHECK(
      ranks.has_value(), kInvalidArgument,
      "[cluster] MPI: got neither OMPI_COMM_WORLD_RANK and _SIZE nor PMI_RANK and PMI_SIZE; "
      "not started by mpirun, mpiexec or srun?");
  const std::string leader = leader_of(options_, environment, *ranks);
  const bool one_host = ranks->local_size == ranks->size;
  std::vector<std::string> addresses = {
      has_port(leader) ? leader : str_cat(leader, ":", options_.port_base)};
  addresses.resize(static_cast<size_t>(ranks->size), one_host ? "127.0.0.1:0" : ":0");
  Resolution resolution;
  resolution.source = "MPI";
  resolution.spec = ClusterSpec({{"worker", addresses}});
  resolution.task_type = "worker";
  resolution.task_id = ranks->rank;
  return resolution;
}

}  // namespace strata::cluster
