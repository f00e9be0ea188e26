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
#include "core/mutex.h"
#include "strata/collective/reduce_op.h"
#include "tensor/stream_event.h"

namespace strata::collective {

/// Sums over replicas that have a GPU each, in one process or several. Nothing passes through a
/// host: sums are made on the cards, in the order of the tree over replica ids (the bits of
/// `reduce_in_order`, wherever the replicas are), unless Order::kAny lets the transport add as it
/// likes.
///
/// Calls enqueue their work on streams beside the replicas', and return; events order the two. So
/// communication runs while the replicas compute.
///
/// All processes make the same calls in the same order: else each card would wait for another one's
/// call. Sums of gradients begin when backward has made them, in the middle of which replicas may
/// need sums of other values (synchronized BatchNormalization). The order of these among those is
/// chance, so they have a communicator of their own, `for_values`.
/// Threads: one at a time; `fail` and `status` any.
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
    /// Whose streams on the cards its calls are enqueued on.
    tensor::SideWork work = tensor::SideWork::kCommunication;
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
  void all_gather_parts(const std::vector<at::Tensor>& values, const std::string& name);

  /// Brings values of one size together. @param values  As those of `all_reduce`.
  /// @param results  `[num_replicas(), n]`, contiguous, one a local replica on its card: the values by
  ///   replica id.
  void all_gather(const std::vector<at::Tensor>& values, const std::vector<at::Tensor>& results,
                  const std::string& name);

  /// A communicator between the same cards for what is no gradient, with streams of its own. The
  /// first call makes it, in all processes together; it fails when this one does.
  /// @throws Error  As the transport's constructor; then this one has failed, too.
  CardCommunicator& for_values();

  /// Ends what is pending, of `for_values`, too.
  void fail(const Status& reason);
  /// Ok while calls can be made, of `for_values`, too.
  Status status();
  /// "4 replicas on cards: NCCL 2.28, sums in the fixed order".
  std::string describe() const;

 private:
  struct Plan {
    std::shared_ptr<const Schedule> schedule;
    std::vector<std::vector<CardRound>> rounds;  // by local replica
    std::vector<ScratchLayout> layouts;          // likewise
  };

  void check_parts(const std::vector<at::Tensor>& values, const std::string& name) const;
  /// Of n equal ones each local replica's.
  std::vector<at::Tensor> parts_of(const std::vector<at::Tensor>& values) const;
  /// By the planner's schedule.
  void run(Collective collective, const std::vector<at::Tensor>& values, ReduceOp op,
           const std::string& name);
  const Plan& plan_for(const Wanted& wanted);

  const Options options_;
  const Planner planner_;
  std::vector<c10::Stream> streams_;
  std::vector<c10::Stream> distinct_streams_;
  std::map<const Schedule*, Plan> plans_;
  Mutex mutex_;
  std::shared_ptr<CardCommunicator> values_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::collective
