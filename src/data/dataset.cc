#include "strata/data/dataset.h"

#include "data/functions.h"
#include "data/source.h"
#include "strata/data/idx_file.h"

namespace strata::data {
namespace {

Dataset wrap(detail::SourcePtr source) { return Dataset(std::move(source)); }

}  // namespace

Dataset::Dataset(std::shared_ptr<const detail::Source> source) : source_(std::move(source)) {
  STRATA_CHECK(source_ != nullptr, kInvalidArgument,
               "[data] Dataset: got a null source; use from_tensor_slices, range, ...");
}

Dataset Dataset::from_tensors(const Example& tensors) { return wrap(detail::make_single(tensors)); }

Dataset Dataset::from_tensor_slices(const Example& tensors) {
  return wrap(detail::make_slices(tensors, "from_tensor_slices"));
}

Dataset Dataset::from_generator(Generator generator) {
  STRATA_CHECK(generator != nullptr, kInvalidArgument,
               "[data] from_generator: got an empty function; expected a generator");
  return wrap(detail::make_generator([generator = std::move(generator)] { return generator; }));
}

Dataset Dataset::from_generator(GeneratorFactory factory) {
  STRATA_CHECK(factory != nullptr, kInvalidArgument,
               "[data] from_generator: got an empty function; expected a factory of generators");
  return wrap(detail::make_generator(std::move(factory)));
}

Dataset Dataset::range(int64_t start, int64_t stop, int64_t step) {
  return wrap(detail::make_range(start, stop, step));
}

Dataset Dataset::idx_files(const std::string& images, const std::string& labels) {
  const at::Tensor x = read_idx_file(images);
  const at::Tensor y = read_idx_file(labels);
  STRATA_CHECK(x.dim() > 0 && y.dim() > 0 && x.size(0) == y.size(0), kInvalidArgument,
               "[data] idx_files: got shape ", x.sizes(), " in ", images, " and ", y.sizes(),
               " in ", labels, "; expected as many labels as images");
  return from_tensor_slices({x, y});
}

Dataset Dataset::map(MapFunction fn) const {
  STRATA_CHECK(fn != nullptr, kInvalidArgument, "[data] map: got an empty function");
  return wrap(detail::make_map(source_, std::move(fn)));
}

Dataset Dataset::batch(int64_t batch_size, const BatchOptions& options) const {
  STRATA_CHECK(batch_size >= 1, kInvalidArgument, "[data] batch: got batch_size ", batch_size,
               "; expected at least 1");
  return wrap(detail::make_batch(source_, batch_size, options.drop_remainder));
}

Dataset Dataset::unbatch() const { return wrap(detail::make_unbatch(source_)); }

Dataset Dataset::shuffle(int64_t buffer_size, const ShuffleOptions& options) const {
  STRATA_CHECK(buffer_size >= 1, kInvalidArgument, "[data] shuffle: got buffer_size ", buffer_size,
               "; expected at least 1; use the number of elements for a uniform permutation");
  return wrap(
      detail::make_shuffle(source_, buffer_size, options.seed, options.reshuffle_each_iteration));
}

Dataset Dataset::repeat(int64_t count) const {
  STRATA_CHECK(count >= -1, kInvalidArgument, "[data] repeat: got count ", count,
               "; expected at least 0, or -1 for endless");
  return wrap(detail::make_repeat(source_, count));
}

Dataset Dataset::take(int64_t count) const {
  STRATA_CHECK(count >= -1, kInvalidArgument, "[data] take: got count ", count,
               "; expected at least 0, or -1 for all");
  return wrap(detail::make_take(source_, count));
}

Dataset Dataset::skip(int64_t count) const {
  STRATA_CHECK(count >= -1, kInvalidArgument, "[data] skip: got count ", count,
               "; expected at least 0, or -1 for all");
  return wrap(detail::make_skip(source_, count));
}

Dataset Dataset::shard(int64_t num_shards, int64_t index) const {
  STRATA_CHECK(num_shards >= 1 && index >= 0 && index < num_shards, kInvalidArgument,
               "[data] shard: got index ", index, " of ", num_shards,
               " shards; expected at least one shard, and an index from 0 below their number");
  return wrap(detail::make_shard(source_, num_shards, index));
}

Dataset Dataset::zip(std::vector<Dataset> datasets) {
  STRATA_CHECK(!datasets.empty(), kInvalidArgument,
               "[data] zip: got no datasets; expected at least one");
  std::vector<detail::SourcePtr> inputs;
  inputs.reserve(datasets.size());
  for (auto& dataset : datasets) inputs.push_back(std::move(dataset.source_));
  return wrap(detail::make_zip(std::move(inputs)));
}

Dataset Dataset::cache() const { return wrap(detail::make_cache(source_)); }

Dataset Dataset::prefetch(int64_t buffer_size) const {
  STRATA_CHECK(buffer_size >= 1, kInvalidArgument, "[data] prefetch: got buffer_size ", buffer_size,
               "; expected at least 1");
  return wrap(detail::make_prefetch(source_, buffer_size));
}

int64_t Dataset::cardinality() const { return source_->cardinality(); }

std::optional<int64_t> Dataset::batch_size() const { return source_->batch_size(); }

Iterator Dataset::iterator(int64_t epoch) const {
  STRATA_CHECK(epoch >= 0, kInvalidArgument, "[data] iterator: got epoch ", epoch,
               "; expected at least 0");
  return Iterator(source_, epoch);
}

Iterator Dataset::iterator() const {
  return Iterator(source_, static_cast<int64_t>(source_->take_next_epoch()));
}

}  // namespace strata::data
