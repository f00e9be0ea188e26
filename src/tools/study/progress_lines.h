#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::tools {

/// Lines of progress as tf_cnn_benchmarks prints them.
class ProgressLines {
 public:
  /// @param images  Of a step, over all replicas.
  explicit ProgressLines(int64_t images) : images_(images) {}

  static std::string header() { return "Step\tImg/sec\ttotal_loss"; }
  void add_step(double seconds) { seconds_.push_back(seconds); }
  /// "10\timages/sec: 138.2 +/- 0.4 (jitter = 1.1)\t6.908": the mean so far, its standard error,
  /// and the median deviation of a step, scaled to a standard deviation.
  std::string line(int64_t step, double loss) const;
  /// "total images/sec: 138.23" between two rules.
  std::string total() const;

 private:
  double mean_rate() const;

  int64_t images_;
  std::vector<double> seconds_;
};

}  // namespace strata::tools
