#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/cards/card_communicator.h"
#include "collective/communicator.h"
#include "collective/planner/link_model.h"
#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/server.h"
#include "strata/collective/communication_options.h"
#include "strata/runtime/devices.h"
#include "strategies/host_share.h"
#include "wire/connection.h"

namespace strata::detail {

/// What the workers of a cluster must have in common; the chief's counts, but for `kernels`, which
/// are compared.
struct SharedSettings {
  uint64_t seed = 0;
  int threads_per_replica = 0;  ///< 0: cores of the share / replicas
  std::string kernels = {};     ///< a name, as kernels_of_replicas gives it; empty: any
};

/// What workers may do with GPUs.
struct GpuRules {
  bool share = false;  ///< This worker may use a GPU that another one uses, which may do so, too.
  /// Some workers may have GPUs and others only CPUs, as all of them say: their sums cross no replicas but
  /// as gradients, which go over the hosts then.
  bool mixed_kinds = false;
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
  /// Joins the other workers, and forms a group with them.
  /// @param devices  Of this process's replicas, by name; none: its share of what the workers of
  ///   its machine may use, or, where it is started anew, as many as it had.
  /// @throws Error  kInvalidArgument, in all workers: some have only CPUs and some have not, where kinds
  ///                may not be mixed. kFailedPrecondition, in all workers: their
  ///                kernels differ, and STRATA_KERNELS_MISMATCH does not allow it in each; or two
  ///                use one GPU, and not both may. As cluster::Server.
  WorkerGroup(const cluster::Cluster& cluster, const cluster::ServerOptions& server,
              const collective::CommunicationOptions& communication,
              const std::vector<std::string>& devices, const SharedSettings& common,
              const GpuRules& gpus = {});

  /// The way to the others. Ranks are in the order of cluster::id_in_cluster, replica ids in the
  /// order of ranks; those of a lost worker belong to the ones with fewest.
  const std::shared_ptr<collective::Communicator>& communicator() const { return communicator_; }
  /// Sums gradients between the workers' GPUs; null: they go over `communicator`.
  const std::shared_ptr<collective::CardCommunicator>& cards() const { return cards_; }
  const std::shared_ptr<cluster::Server>& server() const { return server_; }
  const SharedSettings& common() const { return common_; }
  /// That this process has by itself.
  const std::vector<LogicalDevice>& devices() const { return devices_; }
  /// What it uses of its machine; `cores` are empty where they are all that it may use.
  const HostShare& share() const { return *share_; }
  /// By rank.
  const std::vector<cluster::TaskId>& tasks() const { return tasks_; }

  /// Forms the next group, of those who are left and those who have come.
  void re_rendezvous();
  /// After a failed step: a communicator between the same processes, which all make this call.
  /// @param step  How many runs this process has made. @return the most that one of them has made.
  /// @throws Error  kUnavailable: a process has ended, or was started anew and lacks the state that
  ///   the others have. kDeadlineExceeded: one did not come. kUnimplemented: over MPI.
  uint64_t mend(uint64_t step);
  /// The orderly end, or, while an exception is under way, the end that the others hear of: unless
  /// `end_in_order` was called, since all end so.
  void leave();
  void end_in_order() { ends_in_order_ = true; }

 private:
  /// What is the same in all who go on with each other.
  struct Bond {
    uint64_t mends = 0;  ///< the generation that they go on from; 0: none
    uint64_t step = 0;
  };
  /// @return the greatest step.
  uint64_t form(const Bond& bond);
  void meet_hosts(size_t rank, wire::Deadline deadline);
  void check_kinds(const std::vector<bool>& all_cpu, wire::Deadline deadline) const;
  GpusInUse gpus_in_use() const;
  void check_gpus(const std::vector<GpusInUse>& gpus, wire::Deadline deadline) const;
  void check_kernels(const std::vector<std::string>& kernels, bool may_differ,
                     wire::Deadline deadline) const;
  collective::LinkModel measure_links(int rank, const collective::Placement& placement,
                                      const std::vector<std::shared_ptr<wire::Connection>>& peers,
                                      wire::Deadline deadline) const;
  std::shared_ptr<collective::Communicator> share_memory(
      const std::shared_ptr<collective::Communicator>& wire,
      const std::function<Status(const Status&)>& root_cause) const;
  std::shared_ptr<collective::Communicator> over_mpi(
      const std::shared_ptr<collective::Communicator>& wire,
      const std::function<Status(const Status&)>& root_cause) const;

  /// What a worker has for sums between GPUs.
  struct WorkerCards {
    int cards;
    std::string no_nccl;
  };
  std::string why_not_between_cards(const std::vector<WorkerCards>& cards,
                                    std::vector<GpusInUse> gpus,
                                    const collective::Placement& placement) const;
  std::shared_ptr<collective::CardCommunicator> make_cards(const collective::Placement& placement,
                                                           wire::Deadline deadline);

  const collective::CommunicationOptions communication_;
  const wire::Deadline::Clock::duration timeout_;
  std::string wire_;  // for the log
  std::shared_ptr<cluster::Server> server_;
  const std::vector<std::string> names_;  // of devices, as the user gave them
  const GpuRules gpu_rules_;
  HostResources resources_;          // of the GPUs those that its launcher gave it
  const std::vector<HostGpu> gpus_;  // all that this process sees
  std::optional<HostShare> share_;
  std::vector<LogicalDevice> devices_;
  std::map<cluster::TaskId, int> replicas_;  // that each worker has by itself, lost ones, too
  const std::string kernels_;                // of this process
  SharedSettings common_;
  std::vector<cluster::TaskId> tasks_;
  bool tls_ = false;
  std::shared_ptr<collective::Communicator> communicator_;
  std::shared_ptr<collective::CardCommunicator> cards_;
  std::optional<collective::LinkModel> links_;  // as measured last
  bool ends_in_order_ = false;
};

}  // namespace strata::detail
