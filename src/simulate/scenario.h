#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/planner/link_model.h"
#include "simulate/network_table.h"
#include "strata/collective/algorithms.h"
#include "strata/collective/communication_options.h"
#include "strata/ps/placement.h"

namespace strata::simulate {

enum class Strategy {
  kAllReduce,        ///< each worker has all variables; gradients are added by collectives
  kParameterServer,  ///< variables are on servers, to which all workers push, in synchronous steps
};

/// How workers read variables of parameter servers; tf_cnn_benchmarks' `--variable_update`.
enum class VariableUpdate {
  kParameterServer,        ///< all are pulled when a step begins; a layer waits for its own
  kDistributedReplicated,  ///< each is pulled as soon as all workers have pushed its gradient
};

enum class PlacementRule {
  kSharded,     ///< strata's: all servers equally full, variables are cut
  kGreedy,      ///< whole variables, each on the server with the least bytes
  kRoundRobin,  ///< whole variables, one server after the other
};

enum class Detail {
  kAuto,     ///< one of several identical ranks where all are identical and there are many
  kGrouped,  ///< one of several identical ranks
  kFull,     ///< every rank
};

/// What is simulated: a network on replicas, of which each worker has several, on hosts and links.
struct Scenario {
  NetworkTable network = {};
  int replicas = 1;
  int replicas_per_worker = 1;
  int workers_per_host = 1;
  collective::LinkModel links = collective::LinkModel::typical();
  Strategy strategy = Strategy::kAllReduce;

  // all-reduce
  std::string implementation = "AUTO";  ///< as CommunicationOptions::implementation
  collective::Order order = collective::Order::kFixed;
  int64_t bytes_per_pack = 0;  ///< 0: as strata chooses
  bool overlap = true;         ///< with backward

  // parameter servers
  int servers = 1;
  PlacementRule placement = PlacementRule::kSharded;
  VariableUpdate variable_update = VariableUpdate::kParameterServer;
  bool servers_on_workers =
      true;  ///< server i is on host i of the workers; else hosts of their own
  /// What waits at most in a switch for one host, in seconds of the host's line, as switches and
  /// TCP have it (`tcp_network.h`), for up to 256 workers and servers. 0: the line is shared fairly, as by many connections in the long
  /// run.
  double switch_queue_seconds = 0;

  // what is no communication and no computation of a replica alone
  double stragglers = 0;  ///< sigma of the lognormal factor of a worker's computing, by step
  double overhead = 0;    ///< of a step with several workers, in steps of one replica
  double overhead_per_doubling = 0;  ///< the same for each doubling of replicas
  uint64_t seed = 1;
  int steps = 1;  ///< more than one have other stragglers each

  Detail detail = Detail::kAuto;

  int workers() const { return replicas / replicas_per_worker; }
  int hosts() const { return (workers() + workers_per_host - 1) / workers_per_host; }

  /// @throws Error  kInvalidArgument: names the option, what came and what was expected.
  void check() const;
};

/// What a server holds.
struct ServerLoad {
  int64_t bytes = 0;
  int variables = 0;
  std::string largest = {};  ///< the variable of which it has the most bytes
  int64_t largest_bytes = 0;
};

/// A bucket of gradients.
struct BucketTimes {
  int64_t bytes = 0;
  int variables = 0;
  std::string algorithm = {};
  double ready = 0;  ///< at the last worker, from the step's begin
  double end = 0;    ///< at the last worker
};

/// A step, averaged over the scenario's. The parts add up to it.
struct StepReport {
  double step_seconds = 0;
  double compute_seconds = 0;    ///< of a replica alone
  double straggler_seconds = 0;  ///< that the last worker computed longer
  double pull_seconds = 0;       ///< that forward waited for variables, or the next step for them
  double push_seconds = 0;  ///< from the last worker's end of backward until gradients were added
  double overhead_seconds = 0;

  double efficiency = 0;  ///< against as many replicas alone
  double images_per_second = 0;

  std::vector<ServerLoad> servers = {};
  double hot_server_seconds = 0;  ///< that the fullest server's line needs for one direction
  std::vector<BucketTimes> buckets = {};
  double bytes_between_hosts = 0;  ///< out of all hosts in one step
  bool grouped = false;
  int64_t events = 0;
};

/// Runs it as discrete events. A pure function: equal scenarios give equal reports.
/// @throws Error kInvalidArgument: as Scenario::check; an implementation that is unknown or does
///   not fit.
StepReport simulate(const Scenario& scenario);

/// Whether one rank can represent all, apart from stragglers; over a switch's queue none can.
bool can_group(const Scenario& scenario);

/// The servers' variables as the placement rule says.
ps::Placement place_on_servers(const std::vector<ps::VariableSpec>& variables, int servers,
                               PlacementRule rule);

}  // namespace strata::simulate
