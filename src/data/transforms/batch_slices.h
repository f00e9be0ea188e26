#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "data/needed_elements.h"

namespace strata::data::detail {

/// Some of the parts, in this order, that a batch is cut into: `num_parts` balanced ones, the
/// larger ones first.
class BatchSlices {
 public:
  /// @param own  Numbers below num_parts, ascending, at least one.
  BatchSlices(int64_t num_parts, std::vector<int64_t> own)
      : num_parts_(num_parts), own_(std::move(own)) {}

  /// All of them.
  explicit BatchSlices(int64_t num_parts) : BatchSlices(num_parts, {}) {
    own_.resize(static_cast<size_t>(num_parts));
    std::iota(own_.begin(), own_.end(), 0);
  }

  size_t size() const { return own_.size(); }
  bool are_all() const { return static_cast<int64_t>(size()) == num_parts_; }

  /// The rows of one of them, of a batch of `rows`.
  Range range(size_t i, int64_t rows) const {
    const int64_t part = own_[i], size = rows / num_parts_, larger = rows % num_parts_;
    const int64_t begin = part * size + std::min(part, larger);
    return {.begin = begin, .end = begin + size + (part < larger ? 1 : 0)};
  }

  /// The rows of all of them, in ranges that are ascending and apart.
  std::vector<Range> ranges(int64_t rows) const {
    std::vector<Range> all;
    for (size_t i = 0; i < size(); ++i) {
      const Range part = range(i, rows);
      if (!all.empty() && all.back().end == part.begin) {
        all.back().end = part.end;
      } else if (part.begin < part.end) {
        all.push_back(part);
      }
    }
    return all;
  }

  int64_t count_rows(int64_t rows) const {
    int64_t sum = 0;
    for (const auto& [begin, end] : ranges(rows)) sum += end - begin;
    return sum;
  }

 private:
  int64_t num_parts_;
  std::vector<int64_t> own_;
};

}  // namespace strata::data::detail
