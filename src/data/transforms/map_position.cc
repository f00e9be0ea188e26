#include "data/transforms/map_position.h"

#include <algorithm>
#include <limits>

namespace strata::data::detail {

void EmittedSet::add_ahead(Interval given) {
  auto at = std::lower_bound(ahead_.begin(), ahead_.end(), given);
  at = ahead_.insert(at, given);
  if (at + 1 != ahead_.end() && at->second == (at + 1)->first) {
    at->second = (at + 1)->second;
    ahead_.erase(at + 1);
  }
  if (at != ahead_.begin() && (at - 1)->second == at->first) {
    (at - 1)->second = at->second;
    ahead_.erase(at);
  }
  if (ahead_.front().first == frontier_) {
    frontier_ = ahead_.front().second;
    ahead_.erase(ahead_.begin());
  }
}

Position MapPosition::to_position(Position input) const {
  std::vector<int64_t> numbers;
  if (counted || !ahead.empty()) numbers = {first, since};
  for (const auto& [begin, end] : ahead) {
    numbers.push_back(begin);
    numbers.push_back(end);
  }
  return Position("map", std::move(numbers), {std::move(input)});
}

MapPosition MapPosition::from_position(const Position& position) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 2;
  // Any even number of numbers.
  expect_position(position, "map", position.numbers().size() / 2 * 2, 1);
  MapPosition map;
  map.counted = !position.numbers().empty();
  if (!map.counted) return map;
  map.first = position_number(position, 0, 0, kMax);
  map.since = position_number(position, 1, 0, kMax);
  int64_t lowest = map.first + map.since + 1;
  for (size_t i = 2; i < position.numbers().size(); i += 2) {
    const int64_t begin = position_number(position, i, lowest, kMax);
    const int64_t end = position_number(position, i + 1, begin + 1, kMax);
    map.ahead.emplace_back(begin, end);
    lowest = end + 1;
  }
  return map;
}

EmittedSet MapPosition::given() const {
  EmittedSet given(first + since);
  for (const auto& interval : ahead) given.add_ahead(interval);
  return given;
}

}  // namespace strata::data::detail
