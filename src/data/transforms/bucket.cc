#include <algorithm>

#include "data/transforms/functions.h"

namespace strata::data {

// A group for each bucket, whose windows become batches: as tf.data does it.
Dataset Dataset::bucket_by_sequence_length(LengthFunction length,
                                           const BucketOptions& options) const {
  const auto& boundaries = options.bucket_boundaries;
  STRATA_CHECK(length != nullptr, kInvalidArgument,
               "[data] bucket_by_sequence_length: got an empty function");
  STRATA_CHECK(options.bucket_batch_sizes.size() == boundaries.size() + 1, kInvalidArgument,
               "[data] bucket_by_sequence_length: got ", options.bucket_batch_sizes.size(),
               " batch sizes for ", boundaries.size(), " boundaries; expected one more");
  STRATA_CHECK(std::adjacent_find(boundaries.begin(), boundaries.end(),
                                  [](int64_t a, int64_t b) { return a >= b; }) == boundaries.end(),
               kInvalidArgument,
               "[data] bucket_by_sequence_length: expected boundaries that ascend");
  for (const int64_t size : options.bucket_batch_sizes)
    STRATA_CHECK(size >= 1, kInvalidArgument, "[data] bucket_by_sequence_length: got batch size ",
                 size, "; expected at least 1");

  const auto bucket_of = [length = std::move(length), boundaries](const Example& element) {
    const auto above = std::upper_bound(boundaries.begin(), boundaries.end(), length(element));
    return static_cast<int64_t>(above - boundaries.begin());
  };
  const auto reduce = [options](int64_t bucket, const Dataset& window) {
    const auto b = static_cast<size_t>(bucket);
    const int64_t size = options.bucket_batch_sizes[b];
    if (options.no_padding) return window.batch(size, {.drop_remainder = options.drop_remainder});
    PaddedBatchOptions padding{.padded_shapes = options.padded_shapes,
                               .padding_values = options.padding_values,
                               .drop_remainder = options.drop_remainder};
    if (options.pad_to_bucket_boundary) {
      STRATA_CHECK(b < options.bucket_boundaries.size(), kInvalidArgument,
                   "[data] bucket_by_sequence_length: got an element of the last bucket, which "
                   "has no upper boundary to pad to; expected shorter ones, or one more boundary");
      const int64_t longest = options.bucket_boundaries[b] - 1;
      if (padding.padded_shapes.empty()) {
        const std::optional<Example> first = window.iterator(0).next();
        for (const at::Tensor& field : first->fields)
          padding.padded_shapes.emplace_back(static_cast<size_t>(field.dim()), -1);
      }
      for (auto& shape : padding.padded_shapes)
        std::replace(shape.begin(), shape.end(), int64_t{-1}, longest);
    }
    return window.padded_batch(size, padding);
  };
  return group_by_window(bucket_of, reduce, [sizes = options.bucket_batch_sizes](int64_t bucket) {
    return sizes[static_cast<size_t>(bucket)];
  });
}

}  // namespace strata::data
