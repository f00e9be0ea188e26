#include "strata/strategies/distributed_dataset.h"

#include <utility>

namespace strata {
namespace {

using data::Example;

/// Rows of a batch; the error says what kind of dataset was expected.
int64_t rows_of(const Example& batch) {
  STRATA_CHECK(batch.size() > 0, kInvalidArgument,
               "[distributed_dataset] got an element without fields; expected batches of tensors");
  for (const at::Tensor& field : batch.fields) {
    STRATA_CHECK(
        field.dim() > 0 && field.size(0) == batch.fields[0].size(0), kInvalidArgument,
        "[distributed_dataset] got an element whose fields have shapes ", batch.fields[0].sizes(),
        " and ", field.sizes(),
        "; expected a batched dataset, all of whose fields have the same number of rows; call "
        "dataset.batch(global_batch_size) first");
  }
  return batch.fields[0].size(0);
}

Example rows(const Example& batch, int64_t begin, int64_t count) {
  Example part;
  part.fields.reserve(batch.fields.size());
  for (const at::Tensor& field : batch.fields) part.fields.push_back(field.narrow(0, begin, count));
  return part;
}

void move_to(Example& part, const LogicalDevice& device) {
  if (device.physical.is_cpu()) return;
  for (at::Tensor& field : part.fields) field = field.to(device.physical, /*non_blocking=*/true);
}

}  // namespace

int64_t InputContext::get_per_replica_batch_size(int64_t global_batch_size) const {
  STRATA_CHECK(global_batch_size % num_replicas_in_sync == 0, kInvalidArgument,
               "[input_context] get_per_replica_batch_size: got a global batch of ",
               global_batch_size, " for ", num_replicas_in_sync,
               " replicas; expected a multiple of ", num_replicas_in_sync);
  return global_batch_size / num_replicas_in_sync;
}

DistributedDataset::DistributedDataset(std::shared_ptr<ReplicaGroup> group, data::Dataset dataset,
                                       const InputOptions& options, bool whole_batches)
    : group_(std::move(group)),
      dataset_(options.prefetch != 0 ? dataset.prefetch(options.prefetch) : std::move(dataset)),
      options_(options),
      whole_batches_(whole_batches) {}

int64_t DistributedDataset::cardinality() const {
  const int64_t batches = dataset_.cardinality();
  if (batches < 0 || !whole_batches_) return batches;
  const int64_t replicas = group_->num_replicas();
  return (batches + replicas - 1) / replicas;
}

DistributedDataset::Iterator DistributedDataset::iterator(int64_t epoch) const {
  return Iterator(*this, dataset_.iterator(epoch));
}

DistributedDataset::Iterator DistributedDataset::iterator() const {
  return Iterator(*this, dataset_.iterator());
}

DistributedDataset::Iterator::Iterator(const DistributedDataset& dataset, data::Iterator input)
    : group_(dataset.group_),
      options_(dataset.options_),
      whole_batches_(dataset.whole_batches_),
      input_(std::move(input)) {}

std::optional<DistributedDataset::Element> DistributedDataset::Iterator::next() {
  std::optional<Element> element = whole_batches_ ? next_batches() : next_split();
  if (element && options_.fetch_to_device) {
    for (int r = 0; r < element->size(); ++r) move_to(element->get(r), group_->device(r));
  }
  return element;
}

std::optional<DistributedDataset::Element> DistributedDataset::Iterator::next_split() {
  const std::optional<Example> batch = input_.next();
  if (!batch) return std::nullopt;
  const int64_t total = rows_of(*batch);
  const int64_t replicas = group_->num_replicas();
  std::vector<Example> parts;
  int64_t begin = 0;
  for (int64_t r = 0; r < replicas; ++r) {
    const int64_t count = total / replicas + (r < total % replicas ? 1 : 0);
    parts.push_back(rows(*batch, begin, count));
    begin += count;
  }
  return Element(std::move(parts));
}

std::optional<DistributedDataset::Element> DistributedDataset::Iterator::next_batches() {
  std::vector<Example> parts;
  for (int r = 0; r < group_->num_replicas(); ++r) {
    std::optional<Example> batch = input_.next();
    if (!batch) {
      if (r == 0) return std::nullopt;
      parts.push_back(rows(pattern_, 0, 0));
      continue;
    }
    rows_of(*batch);
    pattern_ = *batch;
    parts.push_back(std::move(*batch));
  }
  return Element(std::move(parts));
}

}  // namespace strata
