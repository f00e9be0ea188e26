#include "strata/data/dataset.h"

#include <cmath>

#include "data/element_specs.h"
#include "data/source.h"
#include "data/transforms/functions.h"
#include "strata/data/mnist.h"

namespace strata::data {
namespace {

Dataset wrap(detail::SourcePtr source) { return Dataset(std::move(source)); }

template <class Function>
void check_function(const Function& fn, const char* call) {
  STRATA_CHECK(fn != nullptr, kInvalidArgument, "[data] ", call, ": got an empty function");
}

void check_parallel_calls(int64_t calls, const char* call) {
  STRATA_CHECK(calls >= 0 || calls == kAutotune, kInvalidArgument, "[data] ", call,
               ": got num_parallel_calls ", calls, "; expected at least 0, or kAutotune");
}

WindowOptions checked(WindowOptions options) {
  STRATA_CHECK(options.size >= 1 && options.shift >= 0 && options.stride >= 1, kInvalidArgument,
               "[data] window: got size ", options.size, ", shift ", options.shift, ", stride ",
               options.stride, "; expected at least 1 (a shift of 0 is the size)");
  if (options.shift == 0) options.shift = options.size;
  return options;
}

std::vector<detail::SourcePtr> sources_of(const std::vector<Dataset>& datasets, const char* call) {
  STRATA_CHECK(!datasets.empty(), kInvalidArgument, "[data] ", call,
               ": got no datasets; expected at least one");
  std::vector<detail::SourcePtr> sources;
  sources.reserve(datasets.size());
  for (const Dataset& dataset : datasets) sources.push_back(dataset.source());
  return sources;
}

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

Dataset Dataset::map(MapFunction fn, const MapOptions& options) const {
  check_function(fn, "map");
  check_parallel_calls(options.num_parallel_calls, "map");
  auto keyless = [fn = std::move(fn)](Example element, const ElementKey&) {
    return fn(std::move(element));
  };
  return wrap(detail::make_map(source_, std::move(keyless), /*keyed=*/false, options));
}

Dataset Dataset::map(KeyedMapFunction fn, const MapOptions& options) const {
  check_function(fn, "map");
  check_parallel_calls(options.num_parallel_calls, "map");
  return wrap(detail::make_map(source_, std::move(fn), /*keyed=*/true, options));
}

Dataset Dataset::filter(Predicate predicate) const {
  check_function(predicate, "filter");
  return wrap(detail::make_filter(source_, std::move(predicate)));
}

Dataset Dataset::take_while(Predicate predicate) const {
  check_function(predicate, "take_while");
  return wrap(detail::make_take_while(source_, std::move(predicate)));
}

Dataset Dataset::flat_map(DatasetFunction fn) const {
  check_function(fn, "flat_map");
  return wrap(detail::make_flat_map(source_, std::move(fn)));
}

Dataset Dataset::interleave(DatasetFunction fn, const InterleaveOptions& options) const {
  check_function(fn, "interleave");
  check_parallel_calls(options.num_parallel_calls, "interleave");
  STRATA_CHECK(options.cycle_length >= 1 && options.block_length >= 1, kInvalidArgument,
               "[data] interleave: got cycle_length ", options.cycle_length, " and block_length ",
               options.block_length, "; expected at least 1");
  return wrap(detail::make_interleave(source_, std::move(fn), options));
}

Dataset Dataset::concatenate(const Dataset& other) const {
  return wrap(detail::make_concatenate(source_, other.source_));
}

Dataset Dataset::batch(int64_t batch_size, const BatchOptions& options) const {
  STRATA_CHECK(batch_size >= 1, kInvalidArgument, "[data] batch: got batch_size ", batch_size,
               "; expected at least 1");
  return wrap(detail::make_batch(source_, batch_size, options.drop_remainder));
}

Dataset Dataset::padded_batch(int64_t batch_size, const PaddedBatchOptions& options) const {
  STRATA_CHECK(batch_size >= 1, kInvalidArgument, "[data] padded_batch: got batch_size ",
               batch_size, "; expected at least 1");
  return wrap(detail::make_padded_batch(source_, batch_size, options));
}

Dataset Dataset::unbatch() const { return wrap(detail::make_unbatch(source_)); }

Dataset Dataset::rebatch(std::vector<int64_t> batch_sizes, const BatchOptions& options) const {
  int64_t sum = 0;
  for (const int64_t size : batch_sizes) {
    STRATA_CHECK(size >= 0, kInvalidArgument, "[data] rebatch: got a batch size of ", size,
                 "; expected at least 0");
    sum += size;
  }
  STRATA_CHECK(sum > 0, kInvalidArgument,
               "[data] rebatch: got batch sizes without a row; expected at least one above 0");
  return wrap(detail::make_rebatch(source_, std::move(batch_sizes), options.drop_remainder));
}

Dataset Dataset::window(const WindowOptions& options) const {
  return wrap(detail::make_window(source_, checked(options)));
}

Dataset Dataset::window(const WindowOptions& options, WindowFunction fn) const {
  check_function(fn, "window");
  return wrap(detail::make_window(source_, checked(options), std::move(fn)));
}

Dataset Dataset::group_by_window(KeyFunction key, GroupFunction reduce, int64_t window_size) const {
  STRATA_CHECK(window_size >= 1, kInvalidArgument, "[data] group_by_window: got window_size ",
               window_size, "; expected at least 1");
  return group_by_window(std::move(key), std::move(reduce),
                         [window_size](int64_t) { return window_size; });
}

Dataset Dataset::group_by_window(KeyFunction key, GroupFunction reduce,
                                 std::function<int64_t(int64_t key)> window_size) const {
  check_function(key, "group_by_window");
  check_function(reduce, "group_by_window");
  check_function(window_size, "group_by_window");
  return wrap(detail::make_group_by_window(source_, std::move(key), std::move(reduce),
                                           std::move(window_size)));
}

Dataset Dataset::enumerate(int64_t start) const {
  return wrap(detail::make_enumerate(source_, start));
}

Dataset Dataset::ignore_errors() const { return wrap(detail::make_ignore_errors(source_)); }

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
  const bool hint = num_shards == kShardHint && index == kShardHint;
  STRATA_CHECK(hint || (num_shards >= 1 && index >= 0 && index < num_shards), kInvalidArgument,
               "[data] shard: got index ", index, " of ", num_shards,
               " shards; expected at least one shard, and an index from 0 below their number");
  return wrap(detail::make_shard(source_, num_shards, index));
}

Dataset Dataset::zip(std::vector<Dataset> datasets) {
  return wrap(detail::make_zip(sources_of(datasets, "zip")));
}

Dataset Dataset::cache() const { return wrap(detail::make_cache(source_)); }

Dataset Dataset::cache(const std::string& path) const {
  STRATA_CHECK(!path.empty(), kInvalidArgument,
               "[data] cache: got an empty path; expected a file's, or no argument to cache in "
               "memory");
  return wrap(detail::make_file_cache(source_, path));
}

Dataset Dataset::sample_from_datasets(std::vector<Dataset> datasets, const SampleOptions& options) {
  auto inputs = sources_of(datasets, "sample_from_datasets");
  STRATA_CHECK(options.weights.empty() || options.weights.size() == inputs.size(), kInvalidArgument,
               "[data] sample_from_datasets: got ", options.weights.size(), " weights for ",
               inputs.size(), " datasets; expected one each");
  double sum = options.weights.empty() ? 1 : 0;
  for (const double weight : options.weights) {
    STRATA_CHECK(weight >= 0 && std::isfinite(weight), kInvalidArgument,
                 "[data] sample_from_datasets: got weight ", weight, "; expected at least 0");
    sum += weight;
  }
  STRATA_CHECK(sum > 0, kInvalidArgument,
               "[data] sample_from_datasets: got weights that are all 0; expected one above");
  return wrap(detail::make_sample(std::move(inputs), options));
}

Dataset Dataset::choose_from_datasets(std::vector<Dataset> datasets, const Dataset& choices,
                                      bool stop_on_empty_dataset) {
  return wrap(detail::make_choose(sources_of(datasets, "choose_from_datasets"), choices.source_,
                                  stop_on_empty_dataset));
}

Dataset Dataset::with_options(const Options& options) const {
  STRATA_CHECK(options.num_threads.value_or(1) >= 1, kInvalidArgument,
               "[data] with_options: got num_threads ", *options.num_threads,
               "; expected at least 1");
  STRATA_CHECK(options.memory_budget.value_or(0) >= 0, kInvalidArgument,
               "[data] with_options: got memory_budget ", *options.memory_budget,
               "; expected at least 0 bytes");
  return wrap(detail::make_options(source_, options));
}

Dataset Dataset::prefetch(int64_t buffer_size) const {
  STRATA_CHECK(buffer_size >= 1 || buffer_size == kAutotune, kInvalidArgument,
               "[data] prefetch: got buffer_size ", buffer_size,
               "; expected at least 1, or kAutotune");
  return wrap(detail::make_prefetch(source_, buffer_size));
}

int64_t Dataset::cardinality() const { return source_->cardinality(); }

std::optional<int64_t> Dataset::batch_size() const { return source_->batch_size(); }

Options Dataset::options() const { return detail::options_of(*source_); }

std::optional<ElementSpec> Dataset::known_element_spec() const { return source_->element_spec(); }

ElementSpec Dataset::element_spec() const {
  if (auto known = known_element_spec()) return std::move(*known);
  Iterator first = iterator(0);
  const std::optional<Example> element = first.next();
  STRATA_CHECK(element, kOutOfRange,
               "[data] element_spec: the dataset is empty, and its transforms do not tell what its "
               "elements would be; expected at least one element to look at");
  return detail::spec_of(*element);
}

Iterator Dataset::iterator(int64_t epoch) const {
  STRATA_CHECK(epoch >= 0, kInvalidArgument, "[data] iterator: got epoch ", epoch,
               "; expected at least 0");
  return Iterator(source_, epoch);
}

Iterator Dataset::iterator() const {
  return Iterator(source_, static_cast<int64_t>(source_->take_next_epoch()));
}

}  // namespace strata::data
