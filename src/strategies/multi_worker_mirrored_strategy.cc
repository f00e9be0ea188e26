#include "strata/strategies/multi_worker_mirrored_strategy.h"

#include <algorithm>
#include <utility>

#include "core/first_line.h"
#include "core/join.h"
#include "kernels/kernel_agreement.h"
#include "runtime/replica_group.h"
#include "strata/cluster/roles.h"
#include "strata/core/log.h"
#include "strata/runtime/cross_device_ops.h"
#include "strategies/cards_of_process.h"
#include "strategies/default_seed.h"
#include "strategies/find_devices.h"
#include "strategies/standalone/connect_client.h"
#include "strategies/worker_group.h"
#include "strategies/worker_stop_consensus.h"
#include "wire/transport.h"

namespace strata {
namespace {

constexpr auto kStrategyName = "multi_worker_mirrored_strategy";

/// This process's devices in turn, for as many replicas as it has now.
std::vector<LogicalDevice> devices_for(const std::vector<LogicalDevice>& own, size_t replicas) {
  std::vector<LogicalDevice> devices;
  for (size_t i = 0; i < replicas; ++i) devices.push_back(own[i % own.size()]);
  return devices;
}

/// Tells the cluster what this worker is doing, for the others' errors if it is lost.
class StepReporter final : public RunObserver {
 public:
  StepReporter(cluster::Server& server, const ReplicaGroup& group)
      : server_(server), group_(group) {}
  void before_run() override { server_.set_operation(str_cat("run ", group_.step() + 1)); }
  void on_run_begin(int) override {}
  void on_run_end(int) override {}

 private:
  cluster::Server& server_;
  const ReplicaGroup& group_;
};

void check_for_servers(const MultiWorkerMirroredOptions& options) {
  STRATA_CHECK(!options.elastic, kInvalidArgument, "[", kStrategyName,
               "] got elastic and client='standalone', whose servers cannot be replaced: a session "
               "ends with the first that is lost; restore a checkpoint in a new one");
  STRATA_CHECK(!options.shard_optimizer_state, kUnimplemented, "[", kStrategyName,
               "] got shard_optimizer_state and client='standalone', whose servers keep all slots; "
               "leave it out");
}

}  // namespace

struct MultiWorkerMirroredStrategy::Joined {
  ReplicaGroupOptions group;
  std::vector<LogicalDevice> devices;
  std::shared_ptr<detail::WorkerGroup> workers;
  std::shared_ptr<standalone::StandaloneClient> client;
  bool elastic = false;

  static Joined make(const MultiWorkerMirroredOptions& options);
};

MultiWorkerMirroredStrategy::Joined MultiWorkerMirroredStrategy::Joined::make(
    const MultiWorkerMirroredOptions& options) {
  Joined joined;
  STRATA_CHECK(
      !options.elastic || options.communication_options.implementation != "MPI", kInvalidArgument,
      "[", kStrategyName,
      "] got elastic with implementation MPI, whose processes cannot be replaced: MPI ends "
      "the job with the first that is lost; start it again from its checkpoint, or use "
      "implementation AUTO");
  joined.elastic = options.elastic;
  ReplicaGroupOptions& group = joined.group;
  group.name = kStrategyName;
  group.seed = options.seed.value_or(detail::default_seed());
  group.timeout = options.communication_options.timeout;
  group.reduction = reduction_options(group.name, options.communication_options);
  group.reduction.shard_optimizer_state = options.shard_optimizer_state;
  group.replicas = options.replicas;

  if (options.client == ClientMode::kStandalone) check_for_servers(options);
  joined.client =
      standalone::connect_client(group, options.client, options.standalone, options.devices);
  if (joined.client) return joined;
  const std::optional<cluster::Cluster> cluster = detail::find_workers(options.cluster_resolver);
  if (!cluster) {
    joined.devices = detail::find_devices(kStrategyName, options.devices);
    group.devices = joined.devices;
    group.cards = detail::cards_of_process(group.devices, options.communication_options);
    group.cross_device_ops = choose_cross_device_ops(group.devices);
    return joined;
  }
  STRATA_CHECK(cluster->task.job != cluster::kPs, kInvalidArgument, "[", kStrategyName,
               "] this process is ", cluster->task.to_string(),
               ", a parameter server; expected a chief or worker: this strategy has no use for "
               "parameter servers");
  joined.workers = std::make_shared<detail::WorkerGroup>(
      *cluster, options.server, options.communication_options, options.devices,
      detail::SharedSettings{
          .seed = group.seed,
          .threads_per_replica = options.replicas.threads_per_replica,
          .kernels = kernels::kernels_of_replicas(options.replicas.bits == Bits::kPortable)},
      detail::GpuRules{.share = options.share_gpus});
  joined.devices = joined.workers->devices();
  group.cores = joined.workers->share().cores;
  group.communicator = joined.workers->communicator();
  group.cards = joined.workers->cards();
  group.devices = devices_for(joined.devices, group.communicator->replicas().size());
  group.reduction.overlap = options.communication_options.overlap.value_or(
      !group.communicator->placement().on_one_host());
  group.late_joiner = joined.workers->server()->generation() > 1;
  group.seed = joined.workers->common().seed;
  group.replicas.threads_per_replica = joined.workers->common().threads_per_replica;
  return joined;
}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const MultiWorkerMirroredOptions& options)
    : MultiWorkerMirroredStrategy(Joined::make(options)) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(Joined joined)
    : Strategy(std::move(joined.group)),
      ClientSession(std::move(joined.client), group()),
      workers_(std::move(joined.workers)),
      devices_(std::move(joined.devices)),
      elastic_(joined.elastic) {
  if (!workers_) return;
  reporter_ = std::make_shared<StepReporter>(*workers_->server(), group());
  group().observe(reporter_);
}

MultiWorkerMirroredStrategy::~MultiWorkerMirroredStrategy() {
  if (workers_) workers_->leave();
}

int MultiWorkerMirroredStrategy::num_workers() const {
  return num_servers() > 0 ? num_servers() : group().workers().count;
}

int MultiWorkerMirroredStrategy::worker() const { return group().workers().index; }

std::shared_ptr<cluster::Server> MultiWorkerMirroredStrategy::server() const {
  return workers_ ? workers_->server() : nullptr;
}

bool MultiWorkerMirroredStrategy::is_elastic() const { return workers_ && elastic_; }

/// What was thrown here, unless it is what another worker's failure led to: that is known to all.
Status MultiWorkerMirroredStrategy::do_step_failed(const Status& status, const std::string& when) {
  const collective::Communicator& communicator = *group().communicator();
  cluster::Server& server = *workers_->server();
  if (communicator.has_failed() || !server.status().ok()) return status;  // the first failure stays
  if (has_failed_cards()) return status;                                  // no fault of the program
  const std::string what = str_cat(" threw ", when, ": ", first_line(status.message()));
  if (!communicator.shares_memory()) server.abort("it" + what);  // before connections break
  return Status(ErrorCode::kAborted, server.task().to_string() + what);
}

void MultiWorkerMirroredStrategy::do_refresh() { fetch(); }

void MultiWorkerMirroredStrategy::do_mend() {
  const uint64_t step = workers_->mend(group().step());
  group().reconnect(workers_->communicator(), workers_->cards(), step);
  STRATA_LOG(kInfo) << "[" << kStrategyName << "] all workers go on after a failed step, with run "
                    << step + 1;
}

std::shared_ptr<StopConsensus> MultiWorkerMirroredStrategy::do_make_stop_consensus() {
  if (!workers_) return nullptr;
  const std::shared_ptr<cluster::Server> server = workers_->server();
  if (std::exchange(agreement_generation_, server->generation()) != server->generation()) {
    agreements_ = 0;
  }
  return std::make_shared<detail::WorkerStopConsensus>(
      server, worker(), num_workers(), ++agreements_, elastic_,
      [workers = workers_] { workers->end_in_order(); });
}

void MultiWorkerMirroredStrategy::regroup() {
  if (!workers_) return;
  // Others may be lost meanwhile.
  constexpr int kAttempts = 5;
  for (int attempt = 1;; ++attempt) {
    try {
      workers_->re_rendezvous();
      break;
    } catch (const Error&) {
      if (attempt == kAttempts || workers_->server()->status().ok()) throw;
    }
  }
  const auto& communicator = workers_->communicator();
  group().reshape(devices_for(devices_, communicator->replicas().size()), communicator,
                  workers_->cards());
}

/// All have saved and are on their way here. No process ends connections that another still reads
/// from.
void MultiWorkerMirroredStrategy::take_in() {
  cluster::Server& server = *workers_->server();
  try {
    server.barrier("strata/regroup", wire::Deadline::after(group().options().timeout));
  } catch (const Error&) {
    if (server.status().ok())
      throw;  // else one is lost, and the others continue with the workers that are left
  }
  regroup();
}

bool MultiWorkerMirroredStrategy::do_recover(const Error& error) {
  if (!is_elastic()) return false;
  if (dynamic_cast<const MembershipChanged*>(&error) != nullptr) {
    take_in();
    STRATA_LOG(kWarning) << "[" << kStrategyName << "] another worker takes part; now "
                         << describe();
    return true;
  }
  // The connection breaks before the cluster has found out whom it lost.
  cluster::Server& server = *workers_->server();
  const std::stop_token failed = server.failed();
  constexpr std::chrono::seconds kPatience{5};
  if (!server.transport().wait_until([&] { return failed.stop_requested(); },
                                     wire::Deadline::after(kPatience))) {
    return recover_cards(error);
  }
  if (server.status().code() != ErrorCode::kUnavailable) return false;
  STRATA_LOG(kWarning) << "[" << kStrategyName << "] " << server.status().message()
                       << "; the others go on without it (" << error.what() << ")";
  regroup();
  STRATA_LOG(kWarning) << "[" << kStrategyName << "] now " << describe();
  return true;
}

/// Recovers from a failure of NCCL while all workers are alive: makes new communicators; the caller then
/// restores its last checkpoint.
bool MultiWorkerMirroredStrategy::recover_cards(const Error& error) {
  if (!has_failed_cards()) return false;
  STRATA_LOG(kWarning) << "[" << kStrategyName << "] " << error.what()
                       << "; all workers go on with new communicators";
  group().mend();
  return true;
}

bool MultiWorkerMirroredStrategy::has_failed_cards() const {
  const auto& cards = group().options().cards;
  if (!cards) return false;
  const ErrorCode code = cards->status().code();
  return code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded;
}

std::string MultiWorkerMirroredStrategy::describe() const {
  if (num_servers() > 0) {
    return str_cat(num_servers(), " servers, ", num_replicas_in_sync(), " replicas\n");
  }
  if (!workers_) return str_cat("1 worker, ", num_replicas_in_sync(), " replicas\n");
  const collective::Communicator& communicator = *group().communicator();
  std::string text = str_cat(num_workers(), " workers, ", num_replicas_in_sync(), " replicas, ",
                             communicator.describe(), "\n");
  for (int rank = 0; rank < num_workers(); ++rank) {
    const std::vector<int> replicas = communicator.placement().replicas_of(rank);
    text += str_cat("  ", workers_->tasks()[static_cast<size_t>(rank)].short_name(), ": replicas ",
                    join(replicas), rank == worker() ? " (this process)" : "", "\n");
  }
  return text;
}

}  // namespace strata
