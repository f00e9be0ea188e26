#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective/cards/card_communicator.h"
#include "core/mutex.h"
#include "optim/step/card_shards.h"
#include "tensor/arena.h"
#include "tensor/stream_event.h"

namespace strata::optimizers {

/// Sums the gradients of replicas that have a GPU each, on the cards, while backward still runs.
///
/// A bucket is a run of neighbouring variables in the memory from which the update reads gradients. As
/// soon as a replica's backward has made all of a bucket's, they are copied there by one kernel;
/// when all replicas of the process have, the bucket's sum is enqueued on the communication streams,
/// in the order of the buckets: the last variables first, since backward finishes with them first.
/// The update waits, on the card, for the sums. The host waits for nothing.
///
/// The first step decides which variables have buckets: those with a sparse gradient have none.
class CardReducer {
 public:
  /// Variables of one dtype.
  struct Part {
    std::vector<size_t> variables;         ///< By entry, among the optimizer's.
    std::vector<tensor::Arena> gradients;  ///< By local replica: entry i's gradient is tensor i.
  };
  struct Options {
    int64_t bytes_per_bucket = 25 << 20;
    /// Smaller, so that communication begins early. Source: torch.nn.parallel.DistributedDataParallel.
    int64_t bytes_of_first = 1 << 20;
    /// Each card needs the sums of its part of a bucket alone (`shards_of`).
    bool scatter = false;
  };

  /// @param name  Of the optimizer, for messages.
  CardReducer(std::string name, std::vector<Part> parts,
              std::shared_ptr<collective::CardCommunicator> communicator, const Options& options);

  /// A replica begins a run: what it had left of one that failed is forgotten.
  void begin(int local);
  /// A gradient is complete while backward is still running. Threads: each replica's.
  void mark_ready(int local, size_t variable, const at::Tensor& gradient);
  /// All of a replica's gradients, those that were marked ready included; undefined: none. Threads:
  /// each replica's.
  void add(int local, const std::vector<at::Tensor>& gradients);
  /// Called by one thread after all replicas of this process have called `add`.
  /// @param gradients  By local replica, as given to `add`.
  /// @param is_elsewhere  By variable: the first step's says which have no bucket, in all processes
  ///   alike.
  /// @throws Error  as the communicator's calls: a sum of this step or of one before has failed.
  void finish(const std::vector<const std::vector<at::Tensor>*>& gradients,
              const std::vector<bool>& is_elsewhere);

  /// Whether the variable's gradients are summed here; known after `finish`.
  bool has(size_t variable) const { return home_[variable].bucket >= 0; }
  /// A part's buckets, as its arenas are shared out between the cards; known after `finish`.
  CardShards shards_of(size_t part) const;
  /// The sum, on a replica's card, with `scatter` in its parts of buckets alone; ready on the streams of the thread that called `finish`, and of those
  /// that have called `wait`.
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

  void make_buckets(const std::vector<bool>& is_elsewhere);
  void add_buckets(size_t part, const std::vector<bool>& is_elsewhere);
  void take(int local, size_t variable, const at::Tensor& gradient);
  void copy_to_bucket(int local, size_t bucket);
  void sum_what_is_complete() STRATA_REQUIRES(mutex_);
  void enqueue_sum(size_t bucket);
  void reset(int local);
  void wait_for_communication(int local) const;

  const std::string name_;
  const std::vector<Part> parts_;
  const std::shared_ptr<collective::CardCommunicator> communicator_;
  const Options options_;
  std::vector<Home> home_;                      // by variable
  std::vector<std::vector<at::Tensor>> views_;  // by local replica, variable
  bool made_ = false;
  std::vector<Bucket> buckets_;              // in the order in which they are summed
  std::vector<std::vector<Share>> shares_;   // by local replica, bucket
  std::vector<std::vector<bool>> given_;     // by local replica, variable: in this step
  std::vector<tensor::StreamEvent> summed_;  // by local replica
  std::vector<char> finished_;               // by local replica: its last step

  Mutex mutex_;
  size_t next_ STRATA_GUARDED_BY(mutex_) = 0;  // the first bucket whose sum is not enqueued
};

}  // namespace strata::optimizers
