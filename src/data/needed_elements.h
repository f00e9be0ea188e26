#pragma once

#include <cstdint>
#include <vector>

namespace strata::data::detail {

struct Range {
  int64_t begin;
  int64_t end;  // behind the last
  friend bool operator==(const Range&, const Range&) = default;
};

/// Of every `period` elements of a stream, those that its reader needs.
struct NeededElements {
  int64_t period = 1;
  std::vector<Range> ranges = {};  // ascending and apart, below `period`

  /// @param element  Counted from where the reader began.
  bool has(int64_t element) const {
    const int64_t number = element % period;
    for (const Range& range : ranges) {
      if (number >= range.begin && number < range.end) return true;
    }
    return false;
  }
};

}  // namespace strata::data::detail
