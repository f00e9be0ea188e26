#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/server.h"
#include "strata/collective/communication_options.h"
#include "strata/collective/communicator.h"
#include "strata/collective/link_model.h"
#include "strata/runtime/devices.h"
#include "strata/wire/connection.h"

namespace strata::detail {

/// What the workers of a cluster must have in common; the chief's counts.
struct Common {
  uint64_t seed = 0;
  int threads_per_replica = 1;
};

/// The cluster that this process trains in with others; nullopt: it works alone, as the evaluator
/// and the only worker do.
/// @param resolver  Null: what started this process says it.
/// @throws Error  as cluster::resolve_cluster.
std::optional<cluster::Cluster> find_workers(
    const std::shared_ptr<const cluster::ClusterResolver>& resolver);

/// This process among the workers that train together.
class WorkerGroup {
 public:
  /// Meets the other workers, and forms a group with them.
  /// @param devices  Of this process's replicas, at least one.
  /// @throws Error  kInvalidArgument, in all workers: some have only CPUs and some have not, and
  ///                other sums would cross replicas. As cluster::Server.
  WorkerGroup(const cluster::Cluster& cluster, const cluster::ServerOptions& server,
              const collective::CommunicationOptions& communication,
              const std::vector<LogicalDevice>& devices, const Common& common);

  /// The way to the others. Ranks are in the order of cluster::id_in_cluster, replica ids in the
  /// order of ranks; those of a lost worker belong to the ones with fewest.
  const std::shared_ptr<collective::Communicator>& communicator() const { return communicator_; }
  const std::shared_ptr<cluster::Server>& server() const { return server_; }
  const Common& common() const { return common_; }
  /// By rank.
  const std::vector<cluster::TaskId>& tasks() const { return tasks_; }

  /// Forms the next group, of those who are left and those who have come.
  void form_anew();
  /// The orderly end, or, while an exception is under way, the end that the others hear of: unless
  /// `end_in_order` was called, since all end so.
  void leave();
  void end_in_order() { ends_in_order_ = true; }

 private:
  void form();
  void check_kinds(const std::vector<bool>& all_cpu, wire::Deadline deadline) const;
  collective::LinkModel measure_links(int rank, const collective::Placement& placement,
                                      const std::vector<std::shared_ptr<wire::Connection>>& peers,
                                      wire::Deadline deadline) const;
  std::shared_ptr<collective::Communicator> share_memory(
      const std::shared_ptr<collective::Communicator>& wire,
      const std::function<Status(const Status&)>& explain) const;
  std::shared_ptr<collective::Communicator> over_mpi(
      const std::shared_ptr<collective::Communicator>& wire,
      const std::function<Status(const Status&)>& explain) const;

  const collective::CommunicationOptions communication_;
  const wire::Deadline::Clock::duration patience_;
  std::string wire_;  // for the log
  std::shared_ptr<cluster::Server> server_;
  std::map<cluster::TaskId, int> replicas_;  // that each worker has by itself, lost ones, too
  const bool all_cpu_;
  Common common_;
  std::vector<cluster::TaskId> tasks_;
  std::shared_ptr<collective::Communicator> communicator_;
  bool ends_in_order_ = false;
};

}  // namespace strata::detail
