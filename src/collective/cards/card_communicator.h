#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collective/algorithms/scratch_layout.h"
#include "collective/cards/card_rounds.h"
#include "collective/cards/card_transport.h"
#include "collective/planner/planner.h"
#include "strata/collective/reduce_op.h"

namespace strata::collective {

/// Sums over replicas that have a GPU each, in one process or several. Nothing passes through a
/// host: sums are made on the cards, in the order of the tree over replica ids (the bits of
/// `reduce_in_order`, wherever the replicas are), unless Order::kAny lets the transport add as it
/// likes.
///
/// Calls enqueue their work on streams beside the replicas', and return; events order the two. So
/// communication runs while the replicas compute.
/// Threads: one at a time.
class CardCommunicator {
 public:
  struct Options {
    /// Of this process's replicas, ascending ids. Several may be one card.
    std::vector<c10::Device> devices = {};
    /// The ids of this process's replicas, ascending; a replica is a rank.
    std::vector<int> replicas = {};
    /// By replica of the job: numbers that say which are of one host.
    std::vector<int> hosts = {};
    std::shared_ptr<CardTransport> transport = {};
    CommunicationOptions communication = {};
  };
  explicit CardCommunicator(Options options);

  int num_replicas() const { return static_cast<int>(options_.hosts.size()); }
  const std::vector<c10::Device>& devices() const { return options_.devices; }
  /// Where calls are enqueued, by local replica.
  const std::vector<c10::Stream>& streams() const { return streams_; }

  /// Reduces in place. @param values  `[n]`, contiguous, one a local replica on its card, of one dtype and
  ///   size everywhere. They are ready on `streams()`, where the results are, too.
  void all_reduce(const std::vector<at::Tensor>& values, ReduceOp op, const std::string& name);
  /// Reduces in place: of n replicas replica r gets the r-th of n equal parts, with the bits that all_reduce
  /// has there; its other elements are undefined then. @param values  As above, a multiple of n elements.
  /// @throws Error  kInternal: they are not.
  void reduce_scatter(const std::vector<at::Tensor>& values, ReduceOp op, const std::string& name);
  /// In place: replica r has the r-th of n equal parts, and all get all. @param values, @throws  As above.
  void all_gather(const std::vector<at::Tensor>& values, const std::string& name);

  void fail(const Status& reason) { options_.transport->fail(reason); }
  Status status() { return options_.transport->status(); }
  /// "4 replicas on cards: NCCL 2.28, sums in the fixed order".
  std::string describe() const;

 private:
  struct Plan {
    std::shared_ptr<const Schedule> schedule;
    std::vector<std::vector<CardRound>> rounds;  // by local replica
    std::vector<ScratchLayout> layouts;          // likewise
  };

  void check_parts(const std::vector<at::Tensor>& values, const std::string& name) const;
  /// By the planner's schedule.
  void run(Collective collective, const std::vector<at::Tensor>& values, ReduceOp op,
           const std::string& name);
  const Plan& plan_for(const Wanted& wanted);

  const Options options_;
  const Planner planner_;
  std::vector<c10::Stream> streams_;
  std::vector<c10::Stream> distinct_streams_;
  std::map<const Schedule*, Plan> plans_;
};

}  // namespace strata::collective
