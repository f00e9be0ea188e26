#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/runtime/per_replica.h"

namespace strata {

class ReplicaGroup;
namespace detail {
class DeviceInput;
}

/// The argument of an input function. Source: tf.distribute.InputContext.
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
  /// Copies each replica's part to its device; else parts stay on the dataset's.
  bool fetch_to_device = true;
  /// The number of steps that a thread prefetches; 0: none; data::kAutotune: see Dataset::prefetch.
  int64_t prefetch = 0;
  /// With replicas on GPUs: how many steps' batches are on the devices ahead of the step that reads
  /// one. A thread reads them, through pinned memory, and they are copied while steps compute; each
  /// costs a batch of memory on the devices and on the host. 0: a step's batch is copied in its way,
  /// and the input is read on the caller's thread. On CPUs, or without `fetch_to_device`: no
  /// effect. Source: tf.data.experimental.prefetch_to_device.
  int64_t prefetch_to_device = 2;
};

/// A dataset whose elements are one part of each global batch per replica of this process.
///
/// `distribute`: parts of a batch differ by at most one row, the larger ones first, in the order of
/// the batch; a batch with fewer rows than replicas leaves the last replicas parts with 0 rows
/// (right dtype and shape), and the step is run all the same. Parts of a batch are views of it.
/// `distribute_from_function`: replica r gets the r-th of every N batches; at the end of the data,
/// the replicas without a batch get parts with 0 rows.
///
/// The rows of a replica depend on its id and the number of replicas alone. Each of several
/// processes reads the rows of its replicas (dataset_for_worker); with policies other than kAuto
/// and kData, and from functions, its rows are its own. If its data ends earlier than the others',
/// its replicas get parts with 0 rows until the last process's has ended.
/// Workers of a ParameterServerStrategy, which run their own steps, take the batches in turn:
/// worker i of n the batches i, n + i, ... (kAuto, kData), or all of them (other policies).
/// Threads: as data::Dataset.
class STRATA_API DistributedDataset {
 public:
  using Element = PerReplica<data::Example>;

  /// The assignment of the dataset's elements to replicas.
  enum class Parts {
    kSplit,      ///< One batch is split over all replicas.
    kInTurn,     ///< One batch for each replica; every process has as many.
    kOwnInTurn,  ///< One batch for each replica; processes may have different numbers of them.
  };

  /// One pass. Its position is the place in the input after its last element.
  class STRATA_API Iterator {
   public:
    Iterator(const DistributedDataset& dataset, data::Iterator input);
    ~Iterator();
    Iterator(Iterator&&) noexcept;
    Iterator& operator=(Iterator&&) noexcept;

    /// @throws Error  kInvalidArgument: elements without rows to split: an unbatched dataset.
    [[nodiscard]] std::optional<Element> next();
    /// The position, the same in all processes. If each reads its replicas' parts of common
    /// batches, it is the position of one process with all replicas; if each reads data of its own,
    /// it has the positions of all of them, and each restores its own (all processes then make both
    /// calls).
    data::Position position() const;
    /// @throws Error  kInvalidArgument: the position is of another pipeline, or of another number
    ///   of processes that read data of their own.
    void restore(const data::Position& position);
    /// Statistics of the waits for the given dataset, whose elements they count: training's, or, of
    /// batches that are on GPUs ahead of it, those of the thread that reads them.
    data::IteratorStats stats() const;

   private:
    std::vector<data::Example> next_parts();
    void start_ahead();
    Element complete(std::vector<data::Example> parts) const;
    bool anybody_has(bool here);

    std::shared_ptr<ReplicaGroup> group_;
    InputOptions options_;
    Parts parts_;
    std::unique_ptr<data::Iterator> input_;       // has a fixed address: a thread may read it
    data::Example pattern_;                       // the last batch, for parts with 0 rows
    std::unique_ptr<detail::DeviceInput> ahead_;  // last: its thread reads the input
  };

  /// @param dataset  The argument of Strategy::distribute.
  DistributedDataset(std::shared_ptr<ReplicaGroup> group, data::Dataset dataset,
                     const InputOptions& options, bool whole_batches);

  /// Steps in an epoch, data::Dataset::kInfinite or kUnknown.
  int64_t cardinality() const;

  /// Describes, in a line, what this process reads and how it assigns it. The lines of all
  /// processes together describe the whole input.
  const std::string& describe() const { return description_; }

  Iterator iterator(int64_t epoch) const;
  /// Starts the next epoch of the given dataset.
  Iterator iterator() const;

  /// Iterates in range-for: `for (const PerReplica<Example>& batch : distributed)`. Each loop is an
  /// epoch.
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
  data::Dataset dataset_;  // this process's part
  std::string description_;
  InputOptions options_;
  Parts parts_;
};

/// One of the workers that share a dataset. Replica r of worker i is replica i *
/// replicas_per_worker + r of all.
struct WorkerInput {
  int num_workers = 1;
  int worker_index = 0;
  int replicas_per_worker = 1;
  /// For workers with unequal numbers of replicas: the ids of this one's, ascending, and the number
  /// of all replicas.
  std::vector<int> replicas = {};
  int num_replicas = 0;
};

/// Returns the sizes of the batches that a worker's replicas get in turn, if the worker reads rows
/// of its own (policies kOff, kFile, kHint): sizes of all replicas differ by one at most, every
/// step adds up to the global batch over all workers, and so does every worker's list over its
/// turns. 7 rows over 2 workers of 2 replicas: 2, 2, 2, 1 and 2, 1, 2, 2. With unequal numbers of
/// replicas each replica's size is always the same. Source: tf.distribute's batch_sizes_for_worker.
STRATA_API std::vector<int64_t> per_replica_batch_sizes(int64_t global_batch_size,
                                                        const WorkerInput& worker);

/// Returns a worker's part of `dataset`, which is batched with the global batch size: batches for
/// its replicas, in turn. The policy is the dataset's (Options::auto_shard_policy):
///
/// * kOff: all rows on every worker, in batches of per_replica_batch_sizes.
/// * kFile: the rows of files i, i + num_workers, ..., batched so.
/// * kData: its replicas' parts of as many as there are replicas that each batch is cut into; they
///   differ by one row at most, the larger ones first. Where `batch` comes last (or behind it only
///   transforms that give batches as they are: options, prefetch, repeat, shard, shuffle, skip and
///   take), other replicas' rows are passed over: a `map` before it is not called for them, and
///   an error that it throws is that of the worker alone whose row it is (docs/data.md).
/// * kAuto: kData, so that the rows of a replica do not depend on the workers. (TensorFlow shards
///   by file if there are files: choose kFile where reading dominates the cost.)
/// * kHint: every num_workers-th element at `shard(kShardHint, kShardHint)`, batched as for kOff.
///
/// If the dataset does not have its batch size, kOff, kFile and kHint cut each batch as kData does,
/// and take all parts.
///
/// @throws Error kInvalidArgument: fewer files than workers; a bad worker. kNotFound: kFile without
/// files, kHint without a hint.
STRATA_API data::Dataset dataset_for_worker(const data::Dataset& dataset,
                                            const WorkerInput& worker);

/// Describes the same in a line: "replicas 0, 1, 2 of 8: 24 of the 64 rows of each batch; the
/// others are passed over", or "... whole batches are made". docs/data.md documents what is saved
/// before the batch if rows are passed over.
/// @throws Error kInvalidArgument: a bad worker.
STRATA_API std::string describe_for_worker(const data::Dataset& dataset, const WorkerInput& worker);

}  // namespace strata
