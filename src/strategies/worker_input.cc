#include "strata/strategies/distributed_dataset.h"

#include <algorithm>

#include "core/join.h"
#include "data/source.h"
#include "data/transforms/batch_slices.h"
#include "strata/core/error.h"

namespace strata {
namespace {

using data::AutoShardPolicy;
using data::detail::BatchSlices;
using data::detail::SourcePtr;

void check(const WorkerInput& worker) {
  STRATA_CHECK(worker.num_workers >= 1 && worker.replicas_per_worker >= 1 &&
                   worker.worker_index >= 0 && worker.worker_index < worker.num_workers,
               kInvalidArgument, "[worker_input] got worker ", worker.worker_index, " of ",
               worker.num_workers, " with ", worker.replicas_per_worker,
               " replicas; expected at least one worker and replica, and an index from 0 below the "
               "number of workers");
}

int64_t count_replicas(const WorkerInput& worker) {
  return worker.replicas.empty() ? int64_t{worker.num_workers} * worker.replicas_per_worker
                                 : worker.num_replicas;
}

std::vector<int64_t> ids_of(const WorkerInput& worker) {
  std::vector<int64_t> ids(worker.replicas.begin(), worker.replicas.end());
  for (int r = 0; worker.replicas.empty() && r < worker.replicas_per_worker; ++r) {
    ids.push_back(int64_t{worker.worker_index} * worker.replicas_per_worker + r);
  }
  return ids;
}

BatchSlices parts_of(const WorkerInput& worker) {
  return BatchSlices(count_replicas(worker), ids_of(worker));
}

/// The policy that kAuto means.
AutoShardPolicy policy_for(const data::Dataset& dataset) {
  const auto policy = dataset.options().auto_shard_policy.value_or(AutoShardPolicy::kAuto);
  return policy == AutoShardPolicy::kAuto ? AutoShardPolicy::kData : policy;
}

/// `source` with `replace` of every source that it is not null of.
template <class Replace>
SourcePtr rebuilt(const SourcePtr& source, const Replace& replace) {
  if (SourcePtr other = replace(*source)) return other;
  std::vector<SourcePtr> inputs = source->inputs();
  bool changed = false;
  for (SourcePtr& input : inputs) {
    SourcePtr other = rebuilt(input, replace);
    changed |= other != input;
    input = std::move(other);
  }
  return changed ? source->with_inputs(std::move(inputs)) : source;
}

SourcePtr sharded_by_file(const SourcePtr& source, const WorkerInput& worker) {
  return rebuilt(source, [&](const data::detail::Source& each) -> SourcePtr {
    const int64_t files = each.num_files();
    if (files == 0) return nullptr;
    STRATA_CHECK(files >= worker.num_workers, kInvalidArgument,
                 "[worker_input] dataset_for_worker: got ", files, " files for ",
                 worker.num_workers,
                 " workers; expected at least one each; use AutoShardPolicy::kData");
    return each.shard_files(worker.num_workers, worker.worker_index);
  });
}

SourcePtr sharded_by_hint(const SourcePtr& source, const WorkerInput& worker) {
  return rebuilt(source, [&](const data::detail::Source& each) -> SourcePtr {
    return each.is_shard_hint() ? each.shard_files(worker.num_workers, worker.worker_index)
                                : nullptr;
  });
}

}  // namespace

std::vector<int64_t> per_replica_batch_sizes(int64_t global_batch_size, const WorkerInput& worker) {
  check(worker);
  STRATA_CHECK(global_batch_size >= 1, kInvalidArgument,
               "[worker_input] per_replica_batch_sizes: got a global batch of ", global_batch_size,
               "; expected at least 1");
  const int64_t replicas = count_replicas(worker);
  std::vector<int64_t> sizes;
  for (int64_t r = 0; r < replicas; ++r)
    sizes.push_back(global_batch_size / replicas + (r < global_batch_size % replicas ? 1 : 0));
  if (!worker.replicas.empty()) {
    std::vector<int64_t> own;
    for (const int64_t id : ids_of(worker)) own.push_back(sizes[static_cast<size_t>(id)]);
    return own;
  }
  const int64_t first = int64_t{worker.worker_index} * worker.replicas_per_worker;
  std::rotate(sizes.begin(), sizes.begin() + first, sizes.end());
  return sizes;
}

data::Dataset dataset_for_worker(const data::Dataset& dataset, const WorkerInput& worker) {
  check(worker);
  const AutoShardPolicy policy = policy_for(dataset);
  SourcePtr source = dataset.source();
  if (policy == AutoShardPolicy::kFile) {
    SourcePtr sharded = sharded_by_file(source, worker);
    STRATA_CHECK(sharded != source, kNotFound,
                 "[worker_input] dataset_for_worker: got AutoShardPolicy::kFile for a dataset that "
                 "reads no files; expected one that does; use kAuto or kData");
    source = std::move(sharded);
  } else if (policy == AutoShardPolicy::kHint) {
    SourcePtr sharded = sharded_by_hint(source, worker);
    STRATA_CHECK(sharded != source, kNotFound,
                 "[worker_input] dataset_for_worker: got AutoShardPolicy::kHint for a dataset "
                 "without a hint; expected shard(kShardHint, kShardHint) among its transforms");
    source = std::move(sharded);
  }

  if (policy == AutoShardPolicy::kData) {
    return data::Dataset(data::detail::make_split(std::move(source), parts_of(worker)));
  }
  if (const auto batch_size = source->batch_size()) {
    return data::Dataset(data::detail::make_rebatch(
        std::move(source), per_replica_batch_sizes(*batch_size, worker), false));
  }
  return data::Dataset(
      data::detail::make_split(std::move(source), BatchSlices(count_replicas(worker))));
}

std::string describe_for_worker(const data::Dataset& dataset, const WorkerInput& worker) {
  check(worker);
  std::string text =
      str_cat("replicas ", join(ids_of(worker)), " of ", count_replicas(worker), ": ");
  const std::string share =
      str_cat(" ", worker.worker_index, " of every ", worker.num_workers, ", counted from 0");
  switch (policy_for(dataset)) {
    case AutoShardPolicy::kOff:
      return text + "all rows";
    case AutoShardPolicy::kFile:
      return text + "file" + share;
    case AutoShardPolicy::kHint:
      return text + "element" + share + ", at the hint";
    case AutoShardPolicy::kAuto:
    case AutoShardPolicy::kData:
      break;
  }
  const data::detail::Source& source = *dataset.source();
  const BatchSlices parts = parts_of(worker);
  const auto rows = source.batch_size();
  text += rows ? str_cat(parts.count_rows(*rows), " of the ", *rows, " rows of each batch")
               : std::string("some rows of each batch");
  if (parts.are_all()) return text;
  return text +
         (source.with_slices(parts) ? "; the others are passed over" : "; whole batches are made");
}

}  // namespace strata
