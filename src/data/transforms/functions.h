#pragma once

#include "data/source.h"
#include "strata/data/dataset.h"

// Factories of the transforms that call users' functions.
namespace strata::data::detail {

/// `keyed`: the function looks at its key, so its positions count elements.
SourcePtr make_map(SourcePtr input, KeyedMapFunction fn, bool keyed, const MapOptions& options);
SourcePtr make_parallel_map(SourcePtr input, KeyedMapFunction fn, bool keyed,
                            const MapOptions& options);
SourcePtr make_generator(GeneratorFactory factory);
SourcePtr make_filter(SourcePtr input, Predicate predicate);
SourcePtr make_take_while(SourcePtr input, Predicate predicate);
SourcePtr make_flat_map(SourcePtr input, DatasetFunction fn);
SourcePtr make_interleave(SourcePtr input, DatasetFunction fn, const InterleaveOptions& options);
SourcePtr make_parallel_interleave(SourcePtr input, DatasetFunction fn,
                                   const InterleaveOptions& options);
SourcePtr make_window(SourcePtr input, const WindowOptions& options);
SourcePtr make_window(SourcePtr input, const WindowOptions& options, WindowFunction fn);
SourcePtr make_group_by_window(SourcePtr input, KeyFunction key, GroupFunction reduce,
                               std::function<int64_t(int64_t)> window_size);
SourcePtr make_padded_batch(SourcePtr input, int64_t batch_size, const PaddedBatchOptions& options);
SourcePtr make_sample(std::vector<SourcePtr> inputs, const SampleOptions& options);
SourcePtr make_choose(std::vector<SourcePtr> inputs, SourcePtr choices, bool stop_on_empty);

/// The elements given, which need not be alike; their memory is the caller's.
SourcePtr make_elements(std::vector<Example> elements);

}  // namespace strata::data::detail
