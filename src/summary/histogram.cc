#include "summary/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "strata/core/error.h"

namespace strata::summary {
namespace {

template <class T>
std::vector<HistogramBucket> bucket(std::span<const T> numbers, int64_t buckets) {
  STRATA_CHECK(buckets >= 0, kInvalidArgument, "[summary] histogram: got ", buckets,
               " buckets; expected 0 or more");
  std::vector<HistogramBucket> result(static_cast<size_t>(buckets));
  if (buckets == 0) return result;

  T low = std::numeric_limits<T>::max(), high = std::numeric_limits<T>::lowest();
  size_t finite = 0;
  for (const T x : numbers) {
    if (!std::isfinite(x)) continue;
    low = std::min(low, x);
    high = std::max(high, x);
    ++finite;
  }
  if (finite == 0) return result;
  // Numbers whose range is no double are halved meanwhile.
  const double scale =
      std::isfinite(static_cast<double>(high) - static_cast<double>(low)) ? 1 : 0.5;
  const double min = scale * static_cast<double>(low), max = scale * static_cast<double>(high);
  const double width = (max - min) / static_cast<double>(buckets);
  if (max == min) {
    for (HistogramBucket& b : result) b = {min, max, 0};
    result.back().count = static_cast<double>(finite);
    return result;
  }

  std::vector<size_t> counts(result.size());
  const auto last = static_cast<double>(buckets - 1);
  for (const T x : numbers) {
    if (!std::isfinite(x)) continue;
    // A width that is too small for a double gives infinity or NaN.
    const double index = (scale * static_cast<double>(x) - min) / width;
    ++counts[index >= last ? counts.size() - 1 : index > 0 ? static_cast<size_t>(index) : 0];
  }
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = {(min + width * static_cast<double>(i)) / scale,
                 (min + width * static_cast<double>(i + 1)) / scale,
                 static_cast<double>(counts[i])};
  }
  result.back().right = max / scale;
  return result;
}

}  // namespace

std::vector<HistogramBucket> make_histogram(std::span<const double> numbers, int64_t buckets) {
  return bucket(numbers, buckets);
}
std::vector<HistogramBucket> make_histogram(std::span<const float> numbers, int64_t buckets) {
  return bucket(numbers, buckets);
}

}  // namespace strata::summary
