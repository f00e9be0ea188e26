#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "strata/core/export.h"

namespace strata::summary {

struct HistogramBucket {
  double left = 0;
  double right = 0;
  double count = 0;  ///< of left <= x < right; the last bucket includes its right edge

  bool operator==(const HistogramBucket&) const = default;
};

/// TensorFlow's bucketing (tf.summary.histogram): `buckets` of equal width from the smallest to the
/// largest number, to the bit. If all numbers are x, every bucket is [x, x], and the last one has
/// the count; without numbers all are [0, 0]. NaN and infinities are left out (TensorFlow writes
/// NaN edges).
/// @throws Error  kInvalidArgument: buckets < 0.
/// Cost: two passes, about 3 ns a number.
STRATA_API std::vector<HistogramBucket> make_histogram(std::span<const double> numbers,
                                                       int64_t buckets = 30);
STRATA_API std::vector<HistogramBucket> make_histogram(std::span<const float> numbers,
                                                       int64_t buckets = 30);

}  // namespace strata::summary
