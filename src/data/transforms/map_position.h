#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "data/source.h"

namespace strata::data::detail {

/// Which of a stream's elements, numbered from 0, have been given: all before a frontier, and,
/// where order is free, some behind it.
class EmittedSet {
 public:
  using Interval = std::pair<int64_t, int64_t>;  // [begin, end)

  explicit EmittedSet(int64_t frontier = 0) : frontier_(frontier) {}

  int64_t frontier() const { return frontier_; }
  const std::vector<Interval>& ahead() const { return ahead_; }

  void add(int64_t index) {
    if (index == frontier_ && ahead_.empty()) [[likely]]
      ++frontier_;
    else
      add_ahead({index, index + 1});
  }
  void add_ahead(Interval given);

 private:
  int64_t frontier_;
  std::vector<Interval> ahead_;  // ascending, apart from each other and from the frontier
};

/// What a map's position says, whichever map saved it, with or without threads: the input's
/// position was taken before element `first`; since then `since` elements were given in order, and
/// those of `ahead` out of it. So maps with other numbers of threads go on from it.
struct MapPosition {
  int64_t first = 0;
  int64_t since = 0;
  std::vector<EmittedSet::Interval> ahead = {};
  bool counted = true;  // false: not counted, `first` means nothing

  Position to_position(Position input) const;
  /// @throws Error kInvalidArgument: not a map's position.
  static MapPosition from_position(const Position& position);

  EmittedSet given() const;
};

}  // namespace strata::data::detail
