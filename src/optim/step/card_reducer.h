#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/cards/card_communicator.h"
#include "core/mutex.h"
#include "optim/step/backward.h"
#include "optim/step/card_shards.h"
#include "runtime/replica_group.h"
#include "strata/runtime/variable.h"
#include "tensor/arena.h"
#include "tensor/stream_event.h"

namespace strata::optimizers {

/// Sums the gradients of replicas that have a GPU each, on the cards, while backward still runs.
///
/// A bucket is a run of neighbouring tensors in flat memory of gradients (with
/// `gradient_compression`, in memory of 16-bit numbers that is laid out alike). As soon as a
/// replica's backward has made all of a bucket's, they are copied there by one kernel; when all
/// replicas of the process have, the bucket's sum is enqueued on the communication streams, in the
/// order of the buckets. The update waits, on the card, for the sums. The host waits for nothing.
///
/// The first step decides, in all processes alike, which variables have buckets (those with a
/// sparse gradient have none) and in which order their gradients lie in memory: the order in which
/// the backward of the first replica made them, so that a bucket is complete as early as it can be.
/// Sums are of each element by itself: their bits do not depend on the buckets. Source:
/// torch.nn.parallel.DistributedDataParallel, which rebuilds its buckets after a first step.
class CardReducer {
 public:
  /// Variables of one dtype, and memory for their gradients.
  struct Part {
    std::vector<size_t> variables;         ///< By tensor of the memory, among the reducer's.
    std::vector<tensor::Arena> gradients;  ///< By local replica: tensor i is of the i-th of them.
    /// Each card needs the sums of its parts of buckets alone (`shards_of`).
    bool scatter = false;
  };
  /// Gives memory, best in this order: all variables, those first whose gradients come first. By
  /// one thread, in the first step.
  using LayOut = std::function<std::vector<Part>(const std::vector<size_t>& order)>;

  /// @param name  Of the optimizer, for messages.
  /// @param variables Of a group whose options have `cards`; `bytes_per_pack` is the size of a
  ///   bucket.
  /// @param lay_out  Empty: the reducer has memory of its own.
  CardReducer(std::string name, std::vector<Variable> variables, LayOut lay_out = {});

  /// A replica begins a run: what it had left of one that failed is forgotten.
  void begin(int local);
  /// A gradient is complete while backward is still running. Threads: each replica's, whose current
  /// stream it is on.
  void mark_ready(int local, size_t variable, const at::Tensor& gradient);
  /// All of a replica's gradients, those that were marked ready included; undefined: none. Threads:
  /// each replica's.
  void add(int local, const std::vector<at::Tensor>& gradients);
  /// Called by one thread after all replicas of this process have called `add`; in the first step
  /// in all processes together.
  /// @param gradients  By local replica, as given to `add`.
  /// @param is_elsewhere  By variable: the first step's says which have no bucket, in all processes
  ///   alike. Empty, where there is one process: those with a sparse gradient.
  /// @throws Error  as the communicator's calls: a sum of this step or of one before has failed.
  void finish(const std::vector<const std::vector<at::Tensor>*>& gradients,
              const std::vector<bool>& is_elsewhere = {});

  /// Memory of its own for these variables, of one dtype, in this order.
  Part own_part(std::vector<size_t> variables) const;

  /// Whether the variable's gradients are summed here; known after `finish`.
  bool has(size_t variable) const { return home_[variable].bucket >= 0; }
  /// A part's buckets, as its arenas are shared out between the cards; known after `finish`.
  CardShards shards_of(size_t part) const;
  /// The sum, on a replica's card, with `scatter` in its parts of buckets alone; ready on the
  /// streams of the thread that called `finish`, and of those that have called `wait`.
  const at::Tensor& sum(size_t variable, int local) const {
    return views_[static_cast<size_t>(local)][variable];
  }
  /// The calling thread's stream of the replica's card waits for the sums of this step.
  void wait(int local) const;

 private:
  struct Bucket {
    size_t part;
    int64_t begin, end;  // in the part's arenas
    std::vector<size_t> variables;
  };
  struct Home {
    int64_t bucket = -1;
    size_t place = 0;  // in the bucket
  };
  /// What one replica has of a bucket.
  struct Share {
    size_t missing = 0;
    std::vector<at::Tensor> gradients;  // in the bucket's order
    tensor::StreamEvent copied;
    bool complete = false;  // guarded by mutex_
  };

  /// Of the first replica of the job that has seen one; the same in all processes.
  std::vector<size_t> agree_on_order() const;
  std::vector<Part> memory_in(const std::vector<size_t>& order) const;
  std::vector<bool> sparse_ones(const std::vector<const std::vector<at::Tensor>*>& gradients) const;
  void make_buckets(const std::vector<bool>& is_elsewhere);
  void add_buckets(size_t part, const std::vector<bool>& is_elsewhere);
  void take(int local, size_t variable, const at::Tensor& gradient);
  void copy_to_bucket(int local, size_t bucket);
  void sum_what_is_complete() STRATA_REQUIRES(mutex_);
  void enqueue_sum(size_t bucket);
  /// From what has travelled to the memory of gradients; on the communication streams.
  void widen(const Bucket& bucket, const std::vector<at::Tensor>& travelled) const;
  void reset(int local);
  void wait_for_communication(int local) const;

  const std::string name_;
  const std::vector<Variable> variables_;
  ReplicaGroup& group_;
  const LayOut lay_out_;
  const std::shared_ptr<collective::CardCommunicator> communicator_;
  std::vector<size_t> order_;  // of the first replica's gradients, in the first step
  std::vector<Part> parts_;    // from then on
  std::vector<Home> home_;     // by variable
  std::vector<std::vector<at::Tensor>> wire_;  // by part, local replica: laid out as its gradients,
      // in another dtype; undefined: they travel themselves
  std::vector<std::vector<at::Tensor>> views_;  // by local replica, variable
  std::vector<std::vector<at::Tensor>>
      targets_;  // likewise: what backward's gradients are copied to
  bool made_ = false;
  std::vector<Bucket> buckets_;              // in the order in which they are summed
  std::vector<std::vector<Share>> shares_;   // by local replica, bucket
  std::vector<std::vector<bool>> given_;     // by local replica, variable: in this step
  std::vector<tensor::StreamEvent> summed_;  // by local replica
  std::vector<char> finished_;               // by local replica: its last step

  Mutex mutex_;
  size_t next_ STRATA_GUARDED_BY(mutex_) = 0;  // the first bucket whose sum is not enqueued
};

/// What backward calls with a replica's gradients: marks them ready. @param cards Its owner's,
/// which may replace it between steps.
OnGradient marks_ready(const std::unique_ptr<CardReducer>& cards, int local);

}  // namespace strata::optimizers
