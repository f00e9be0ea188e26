#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/runtime/per_replica.h"
#include "strata/runtime/replica_group.h"

namespace strata {

/// What an input function is told. Source: tf.distribute.InputContext.
struct STRATA_API InputContext {
  int num_input_pipelines = 1;
  int input_pipeline_id = 0;
  int num_replicas_in_sync = 1;

  /// @throws Error  kInvalidArgument: not divisible by the number of replicas.
  int64_t get_per_replica_batch_size(int64_t global_batch_size) const;
};

/// Source: tf.distribute.experimental.ValueContext.
struct ValueContext {
  int replica_id_in_sync_group = 0;
  int num_replicas_in_sync = 1;
};

/// Source: tf.distribute.InputOptions.
struct InputOptions {
  /// Copy each replica's part to its device; else parts stay where the dataset made them.
  bool fetch_to_device = true;
  /// Steps that a thread of its own makes ahead of training; 0: none; data::kAutotune: see
  /// Dataset::prefetch.
  int64_t prefetch = 0;
};

/// A dataset whose elements are one part of each global batch per replica of this process.
///
/// `distribute`: parts of a batch differ by at most one row, the larger ones first, in the order of
/// the batch; a batch with fewer rows than replicas leaves the last replicas parts with 0 rows
/// (right dtype and shape), and the step is run all the same. Parts of a batch are views of it.
/// `distribute_from_function`: replica r gets the r-th of every N batches; where the data ends, the
/// replicas that are out get parts with 0 rows.
///
/// Which rows a replica gets depends on its id and the number of replicas alone. Where there are
/// several processes, each reads what its replicas need (dataset_for_worker); with policies other
/// than kAuto and kData, and from functions, its rows are its own. If its data ends sooner than the
/// others', its replicas get parts with 0 rows until the last process's has ended.
/// Workers of a ParameterServerStrategy, which step by themselves, take the batches in turn: worker
/// i of n the batches i, n + i, ... (kAuto, kData), or go through all of them (other policies).
/// Threads: as data::Dataset.
class STRATA_API DistributedDataset {
 public:
  using Element = PerReplica<data::Example>;

  /// How an element is made of what the dataset gives.
  enum class Parts {
    kSplit,      ///< One batch is cut for all replicas.
    kInTurn,     ///< One batch a replica; every process has as many.
    kOwnInTurn,  ///< One batch a replica; processes may differ in how many they have.
  };

  /// One pass. Its position is the place in the input behind the last element it gave.
  class STRATA_API Iterator {
   public:
    Iterator(const DistributedDataset& dataset, data::Iterator input);

    /// @throws Error  kInvalidArgument: elements without rows to split: an unbatched dataset.
    [[nodiscard]] std::optional<Element> next();
    /// The same in all processes. Where each reads its replicas' parts of common batches, it is the
    /// position of one process with all replicas; where each reads data of its own, those of all of
    /// them, each of which gets its own back (both calls are then made by all processes).
    data::Position position() const;
    /// @throws Error  kInvalidArgument: of another pipeline; of another number of processes that
    ///   read data of their own.
    void restore(const data::Position& position);
    /// Whether training waited; elements are those of the dataset given.
    data::IteratorStats stats() const { return input_.stats(); }

   private:
    std::optional<Element> next_split();
    std::optional<Element> next_batches();
    bool anybody_has(bool here);

    std::shared_ptr<ReplicaGroup> group_;
    InputOptions options_;
    Parts parts_;
    data::Iterator input_;
    data::Example pattern_;  // of the last batch, for parts with 0 rows
  };

  /// @param dataset  As the caller of Strategy::distribute has it.
  DistributedDataset(std::shared_ptr<ReplicaGroup> group, data::Dataset dataset,
                     const InputOptions& options, bool whole_batches);

  /// Steps in an epoch, data::Dataset::kInfinite or kUnknown.
  int64_t cardinality() const;

  /// For people: what this process reads, and what it makes of that, in a line. All processes'
  /// lines together are who reads what.
  const std::string& describe() const { return description_; }

  Iterator iterator(int64_t epoch) const;
  /// In the next epoch of the dataset that was given.
  Iterator iterator() const;

  /// For range-for: `for (const PerReplica<Example>& batch : distributed)`. Each loop is an epoch.
  class RangeIterator {
   public:
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    explicit RangeIterator(Iterator iterator)
        : iterator_(std::move(iterator)), current_(iterator_.next()) {}
    const Element& operator*() const { return *current_; }
    const Element* operator->() const { return &*current_; }
    RangeIterator& operator++() {
      current_ = iterator_.next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const RangeIterator& it, std::default_sentinel_t) {
      return !it.current_;
    }

   private:
    Iterator iterator_;
    std::optional<Element> current_;
  };
  RangeIterator begin() const { return RangeIterator(iterator()); }
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<ReplicaGroup> group_;
  data::Dataset given_;
  data::Dataset dataset_;  // what this process reads of it
  std::string description_;
  InputOptions options_;
  Parts parts_;
};

}  // namespace strata
