#include "tools/study/progress_lines.h"

#include <cmath>
#include <cstdio>
#include <numeric>

#include "tools/study/measurement.h"

namespace strata::tools {

double ProgressLines::mean_rate() const {
  const double all = std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
  return static_cast<double>(images_) * static_cast<double>(seconds_.size()) / all;
}

std::string ProgressLines::line(int64_t step, double loss) const {
  std::vector<double> rates;
  for (const double seconds : seconds_) rates.push_back(static_cast<double>(images_) / seconds);
  const auto count = static_cast<double>(rates.size());
  const double mean = std::accumulate(rates.begin(), rates.end(), 0.0) / count;
  double squares = 0;
  for (const double rate : rates) squares += (rate - mean) * (rate - mean);
  const double median = spread_of(rates).median;
  std::vector<double> deviations;
  for (const double rate : rates) deviations.push_back(std::abs(rate - median));
  char text[160];
  std::snprintf(text, sizeof text, "%lld\timages/sec: %.1f +/- %.1f (jitter = %.1f)\t%.3f",
                static_cast<long long>(step), mean_rate(), std::sqrt(squares / count / count),
                1.4826 * spread_of(deviations).median, loss);
  return text;
}

std::string ProgressLines::total() const {
  const std::string rule(64, '-');
  char text[64];
  std::snprintf(text, sizeof text, "\ntotal images/sec: %.2f\n", mean_rate());
  return rule + text + rule;
}

}  // namespace strata::tools
