#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::collective {

/// How long sums between cards take, made one way.
struct SumTiming {
  struct Size {
    int64_t bytes = 0;  ///< Of each card's value.
    /// Of a call, in seconds: the median, and the quartiles.
    double median = 0;
    double low = 0;
    double high = 0;
  };

  std::string way;           ///< "NCCL, fixed order"
  std::string why_not = {};  ///< Where it cannot be; empty: it was measured.
  std::vector<Size> sizes = {};
};

}  // namespace strata::collective
