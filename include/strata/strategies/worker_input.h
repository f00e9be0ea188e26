#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/dataset.h"

namespace strata {

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
