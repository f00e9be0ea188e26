#include "strata/strategies/distributed_dataset.h"

#include <ATen/ops/scalar_tensor.h>

#include <utility>

#include "data/source.h"
#include "runtime/group_agreement.h"
#include "runtime/group_exchange.h"
#include "runtime/replica_group.h"
#include "strategies/device_input.h"

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

using Parts = DistributedDataset::Parts;

/// Of a position that holds those of all workers.
constexpr const char* kWorkers = "workers";

bool reads_the_same_everywhere(const data::Dataset& dataset) {
  const auto policy = dataset.options().auto_shard_policy.value_or(data::AutoShardPolicy::kAuto);
  return policy == data::AutoShardPolicy::kAuto || policy == data::AutoShardPolicy::kData;
}

Parts parts_for(const ReplicaGroup& group, const data::Dataset& dataset, bool whole_batches) {
  if (group.communicator() == nullptr) return whole_batches ? Parts::kInTurn : Parts::kSplit;
  return whole_batches || !reads_the_same_everywhere(dataset) ? Parts::kOwnInTurn : Parts::kInTurn;
}

/// One of the processes that share a dataset.
WorkerInput worker_of(const collective::Communicator& communicator) {
  const collective::Placement& placement = communicator.placement();
  const auto here = static_cast<int>(communicator.replicas().size());
  WorkerInput worker{.num_workers = communicator.num_ranks(),
                     .worker_index = communicator.rank(),
                     .replicas_per_worker = here};
  if (placement.rank_of_replica !=
      collective::Placement::blocks(std::vector<int>(static_cast<size_t>(worker.num_workers), here))
          .rank_of_replica) {
    worker.replicas = communicator.replicas();
    worker.num_replicas = placement.num_replicas();
  }
  return worker;
}

/// What this process reads.
data::Dataset share_of(const ReplicaGroup& group, data::Dataset dataset, bool whole_batches) {
  if (whole_batches) return dataset;
  if (group.communicator() == nullptr) {
    const Workers workers = group.workers();
    if (workers.count == 1 || !reads_the_same_everywhere(dataset)) return dataset;
    return dataset.shard(workers.count, workers.index);
  }
  return dataset_for_worker(dataset, worker_of(*group.communicator()));
}

std::string description_of(const ReplicaGroup& group, const data::Dataset& dataset,
                           bool whole_batches) {
  if (whole_batches) return "batches that a function gives this process";
  if (group.communicator() == nullptr) {
    const Workers workers = group.workers();
    const std::string replicas = str_cat(" for ", group.num_local_replicas(), " replicas");
    if (workers.count == 1 || !reads_the_same_everywhere(dataset)) return "all rows," + replicas;
    return str_cat("batches ", workers.index, ", ", workers.index + workers.count, ", ... of all,",
                   replicas);
  }
  return describe_for_worker(dataset, worker_of(*group.communicator()));
}

std::vector<Example> split(const Example& batch, int64_t replicas) {
  const int64_t total = rows_of(batch);
  std::vector<Example> parts;
  int64_t begin = 0;
  for (int64_t r = 0; r < replicas; ++r) {
    const int64_t count = total / replicas + (r < total % replicas ? 1 : 0);
    parts.push_back(rows(batch, begin, count));
    begin += count;
  }
  return parts;
}

/// This process's part of the next step, a replica's or a batch's; at the end fewer, or none.
/// Threads: of one iterator, one at a time.
std::vector<Example> read_parts(data::Iterator& input, Parts parts_of, int64_t replicas) {
  std::vector<Example> parts;
  if (parts_of == Parts::kSplit) {
    const std::optional<Example> batch = input.next();
    return batch ? split(*batch, replicas) : parts;
  }
  while (static_cast<int64_t>(parts.size()) < replicas) {
    std::optional<Example> batch = input.next();
    if (!batch) break;
    rows_of(*batch);
    parts.push_back(std::move(*batch));
  }
  return parts;
}

bool goes_ahead(const ReplicaGroup& group, const InputOptions& options) {
  if (!options.fetch_to_device || options.prefetch_to_device == 0) return false;
  for (int r = 0; r < group.num_local_replicas(); ++r) {
    if (!group.device(r).physical.is_cpu()) return true;
  }
  return false;
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
      given_(dataset),
      dataset_(share_of(*group_, dataset, whole_batches)),
      description_(description_of(*group_, dataset, whole_batches)),
      options_(options),
      parts_(parts_for(*group_, dataset, whole_batches)) {
  STRATA_CHECK(options.prefetch_to_device >= 0, kInvalidArgument,
               "[distributed_dataset] prefetch_to_device: got ", options.prefetch_to_device,
               "; expected 0 (a batch is copied in its step's way) or more");
  if (options.prefetch != 0) dataset_ = dataset_.prefetch(options.prefetch);
}

int64_t DistributedDataset::cardinality() const {
  const int64_t batches = dataset_.cardinality();
  if (batches < 0 || parts_ == Parts::kSplit) return batches;
  // The length of another process's data is unknown.
  if (parts_ == Parts::kOwnInTurn) return data::Dataset::kUnknown;
  const int64_t replicas = group_->num_local_replicas();
  return (batches + replicas - 1) / replicas;
}

DistributedDataset::Iterator DistributedDataset::iterator(int64_t epoch) const {
  return Iterator(*this, dataset_.iterator(epoch));
}

DistributedDataset::Iterator DistributedDataset::iterator() const {
  // The epochs are those of the caller's dataset: it may be distributed anew for each.
  return iterator(static_cast<int64_t>(given_.source()->take_next_epoch()));
}

DistributedDataset::Iterator::Iterator(const DistributedDataset& dataset, data::Iterator input)
    : group_(dataset.group_),
      options_(dataset.options_),
      parts_(dataset.parts_),
      input_(std::make_unique<data::Iterator>(std::move(input))) {}

DistributedDataset::Iterator::~Iterator() = default;
DistributedDataset::Iterator::Iterator(Iterator&&) noexcept = default;

DistributedDataset::Iterator& DistributedDataset::Iterator::operator=(Iterator&& other) noexcept {
  ahead_ = std::move(other.ahead_);  // the old one's thread ends before the input that it reads
  group_ = std::move(other.group_);
  options_ = other.options_;
  parts_ = other.parts_;
  input_ = std::move(other.input_);
  pattern_ = std::move(other.pattern_);
  return *this;
}

data::IteratorStats DistributedDataset::Iterator::stats() const {
  return ahead_ ? ahead_->place().stats : input_->stats();
}

std::optional<DistributedDataset::Element> DistributedDataset::Iterator::next() {
  std::vector<Example> parts = next_parts();
  const bool here = !parts.empty();
  if (here && parts_ != Parts::kSplit) pattern_ = parts.back();
  if (parts_ == Parts::kOwnInTurn ? !anybody_has(here) : !here) return std::nullopt;
  return complete(std::move(parts));
}

std::vector<Example> DistributedDataset::Iterator::next_parts() {
  if (!ahead_ && goes_ahead(*group_, options_)) start_ahead();
  if (ahead_) return ahead_->next();
  std::vector<Example> parts = read_parts(*input_, parts_, group_->num_local_replicas());
  for (size_t r = 0; r < parts.size() && options_.fetch_to_device; ++r) {
    detail::move_to(group_->device(static_cast<int>(r)), parts[r]);
  }
  return parts;
}

void DistributedDataset::Iterator::start_ahead() {
  std::vector<LogicalDevice> devices;
  for (int r = 0; r < group_->num_local_replicas(); ++r) devices.push_back(group_->device(r));
  detail::DeviceInput::Source source{
      .next = [input = input_.get(), parts = parts_,
               replicas =
                   group_->num_local_replicas()] { return read_parts(*input, parts, replicas); },
      .place =
          [input = input_.get()] {
            return detail::DeviceInput::Place{input->position(), input->stats()};
          }};
  ahead_ = std::make_unique<detail::DeviceInput>(std::move(devices), std::move(source),
                                                 options_.prefetch_to_device);
}

/// Replicas without a batch get one without rows.
DistributedDataset::Element DistributedDataset::Iterator::complete(
    std::vector<Example> parts) const {
  for (int r = static_cast<int>(parts.size()); r < group_->num_local_replicas(); ++r) {
    parts.push_back(rows(pattern_, 0, 0));
    if (options_.fetch_to_device) detail::move_to(group_->device(r), parts.back());
  }
  return Element(std::move(parts));
}

data::Position DistributedDataset::Iterator::position() const {
  const collective::Communicator* const communicator = group_->communicator();
  data::Position local = ahead_ ? ahead_->place().position : input_->position();
  if (communicator == nullptr) return local;
  if (parts_ == Parts::kInTurn) {
    return data::Position(local.kind(), local.numbers(), local.children()[0].children());
  }
  std::vector<data::Position> all;
  for (const std::string& text :
       detail::all_gather_strings(*group_, "positions in the input", local.to_string())) {
    all.push_back(data::Position::from_string(text));
  }
  return data::Position(kWorkers, {}, std::move(all));
}

void DistributedDataset::Iterator::restore(const data::Position& position) {
  ahead_.reset();
  const collective::Communicator* const communicator = group_->communicator();
  const size_t workers = position.kind() == kWorkers ? position.children().size() : 0;
  const auto here = static_cast<size_t>(
      communicator && parts_ == Parts::kOwnInTurn ? communicator->num_ranks() : 0);
  const auto describe = [](size_t count) {
    return count == 0 ? std::string("one for all workers")
                      : str_cat("one for each of ", count, " workers");
  };
  STRATA_CHECK(workers == here, kInvalidArgument,
               "[distributed_dataset] restore: got a position that is ", describe(workers),
               "; expected ", describe(here),
               ": workers that read data of their own go on where each of them was; start as many "
               "as there were, or read with AutoShardPolicy::kData");
  if (here > 0) {
    input_->restore(position.children()[static_cast<size_t>(communicator->rank())]);
  } else if (communicator != nullptr) {
    input_->restore(data::Position(position.kind(), position.numbers(),
                                   {data::Position("split", {0}, position.children())}));
  } else {
    input_->restore(position);
  }
}

/// Whether some process has more data; then all know what its elements are like.
bool DistributedDataset::Iterator::anybody_has(bool here) {
  const auto everywhere = [&](bool flag, ReduceOp op) {
    const at::Tensor local = at::scalar_tensor(flag ? 1 : 0, at::kInt);
    const std::vector<at::Tensor> values(static_cast<size_t>(group_->num_local_replicas()), local);
    return detail::reduce_over_group(*group_, values, op, "more input").item<int>() != 0;
  };
  if (!everywhere(here, ReduceOp::kMax)) return false;
  if (everywhere(pattern_.size() > 0, ReduceOp::kMin)) return true;
  // One process has never had any: the first who has shows how they look.
  const int64_t fields =
      detail::reduce_over_group(
          *group_,
          std::vector<at::Tensor>(static_cast<size_t>(group_->num_local_replicas()),
                                  at::scalar_tensor(pattern_.size(), at::kLong)),
          ReduceOp::kMax, "fields of the input")
          .item<int64_t>();
  Example pattern;
  for (int64_t f = 0; f < fields; ++f) {
    std::vector<at::Tensor> local(static_cast<size_t>(group_->num_local_replicas()));
    if (pattern_.size() > 0) local[0] = pattern_[f].narrow(0, 0, 0).cpu();
    for (const at::Tensor& each : detail::gather_over_group(*group_, local, "field of the input")) {
      if (!each.defined()) continue;
      pattern.fields.push_back(each);
      break;
    }
  }
  if (pattern_.size() == 0) pattern_ = std::move(pattern);
  return true;
}

}  // namespace strata
