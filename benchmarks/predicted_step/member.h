#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "collective/wire/wire_communicator.h"
#include "simulate/scenario.h"
#include "strata/cluster/server.h"
#include "suites/netns_testbed.h"

namespace strata::bench {

/// What all processes of a predicted step agree on.
struct PredictedCase {
  std::string network = "resnet50";  ///< built in, or a file with a table
  simulate::Strategy strategy = simulate::Strategy::kAllReduce;
  int megabits = 200;                     ///< a second, of each host's line
  int steps = 10;                         ///< that count; two more go before them
  std::vector<std::string> workers = {};  ///< addresses, one a host
  std::vector<std::string> servers = {};  ///< of parameter servers; server i on worker i's host

  static constexpr int kWarmUp = 2;

  /// The scenario that both the simulation and the processes follow; links are not set.
  simulate::Scenario scenario() const;
  LinkShape line() const;
  /// What it carries of the bytes that are to be sent.
  double bytes_per_second() const;
};

wire::Deadline predicted_step_limit();

/// One process of the cluster, joined. A worker has connections to all other workers, and a
/// communicator over them.
class Member {
 public:
  Member(const PredictedCase& predicted, const cluster::TaskId& task);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  int index() const { return task_.index; }
  cluster::Server& server() { return server_; }
  /// Workers only: what they have measured together, and their sums.
  const collective::LinkModel& links() const { return links_; }
  double measured_rate() const { return measured_rate_; }
  collective::WireCommunicator& communicator() { return *communicator_; }

 private:
  void connect_workers(int workers, double bytes_per_second);

  cluster::TaskId task_;
  cluster::Server server_;
  std::vector<std::shared_ptr<wire::Connection>> peers_;
  collective::LinkModel links_;  // with the lines' known rate
  double measured_rate_ = 0;
  std::unique_ptr<collective::WireCommunicator> communicator_;
};

/// A process's steps. @return the seconds of one.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual double step() = 0;
};

/// Gradients are put into buckets and added by collectives, beside backward.
std::unique_ptr<StepRunner> make_all_reduce_worker(const PredictedCase& predicted, Member& member);

/// Variables come from servers, layer by layer, and gradients go there.
std::unique_ptr<StepRunner> make_parameter_server_worker(const PredictedCase& predicted,
                                                         Member& member);
/// Answers all workers in all steps, and returns.
void serve_parameters(const PredictedCase& predicted, Member& member);

}  // namespace strata::bench
