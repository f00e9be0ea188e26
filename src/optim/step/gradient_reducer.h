#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/mutex.h"
#include "core/thread.h"
#include "optim/step/backward.h"
#include "runtime/replica_group.h"
#include "strata/collective/schedule.h"
#include "strata/runtime/span_observer.h"
#include "strata/runtime/variable.h"

namespace strata::optimizers {

/// The sum of one variable's gradients over all replicas, in one of two forms.
struct GradientSum {
  bool used = false;  ///< At least one replica has a gradient.
  /// In the variable's memory layout, on the CPU: the sum, or the addends by replica id.
  std::vector<at::Tensor> dense = {};
  std::vector<at::Tensor> sparse = {};  ///< Or every replica's rows, by replica id.
};

/// Where the gradients of floats are summed.
enum class ReduceSite {
  kReducer,  ///< By the exchange.
  kCaller,   ///< In the caller, in place, if all processes share memory; nothing is sent then.
};

struct ReducerOptions {
  ReduceSite add = ReduceSite::kReducer;
  /// Each process updates a shard of every bucket of floats, and all-gathers the variables
  /// afterwards (`owned_range`, `all_gather_owned`). Not with ReduceSite::kCaller, where the
  /// callers share the work themselves.
  bool shard = false;
  /// With `shard`: every process needs the sums of all elements nevertheless, for norms.
  bool whole_sums = false;
  /// A CardReducer sums the gradients. What is left is to agree on a step, and variables that have
  /// had a sparse gradient in the first.
  bool on_cards = false;
};

/// Sums gradients over the replicas of several processes, as c10d's Reducer. Dense gradients are
/// copied into buckets, flat memory of the communicator, the last variable first, since backward
/// finishes with it first. A replica without a gradient contributes the identity of the sum.
///
/// The first step decides which variables have buckets: those with a sparse gradient on any replica
/// (embeddings) have none.
///
/// With `overlap`, a thread reduces each bucket as soon as its gradients are complete, while
/// backward computes the next ones, in the order of the buckets, which all processes share.
///
/// With ReduceSite::kCaller each bucket is double buffered: the exchange of a step's metadata
/// proves that all processes have read the buffer of the step before, but not this step's.
class GradientReducer {
 public:
  /// @param name  Of the optimizer, for messages.
  /// @param variables  Of a group with a communicator.
  GradientReducer(std::string name, std::vector<Variable> variables,
                  const ReducerOptions& options = {});
  ~GradientReducer();

  /// From the next step on, `add` skips these elements of a variable's gradients, which no other
  /// process reads. Only with ReduceSite::kCaller, after a step.
  /// @param ranges  Ascending.
  void skip_ranges(size_t variable, std::vector<collective::Range> ranges);

  /// Adds one gradient while backward is still running, so that its bucket can be reduced early.
  /// Optional. Threads: each replica's.
  void mark_ready(int local, size_t variable, const at::Tensor& gradient);

  /// Adds all of a replica's gradients that were not marked ready, undefined ones included.
  /// Threads: each replica's, before `reduce`.
  void add(int local, const std::vector<at::Tensor>& gradients);

  /// One replica's contribution to a step.
  struct Part {
    const std::vector<at::Tensor>* gradients;  ///< By variable; undefined: none.
    double weight = 0;
  };
  struct Result {
    std::vector<GradientSum> sums;  ///< By variable; valid until the next step.
    double weight = 0;        ///< The sum of the replicas' weights, in the order of their ids.
    bool by_callers = false;  ///< `sums` have addends, which the callers sum.
    /// With `on_cards`, by variable: its sum is here, and not on cards.
    std::vector<bool> is_here = {};
  };
  /// Called by one thread after all replicas of this process have called `add`.
  /// @param parts  One a replica of this process.
  Result reduce(const std::vector<Part>& parts);

  /// Known after the first step's exchange.
  bool shards() const;
  bool shards(size_t variable) const {
    return !slots_.empty() && slots_[variable] && bucket_of(variable).part > 0;
  }
  /// The elements of a variable that this process updates, as they lie in memory; others update the
  /// others. All of them, if it is not sharded.
  collective::Range owned_range(size_t variable) const;
  /// Makes tensors whole of which each process has its own elements. By one thread, in all
  /// processes together, outside `exchange`.
  /// @param copies  By variable: tensors laid out as it is, the first with this process's elements.
  ///                Of variables that are not sharded: anything.
  void all_gather_owned(const std::vector<std::vector<at::Tensor>>& copies, std::string_view what);

 private:
  enum class Kind : uint8_t { kNone, kDense, kSparse };
  struct BucketSlot {  // of a variable
    size_t bucket;
    size_t view;
  };
  /// A replica's values, and its variables' places in them.
  struct Values {
    at::Tensor flat;
    std::vector<at::Tensor> views;
  };
  struct Memory {
    std::vector<Values>
        local;                // one a replica of this process; added here, the first takes the sum
    std::vector<Values> all;  // by replica id; empty if added here
    Values sum;  // in the variables' dtype; without elements: the first of `local` has it
  };
  struct Bucket {
    std::vector<size_t> variables;
    std::vector<Memory> buffers;  // one, or two
    int64_t part = 0;             // elements of each process; 0: not sharded
  };
  /// What every replica has of every variable.
  struct StepMetadata {
    std::vector<std::vector<Kind>> kinds;  // by replica id
    double weight = 0;
    bool by_callers = false;
  };

  uint8_t reduction_mode() const;
  Result reduce_beside_cards(const StepMetadata& metadata, const std::vector<Part>& parts);
  StepMetadata agree_on_metadata(const std::vector<Part>& parts) const;
  void make_buckets(const StepMetadata& metadata);
  Bucket make_bucket(at::ScalarType dtype, std::vector<size_t> variables, bool by_callers) const;
  int64_t pack_bytes(const std::vector<int64_t>& sizes) const;
  /// Where the sums of a bucket are that is added here.
  static const Values& sum_of(const Memory& memory) {
    return memory.sum.flat.defined() ? memory.sum : memory.local[0];
  }
  const std::vector<collective::Range>& skipped(size_t variable) const {
    static const std::vector<collective::Range> none;
    return skipped_.empty() ? none : skipped_[variable];
  }
  const Bucket& bucket_of(size_t variable) const { return buckets_[slots_[variable]->bucket]; }
  /// Of a sharded bucket: this process's elements of its memory.
  at::Tensor owned_part(const Bucket& bucket, const at::Tensor& flat) const;
  void copy_into_bucket(int local, size_t variable, const at::Tensor& gradient);
  void reduce_bucket(size_t bucket, std::stop_token stop,
                     const std::shared_ptr<SpanObserver>& observer);
  void reduce_in_order(const std::stop_token& stop);
  void wait_until_reduced();
  /// Of this step.
  Memory& memory_of(Bucket& bucket) const { return bucket.buffers[step_ % bucket.buffers.size()]; }
  GradientSum reduce_separately(size_t variable, const StepMetadata& metadata,
                                const std::vector<Part>& parts) const;

  const std::string name_;
  const std::vector<Variable> variables_;
  const ReducerOptions options_;
  ReplicaGroup& group_;
  size_t step_ = 0;
  std::vector<bool> beside_cards_;  // by variable, from the first step on
  std::vector<Bucket> buckets_;
  std::vector<std::optional<BucketSlot>> slots_;         // by variable; empty: not in a bucket
  std::vector<std::vector<collective::Range>> skipped_;  // by variable
  std::vector<std::vector<bool>> early_;  // by local replica, variable: put in this step already

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<int> missing_ STRATA_GUARDED_BY(mutex_);  // by bucket: gradients that have not come
  size_t sent_ STRATA_GUARDED_BY(mutex_) = 0;           // buckets of this step
  std::shared_ptr<SpanObserver> observer_ STRATA_GUARDED_BY(mutex_);  // of the first replica
  std::exception_ptr error_ STRATA_GUARDED_BY(mutex_);
  Thread sender_;  // last: it uses the others
};

/// What backward calls with a replica's gradients: marks them ready, in a trace by a node that
/// does. Empty, if there is no reducer. @param reducer Its owner's, which may replace it between
/// steps.
OnGradient marks_ready(const std::unique_ptr<GradientReducer>& reducer, int local);

}  // namespace strata::optimizers
