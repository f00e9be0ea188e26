#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/collective/schedule.h"
#include "strata/core/thread.h"
#include "strata/runtime/span_observer.h"
#include "strata/runtime/variable.h"

namespace strata::optimizers {

/// The sum of one variable's gradients over all replicas, in one of two forms.
struct GradientSum {
  bool used = false;  ///< Some replica has a gradient.
  /// Laid out as the variable is, on the CPU: the sum, or what is still to be added, by replica id.
  std::vector<at::Tensor> dense = {};
  std::vector<at::Tensor> sparse = {};  ///< Else every replica's rows, by replica id.
};

/// Where gradients of floats are added.
enum class AddGradients {
  kHere,      ///< By the exchange.
  kByCaller,  ///< By who reads them, if all processes share memory: nothing is sent or added here.
};

struct ExchangeOptions {
  AddGradients add = AddGradients::kHere;
  /// Each process updates a part of every bucket of floats, and then all send each other their
  /// parts of the variables: `own`, `complete`. Not where the callers add: those share by
  /// themselves.
  bool shard = false;
  /// Each process needs the sums of all elements even so, for norms.
  bool whole_sums = false;
};

/// Sums gradients over the replicas of several processes. Dense ones travel in buckets: flat memory
/// of the communicator's, the last variable first, since backward is done with it first. A replica
/// that did not use a variable sends what changes no sum, so that it need not be asked.
///
/// Which variables have buckets is decided in the first step: those that somebody has a sparse
/// gradient of then (embeddings) stay outside.
///
/// Where the group wants it (`overlap`), a thread sends each bucket once its gradients are there,
/// while backward goes on to the next; in the order of the buckets, which is the same everywhere.
///
/// Where the callers add, each bucket has two places, in turn: the agreement on a step says that
/// everybody is through with the one before, but not that all have read this one's.
class GradientExchange {
 public:
  /// @param name  Of the optimizer, for messages.
  /// @param variables  Of a group with a communicator.
  GradientExchange(std::string name, std::vector<Variable> variables,
                   const ExchangeOptions& options = {});
  ~GradientExchange();

  /// From the next step on no other process will read these elements of a variable's gradients:
  /// where the callers add, they need not be put. After a step.
  /// @param ranges  Ascending.
  void keep(size_t variable, std::vector<collective::Range> ranges);

  /// Puts one gradient into its bucket while backward is still running. Each replica on its own
  /// thread. Optional, and does nothing where buckets are not sent early.
  void put_early(int local, size_t variable, const at::Tensor& gradient);

  /// Puts all of a replica's gradients that are not there yet: undefined ones, too. Each replica on
  /// its own thread, before they meet.
  void put(int local, const std::vector<at::Tensor>& gradients);

  /// What one replica brings to a step.
  struct Part {
    const std::vector<at::Tensor>* gradients;  ///< By variable; undefined: none.
    double weight = 0;
  };
  struct Result {
    std::vector<GradientSum> sums;  ///< By variable; theirs until the next step.
    double weight = 0;              ///< Of all replicas, added in the order of their ids.
    bool by_callers = false;        ///< All processes share memory, and their callers add.
  };
  /// By one thread, when all replicas of this process have put their gradients.
  /// @param parts  One a replica of this process.
  Result exchange(const std::vector<Part>& parts);

  /// Known after the first step's exchange.
  bool shards() const;
  bool shards(size_t variable) const {
    return !homes_.empty() && homes_[variable] && bucket_of(variable).part > 0;
  }
  /// The elements of a variable that this process updates, as they lie in memory; others update the
  /// others. All of them, if it is not sharded.
  collective::Range own(size_t variable) const;
  /// Makes tensors whole of which each process has its own elements. By one thread, in all
  /// processes together, outside `exchange`.
  /// @param copies  By variable: tensors laid out as it is, the first with this process's elements.
  ///                Of variables that are not sharded: anything.
  void complete(const std::vector<std::vector<at::Tensor>>& copies, std::string_view what);

 private:
  enum class Kind : uint8_t { kNone, kDense, kSparse };
  struct Home {  // of a variable
    size_t bucket;
    size_t place;
  };
  /// A replica's values, and its variables' places in them.
  struct Values {
    at::Tensor flat;
    std::vector<at::Tensor> places;
  };
  struct Memory {
    std::vector<Values> mine;  // one a replica of this process; added here, the first takes the sum
    std::vector<Values> all;   // by replica id; empty if added here
  };
  struct Bucket {
    std::vector<size_t> variables;
    std::vector<Memory> turns;  // one, or two
    int64_t part = 0;           // elements of each process; 0: not sharded
  };
  /// What every replica has of every variable.
  struct Agreed {
    std::vector<std::vector<Kind>> kinds;  // by replica id
    double weight = 0;
    bool by_callers = false;
  };

  uint8_t manner() const;
  Agreed agree(const std::vector<Part>& parts) const;
  void make_buckets(const Agreed& agreed);
  Bucket make_bucket(at::ScalarType dtype, std::vector<size_t> variables, bool by_callers) const;
  int64_t pack_bytes(const std::vector<int64_t>& sizes) const;
  const std::vector<collective::Range>& kept(size_t variable) const {
    static const std::vector<collective::Range> none;
    return kept_.empty() ? none : kept_[variable];
  }
  const Bucket& bucket_of(size_t variable) const { return buckets_[homes_[variable]->bucket]; }
  /// Of a sharded bucket: this process's elements of its memory.
  at::Tensor own_part(const Bucket& bucket, const at::Tensor& flat) const;
  void put_one(int local, size_t variable, const at::Tensor& gradient);
  void reduce(size_t bucket, std::stop_token stop, const std::shared_ptr<SpanObserver>& observer);
  void send_in_order(const std::stop_token& stop);
  void wait_until_sent();
  /// Of this step.
  Memory& memory_of(Bucket& bucket) const { return bucket.turns[step_ % bucket.turns.size()]; }
  GradientSum exchange_alone(size_t variable, const Agreed& agreed,
                             const std::vector<Part>& parts) const;

  const std::string name_;
  const std::vector<Variable> variables_;
  const ExchangeOptions options_;
  ReplicaGroup& group_;
  size_t step_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<std::optional<Home>> homes_;            // by variable; empty: not in a bucket
  std::vector<std::vector<collective::Range>> kept_;  // by variable
  std::vector<std::vector<bool>> early_;  // by local replica, variable: put in this step already

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<int> missing_;  // by bucket: gradients that have not come; guarded by mutex_
  size_t sent_ = 0;           // buckets of this step; guarded by mutex_
  std::shared_ptr<SpanObserver> observer_;  // of the first replica; guarded by mutex_
  std::exception_ptr error_;                // guarded by mutex_
  Thread sender_;                           // last: it uses the others
};

}  // namespace strata::optimizers
