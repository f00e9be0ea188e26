#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace strata::bench {

/// "25MB", "1KiB", "64MiB", "100B".
std::string size_name(int64_t bytes);

/// A median and its 90 % interval.
struct Estimate {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// The median of `values` (at least one) with a 90 % confidence interval from order statistics: no
/// assumption about how the noise is distributed. Below 5 values the interval is the whole range.
Estimate estimate(std::vector<double> values);

/// One flat JSON object on one line, keys in the order of the calls.
class JsonLine {
 public:
  JsonLine& add(const std::string& key, const std::string& value);
  JsonLine& add(const std::string& key, double value);
  void print() const;  // to standard output, flushed

 private:
  std::string text_;
};

}  // namespace strata::bench
