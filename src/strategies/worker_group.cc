#include "strategies/worker_group.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/wire_environment.h"
#include "collective/mpi/mpi_communicator.h"
#include "collective/nccl/nccl_library.h"
#include "collective/nccl/nccl_transport.h"
#include "collective/planner/algorithm_options.h"
#include "collective/planner/measure_links.h"
#include "collective/planner/planner.h"
#include "collective/shared_memory/shared_memory_communicator.h"
#include "collective/wire/wire_communicator.h"
#include "core/join.h"
#include "kernels/kernel_agreement.h"
#include "strata/cluster/roles.h"
#include "strata/cluster/tls_environment.h"
#include "strata/core/json.h"
#include "strata/core/log.h"
#include "strategies/find_devices.h"
#include "wire/host_identity.h"

namespace strata::detail {
namespace {

using cluster::TaskId;

// Of CommunicationOptions::implementation.
constexpr auto kAuto = "AUTO";
constexpr auto kMpi = "MPI";
constexpr auto kNccl = "NCCL";

constexpr auto kStartAgain =
    "; start the program again in all workers, from its last checkpoint, or make the strategy with "
    "elastic = true and pass the error to recover()";

Json write_counts(const std::map<TaskId, int>& replicas) {
  Json json = Json::object();
  for (const auto& [task, count] : replicas) json.set(task.short_name(), count);
  return json;
}

std::map<TaskId, int> read_counts(const Json& json) {
  std::map<TaskId, int> replicas;
  for (const auto& [task, count] : json.as_object()) {
    constexpr int64_t kMost = 1 << 16;
    STRATA_CHECK(count.as_int() > 0 && count.as_int() <= kMost, kInvalidArgument,
                 "[multi_worker] got ", count.as_int(), " replicas of ", task, "; expected 1 to ",
                 kMost);
    replicas[TaskId::parse(task)] = static_cast<int>(count.as_int());
  }
  return replicas;
}

/// What a worker tells the others about itself.
struct Card {
  std::map<TaskId, int> replicas;  // its own number, and what it knows of others
  std::string host;
  bool all_cpu;
  int cards;  // distinct GPUs of its replicas; 0: some devices are none, or one is twice among them
  std::string no_nccl;  // why NCCL cannot be used; empty: it can
  SharedSettings common;
  bool kernels_may_differ;
  GpusInUse gpus;
  uint64_t mends;
  uint64_t step;

  std::string write() const {
    Json json = Json::object();
    json.set("replicas", write_counts(replicas));
    json.set("host", host);
    json.set("all_cpu", all_cpu);
    json.set("cards", cards);
    json.set("no_nccl", no_nccl);
    json.set("seed", std::to_string(common.seed));
    json.set("threads_per_replica", common.threads_per_replica);
    json.set("kernels", common.kernels);
    json.set("kernels_may_differ", kernels_may_differ);
    json.set("gpus", gpus.to_json());
    json.set("mends", std::to_string(mends));
    json.set("step", std::to_string(step));
    return json.dump();
  }
  static Card read(const std::string& text) {
    const Json json = Json::parse(text);
    return {
        .replicas = read_counts(json.at("replicas")),
        .host = json.at("host").as_string(),
        .all_cpu = json.at("all_cpu").as_bool(),
        .cards = static_cast<int>(json.at("cards").as_int()),
        .no_nccl = json.at("no_nccl").as_string(),
        .common = {.seed = std::stoull(json.at("seed").as_string()),
                   .threads_per_replica = static_cast<int>(json.at("threads_per_replica").as_int()),
                   .kernels = json.at("kernels").as_string()},
        .kernels_may_differ = json.at("kernels_may_differ").as_bool(),
        .gpus = GpusInUse::from_json(json.at("gpus")),
        .mends = std::stoull(json.at("mends").as_string()),
        .step = std::stoull(json.at("step").as_string())};
  }
};

/// What comes before it: where a worker is, from which its replicas may follow.
struct HostCard {
  HostResources resources;
  std::map<TaskId, int> replicas;  // that are known already

  std::string write() const {
    return Json::object()
        .set("resources", resources.to_json())
        .set("replicas", write_counts(replicas))
        .dump();
  }
  static HostCard read(const std::string& text) {
    const Json json = Json::parse(text);
    return {.resources = HostResources::from_json(json.at("resources")),
            .replicas = read_counts(json.at("replicas"))};
  }
};

int distinct_gpus(const std::vector<LogicalDevice>& devices) {
  std::set<c10::DeviceIndex> gpus;
  for (const LogicalDevice& device : devices) {
    if (!device.physical.is_cuda() || !gpus.insert(device.physical.index()).second) return 0;
  }
  return static_cast<int>(gpus.size());
}

std::string why_no_nccl() {
  std::string why;
  collective::nccl::find(&why);
  return why;
}

std::string key_of(const TaskId& task) { return "strata/worker/" + task.short_name(); }
std::string host_key_of(const TaskId& task) { return "strata/host/" + task.short_name(); }

bool all_cpu(const std::vector<LogicalDevice>& devices) {
  return std::ranges::all_of(devices,
                             [](const LogicalDevice& device) { return device.physical.is_cpu(); });
}

/// Replicas in the order of all workers that there ever were; those of absent ones go, one by one,
/// to the present worker that has fewest.
std::vector<int> ranks_of_replicas(const std::vector<TaskId>& workers,
                                   const std::vector<TaskId>& present,
                                   const std::map<TaskId, int>& replicas) {
  std::vector<int> rank_of_replica;
  std::vector<int> load(present.size());
  std::vector<size_t> orphans;
  for (const TaskId& task : workers) {
    const auto found = std::ranges::find(present, task);
    const auto rank = static_cast<int>(found - present.begin());
    const auto known = replicas.find(task);
    for (int i = 0; known != replicas.end() && i < known->second; ++i) {
      if (found == present.end()) orphans.push_back(rank_of_replica.size());
      rank_of_replica.push_back(rank);
      if (found != present.end()) ++load[static_cast<size_t>(rank)];
    }
  }
  for (const size_t replica : orphans) {
    const auto least = std::ranges::min_element(load);
    ++*least;
    rank_of_replica[replica] = static_cast<int>(least - load.begin());
  }
  return rank_of_replica;
}

}  // namespace

std::optional<cluster::Cluster> find_workers(
    const std::shared_ptr<const cluster::ClusterResolver>& resolver) {
  std::optional<cluster::Cluster> cluster =
      resolver ? cluster::resolve_cluster(*resolver) : cluster::resolve_cluster();
  if (!cluster) {
    STRATA_LOG(kWarning)
        << "[multi_worker] found no cluster ("
        << (resolver ? "its resolver has none"
                     : "no TF_CONFIG with one, and not started by mpirun, srun or "
                       "Kubernetes")
        << "): this process trains alone; start it with, for example, strata launch -n 2";
  }
  if (cluster && (cluster->task.job == cluster::kEvaluator ||
                  cluster::training_tasks(cluster->spec).size() == 1)) {
    return std::nullopt;
  }
  return cluster;
}

WorkerGroup::WorkerGroup(const cluster::Cluster& cluster, const cluster::ServerOptions& options,
                         const collective::CommunicationOptions& communication,
                         const std::vector<std::string>& devices, const SharedSettings& common,
                         const GpuRules& gpus)
    : communication_(communication),
      timeout_(options.start_timeout),
      names_(devices),
      gpu_rules_({.share = gpus.share || shared_gpus_allowed(), .mixed_kinds = gpus.mixed_kinds}),
      resources_(HostResources::of_this_process()),
      gpus_(resources_.gpus),
      kernels_(common.kernels),
      common_(common) {
  // An empty list of its launcher's (fewer GPUs than tasks) is for `check_gpus` to refuse, or not.
  if (const auto& given = cluster.resolution.visible_gpus; given && !given->empty()) {
    resources_.gpus = gpus_named(gpus_, *given);
  }
  if (!names_.empty()) devices_ = find_devices("multi_worker_mirrored_strategy", names_);
  cluster::ServerOptions own = options;
  if (own.members.empty()) own.members = cluster::training_tasks(cluster.spec);
  if (!own.tls) own.tls = cluster::tls_from_environment(cluster.task);
  tls_ = own.tls.has_value();
  if (!own.wire && !own.transport) own.wire = cluster::wire_from_environment();
  wire_ = own.transport ? "of its own" : own.wire.value_or("socket");
  server_ = std::make_shared<cluster::Server>(cluster.spec, cluster.task, own);
  form({});
}

void WorkerGroup::re_rendezvous() {
  cards_.reset();
  communicator_.reset();
  server_->rejoin(wire::Deadline::after(timeout_), /*exclude_lost=*/true);
  form({});
}

uint64_t WorkerGroup::mend(uint64_t step) {
  const auto cannot = [](ErrorCode code, const std::string& why) {
    return Error(code, str_cat("[multi_worker] after a failed step: ", why, kStartAgain));
  };
  if (communication_.implementation == kMpi) {
    throw cannot(
        ErrorCode::kUnimplemented,
        "MPI's collectives cannot be used once one was broken off; implementation AUTO can");
  }
  const Status known = server_->status();
  if (known.code() == ErrorCode::kUnavailable) throw cannot(known.code(), known.message());
  const std::vector<TaskId> before = tasks_;
  const std::shared_ptr<collective::Communicator> failed = communicator_;
  try {
    const uint64_t generation = server_->generation();
    // Who has ended is not waited for.
    server_->rejoin(wire::Deadline::after(timeout_), /*exclude_lost=*/true);
    for (const TaskId& task : before) {
      const auto is_task = [&](const cluster::Member& member) { return member.task == task; };
      if (std::ranges::none_of(server_->members(), is_task)) {
        throw cannot(ErrorCode::kUnavailable, task.to_string() + " has ended");
      }
    }
    return form({.mends = generation, .step = step});
  } catch (const Error& error) {
    tasks_ = before;
    communicator_ = failed;
    if (error.code() != ErrorCode::kDeadlineExceeded) throw;
    throw cannot(error.code(), error.what());
  }
}

uint64_t WorkerGroup::form(const Bond& bond) {
  const auto deadline = wire::Deadline::after(timeout_);
  const std::vector<TaskId> workers = cluster::training_tasks(server_->spec());
  tasks_.clear();
  for (const TaskId& task : workers) {
    const auto is_task = [&](const cluster::Member& member) { return member.task == task; };
    if (std::ranges::any_of(server_->members(), is_task)) tasks_.push_back(task);
  }
  const auto rank = static_cast<int>(std::ranges::find(tasks_, server_->task()) - tasks_.begin());

  meet_hosts(static_cast<size_t>(rank), deadline);
  common_.kernels = kernels_;
  server_->set(key_of(server_->task()), Card{.replicas = replicas_,
                                             .host = wire::host_identity(),
                                             .all_cpu = all_cpu(devices_),
                                             .cards = distinct_gpus(devices_),
                                             .no_nccl = why_no_nccl(),
                                             .common = common_,
                                             .kernels_may_differ = kernels::mismatch_allowed(),
                                             .gpus = gpus_in_use(),
                                             .mends = bond.mends,
                                             .step = bond.step}
                                            .write());
  uint64_t step = bond.step;
  std::vector<std::string> hosts;
  std::vector<bool> cpu_alone;
  std::vector<WorkerCards> cards;
  std::vector<std::string> kernels;
  std::vector<GpusInUse> gpus;
  bool kernels_may_differ = true;
  for (size_t r = 0; r < tasks_.size(); ++r) {
    const Card card = Card::read(server_->get(key_of(tasks_[r]), deadline));
    for (const auto& [task, count] : card.replicas) {
      const int known = replicas_.emplace(task, count).first->second;
      STRATA_CHECK(known == count, kInvalidArgument, "[multi_worker] ", tasks_[r].to_string(),
                   " states that ", task.to_string(), " has ", count, " replicas, and ",
                   server_->task().to_string(), " that it has ", known,
                   "; start a worker anew with as many as it had");
    }
    STRATA_CHECK(card.mends == bond.mends, kUnavailable, "[multi_worker] ",
                 (card.mends == 0 ? tasks_[r] : server_->task()).to_string(),
                 " was started anew and lacks the state of the others, which go on after a failed "
                 "step",
                 kStartAgain);
    step = std::max(step, card.step);
    hosts.push_back(card.host);
    cpu_alone.push_back(card.all_cpu);
    cards.push_back({.cards = card.cards, .no_nccl = card.no_nccl});
    kernels.push_back(card.all_cpu ? card.common.kernels : "");
    kernels_may_differ = kernels_may_differ && card.kernels_may_differ;
    gpus.push_back(card.gpus);
    if (r == 0) common_ = card.common;
  }
  if (!gpu_rules_.mixed_kinds) check_kinds(cpu_alone, deadline);
  check_gpus(gpus, deadline);
  check_kernels(kernels, kernels_may_differ, deadline);
  collective::Placement placement;
  placement.rank_of_replica = ranks_of_replicas(workers, tasks_, replicas_);
  placement.host_of_rank = collective::hosts_of(hosts);
  std::vector<std::shared_ptr<wire::Connection>> peers;
  for (size_t r = 0; r < tasks_.size(); ++r) {
    const bool self = static_cast<int>(r) == rank;
    peers.push_back(self ? nullptr : server_->connect(tasks_[r], "collective", deadline));
  }
  if (bond.mends == 0 || !links_) links_ = measure_links(rank, placement, peers, deadline);
  const auto planner = std::make_shared<collective::Planner>(
      placement, *links_, collective::algorithm_options(communication_));
  STRATA_LOG(kInfo) << "[multi_worker] " << tasks_.size() << " workers, "
                    << placement.num_replicas() << " replicas, wire " << wire_ << "; "
                    << planner->describe(collective::Collective::kAllReduce);
  const auto root_cause = [server = server_, own = server_->generation()](const Status& seen) {
    return server->generation() == own ? server->root_cause(seen) : seen;
  };
  const auto wire = std::make_shared<collective::WireCommunicator>(
      rank, std::move(peers), std::shared_ptr<wire::Transport>(server_, &server_->transport()),
      planner,
      collective::WireCommunicatorOptions{
          .root_cause = root_cause,
          .doing = [server = server_](std::string_view call) { server->set_operation(call); }});
  communicator_ = communication_.implementation == kMpi ? over_mpi(wire, root_cause)
                                                        : share_memory(wire, root_cause);
  cards_.reset();
  if (std::ranges::all_of(cpu_alone, std::identity())) return step;
  const std::string why_not = why_not_between_cards(cards, gpus, placement);
  if (why_not.empty()) {
    cards_ = make_cards(placement, deadline);
  } else if (communication_.implementation == kNccl) {
    server_->barrier("strata/no nccl", deadline);  // no worker leaves before all know why
    throw Error(ErrorCode::kFailedPrecondition,
                str_cat("[multi_worker] got implementation NCCL, and ", why_not));
  }
  STRATA_LOG(kInfo) << "[multi_worker] gradients are summed "
                    << (cards_ ? cards_->describe() : "on hosts: " + why_not);
  return step;
}

/// Why gradients cannot go from card to card; empty: they can. The same in all workers.
std::string WorkerGroup::why_not_between_cards(const std::vector<WorkerCards>& cards,
                                               std::vector<GpusInUse> gpus,
                                               const collective::Placement& placement) const {
  const collective::CommunicationImplementation& wanted = communication_.implementation;
  if (wanted != kAuto && wanted != kNccl) return str_cat("implementation is ", wanted.word());
  if (tls_ && !placement.on_one_host()) {
    return "TLS is on, which NCCL does not have between hosts; gradients of workers on several "
           "hosts go over the wire then";
  }
  for (GpusInUse& each : gpus) each.may_share = false;  // here it matters even where it is allowed
  if (const std::optional<SharedGpu> shared = find_shared_gpu(gpus)) {
    return str_cat(tasks_[shared->first].to_string(), " and ", tasks_[shared->second].to_string(),
                   " share a GPU, between whose users NCCL cannot add");
  }
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const std::string name = tasks_[rank].to_string();
    if (!cards[rank].no_nccl.empty()) return str_cat(name, " has no NCCL: ", cards[rank].no_nccl);
    const size_t replicas = placement.replicas_of(static_cast<int>(rank)).size();
    if (static_cast<size_t>(cards[rank].cards) < replicas) {
      return str_cat(name, " has not a GPU for each of its ", replicas, " replicas");
    }
  }
  return "";
}

std::shared_ptr<collective::CardCommunicator> WorkerGroup::make_cards(
    const collective::Placement& placement, wire::Deadline deadline) {
  const auto common_id = [server = server_, is_first = communicator_->rank() == 0](
                             const std::string& key, wire::Deadline limit) {
    if (is_first) server->set(key, collective::nccl::NcclTransport::new_id());
    return server->get(key, limit);
  };
  collective::CardCommunicator::Options options{.replicas = communicator_->replicas(),
                                                .communication = communication_};
  for (size_t i = 0; i < options.replicas.size(); ++i) {
    options.devices.push_back(devices_[i].physical);
  }
  for (const int owner : placement.rank_of_replica) {
    options.hosts.push_back(placement.host_of_rank[static_cast<size_t>(owner)]);
  }
  options.transport =
      std::make_shared<collective::nccl::NcclTransport>(collective::nccl::NcclTransport::Options{
          .num_ranks = placement.num_replicas(),
          .ranks = options.replicas,
          .devices = options.devices,
          .id = common_id("strata/nccl id", deadline),
          .next_id =
              [common_id, timeout = timeout_] {
                return common_id("strata/nccl id for values", wire::Deadline::after(timeout));
              },
          .timeout = communication_.timeout,
          .others =
              [server = server_, communicator = communicator_] {
                const Status status = server->status();
                return status.ok() ? communicator->status() : status;
              }});
  return std::make_shared<collective::CardCommunicator>(std::move(options));
}

/// Workers of one machine agree on who computes where. Shares stay what they were at first: one
/// that is started anew finds the same.
void WorkerGroup::meet_hosts(size_t rank, wire::Deadline deadline) {
  const TaskId& own = server_->task();
  server_->set(host_key_of(own), HostCard{.resources = resources_, .replicas = replicas_}.write());
  std::vector<HostResources> all;
  std::optional<int> had;
  for (const TaskId& task : tasks_) {
    HostCard card = HostCard::read(server_->get(host_key_of(task), deadline));
    all.push_back(std::move(card.resources));
    const auto known = card.replicas.find(own);
    if (known != card.replicas.end()) had = known->second;
  }
  if (share_) return;
  share_ = share_of(all, rank);
  if (devices_.empty()) devices_ = devices_of(*share_);
  if (names_.empty() && had) {
    const std::vector<LogicalDevice> found = std::exchange(devices_, {});
    for (int i = 0; i < *had; ++i) {
      devices_.push_back(found[static_cast<size_t>(i) % found.size()]);
    }
  }
  replicas_[own] = static_cast<int>(devices_.size());
  const size_t cores = std::max<size_t>(1, share_->cores.size());
  if (common_.threads_per_replica == 0) {
    common_.threads_per_replica = std::max(1, static_cast<int>(cores / devices_.size()));
  }
  STRATA_LOG(kInfo) << "[multi_worker] " << own.to_string() << " computes on "
                    << (share_->cores.empty() ? "all cores that it may use, in turn with others"
                                              : "cores " + join(share_->cores));
}

void WorkerGroup::check_kinds(const std::vector<bool>& all_cpu, wire::Deadline deadline) const {
  const auto cpu = std::ranges::find(all_cpu, true) - all_cpu.begin();
  const auto gpu = std::ranges::find(all_cpu, false) - all_cpu.begin();
  const auto count = static_cast<std::ptrdiff_t>(all_cpu.size());
  if (cpu == count || gpu == count) return;
  server_->barrier("strata/kinds of devices", deadline);  // no worker leaves before all know why
  const auto name = [&](std::ptrdiff_t rank) {
    return tasks_[static_cast<size_t>(rank)].to_string();
  };
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[multi_worker] ", name(gpu), " has GPUs and ", name(cpu),
                      " only CPUs; expected the same kind in all workers: give each a GPU, or all "
                      "of them devices = {\"cpu:0\"}"));
}

GpusInUse WorkerGroup::gpus_in_use() const {
  GpusInUse use{.machine = resources_.machine, .gpus = {}, .may_share = gpu_rules_.share};
  for (const HostGpu& gpu : gpus_) {
    const bool used = std::ranges::any_of(devices_, [&](const LogicalDevice& device) {
      return device.physical.is_cuda() && device.physical.index() == gpu.device;
    });
    if (used) use.gpus.push_back(gpu);
  }
  return use;
}

void WorkerGroup::check_gpus(const std::vector<GpusInUse>& gpus, wire::Deadline deadline) const {
  const std::optional<SharedGpu> shared = find_shared_gpu(gpus);
  if (!shared) return;
  server_->barrier("strata/gpus", deadline);  // no worker leaves before all know why
  const std::string first = tasks_[shared->first].to_string();
  const std::string second = tasks_[shared->second].to_string();
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[multi_worker] ", first, " (gpu:", shared->of_first, " there) and ", second,
                      " (gpu:", shared->of_second, " there) use the same GPU, ", shared->card,
                      "; give each its own (strata launch --gpus-per-task 1, srun "
                      "--gpus-per-task=1, CUDA_VISIBLE_DEVICES) or start fewer workers on this "
                      "machine; STRATA_SHARED_GPUS=allow in both lets them share it (strata launch "
                      "--share-gpus)"));
}

void WorkerGroup::check_kernels(const std::vector<std::string>& kernels, bool may_differ,
                                wire::Deadline deadline) const {
  const auto other = std::ranges::find_if(
      kernels, [&](const std::string& each) { return each != kernels.front(); });
  if (other == kernels.end()) return;
  const auto rank = static_cast<size_t>(other - kernels.begin());
  const std::string what =
      str_cat("[multi_worker] ", tasks_.front().to_string(), " has the kernels '", kernels.front(),
              "' and ", tasks_[rank].to_string(), " '", *other, "', which round otherwise");
  if (!may_differ) {
    server_->barrier("strata/kernels", deadline);  // no worker leaves before all know why
    throw Error(ErrorCode::kFailedPrecondition,
                str_cat(what,
                        "; expected the same in all workers: set STRATA_KERNELS alike, or "
                        "STRATA_KERNELS_MISMATCH=allow in all of them to go on with other "
                        "bits than on one kind of processor"));
  }
  STRATA_LOG(kWarning) << what << ": bits depend on which worker has which replica "
                       << "(STRATA_KERNELS_MISMATCH=allow)";
}

collective::LinkModel WorkerGroup::measure_links(
    int rank, const collective::Placement& placement,
    const std::vector<std::shared_ptr<wire::Connection>>& peers, wire::Deadline deadline) const {
  try {
    return collective::measure_links(rank, placement, peers, server_->transport(), deadline);
  } catch (const Error& error) {
    server_->root_cause(Status(error.code(), error.what())).throw_if_error();
    throw;
  }
}

/// `wire`, or what is faster than it on one host. Who asks for an order or an algorithm means the
/// wire's.
std::shared_ptr<collective::Communicator> WorkerGroup::share_memory(
    const std::shared_ptr<collective::Communicator>& wire,
    const std::function<Status(const Status&)>& root_cause) const {
  const collective::Placement& placement = wire->placement();
  if (!placement.on_one_host() || placement.num_ranks() < 2 ||
      communication_.implementation != kAuto) {
    return wire;
  }
  try {
    return std::make_shared<collective::SharedMemoryCommunicator>(
        wire, collective::SharedMemoryOptions{
                  .name = server_->task().to_string(),
                  .timeout = communication_.timeout,
                  .start_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout_),
                  .cores = share_->all_cores,
                  .failed = server_->failed(),
                  .reason = [server = server_] { return server->status(); },
                  .root_cause = root_cause});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable || !wire->status().ok()) throw;
    STRATA_LOG(kWarning) << "[multi_worker] " << error.what()
                         << "; the workers of this host talk over the network instead";
    return wire;
  }
}

std::shared_ptr<collective::Communicator> WorkerGroup::over_mpi(
    const std::shared_ptr<collective::Communicator>& wire,
    const std::function<Status(const Status&)>& root_cause) const {
  STRATA_LOG(kInfo) << "[multi_worker] collectives go over MPI";
  return collective::make_mpi_communicator(
      wire, {.name = server_->task().to_string(),
             .order = communication_.order,
             .timeout = communication_.timeout,
             .start_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout_),
             .cores = share_->all_cores,
             .failed = server_->failed(),
             .reason = [server = server_] { return server->status(); },
             .root_cause = root_cause});
}

void WorkerGroup::leave() {
  if (std::uncaught_exceptions() > 0 && !ends_in_order_) {
    server_->abort(str_cat(server_->task().to_string(), " ended with an error"));
  } else {
    server_->shutdown(wire::Deadline::after(communication_.timeout));
  }
}

}  // namespace strata::detail
