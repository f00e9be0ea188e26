#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collective/communicator.h"
#include "collective/planner/planner.h"
#include "wire/transport.h"

namespace strata::collective {

struct WireCommunicatorOptions {
  uint32_t channel = 1;  ///< Tags of this channel are the communicator's on all connections.

  // What a cluster can do for it (cluster::Server has both):
  /// Called once, with the error of a failed call, before the connections are ended: what it
  /// returns is the call's error. `[&](const Status& seen) { return server.root_cause(seen); }`
  /// gives every rank the same one, which names the task that is the cause.
  std::function<Status(const Status&)> root_cause = {};
  /// Called with what each call does: "all_reduce gradients of dense/kernel". For set_operation.
  std::function<void(std::string_view)> doing = {};
};

/// The `wire` back end: collectives by messages, over whatever connects the ranks. Schedules are
/// the planner's. When a call fails, all connections of the communicator are failed with its error,
/// so that every rank ends with the reason. Cost: see docs/algorithms.md; 2(n-1)/n * bytes sent per
/// rank where every rank's replicas are one subtree of the tree.
class WireCommunicator final : public Communicator {
 public:
  using Options = WireCommunicatorOptions;

  /// @param peers  By rank: open connections; null at `rank`.
  /// @param transport  The connections'.  @param planner  Equal on all ranks.
  WireCommunicator(int rank, std::vector<std::shared_ptr<wire::Connection>> peers,
                   std::shared_ptr<wire::Transport> transport,
                   std::shared_ptr<const Planner> planner, const Options& options = {});
  ~WireCommunicator() override;

  const Planner& planner() const;
  std::string describe() const override;

 private:
  struct Impl;

  void do_call(const CollectiveCall& call, const CallOptions& options) override;
  void do_fail(const Status& reason) override;
  Status do_status() override;

  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::collective
