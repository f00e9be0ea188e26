#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/export.h"

namespace strata::data {

/// Where an iterator stands: an immutable tree with one node for each transform (its name and a few
/// numbers), never the elements themselves. Copies are cheap; it goes through text unchanged, so a
/// checkpoint keeps it as a string:
///
///     iterator[3](batch(shuffle[256,256,0,10000,7,1](slices[0])))
class STRATA_API Position {
 public:
  Position() = default;  // of nothing; `to_string()` is empty
  Position(std::string kind, std::vector<int64_t> numbers, std::vector<Position> children = {});

  const std::string& kind() const;
  const std::vector<int64_t>& numbers() const;
  const std::vector<Position>& children() const;

  std::string to_string() const;

  /// @throws Error kInvalidArgument: `text` is not what `to_string` writes; names the offset.
  static Position from_string(std::string_view text);

  friend bool operator==(const Position& a, const Position& b) { return a.equals(b); }

 private:
  struct Node;
  const Node& node() const;
  bool equals(const Position& other) const;

  std::shared_ptr<const Node> node_;
};

}  // namespace strata::data
