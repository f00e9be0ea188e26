#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/export.h"

namespace strata::data {

/// The position of an iterator: an immutable tree with one node for each transform (its name and a
/// few numbers), never the elements themselves. Copies are cheap; it converts to text and back
/// unchanged, so a checkpoint saves it as a string:
///
///     iterator[3](batch(shuffle[256,256,0,10000,7,1](slices[0])))
class STRATA_API Position {
 public:
  Position() = default;  // empty; so is `to_string()`
  Position(std::string kind, std::vector<int64_t> numbers, std::vector<Position> children = {});

  const std::string& kind() const;
  const std::vector<int64_t>& numbers() const;
  const std::vector<Position>& children() const;

  std::string to_string() const;

  /// @throws Error kInvalidArgument: `text` is not from `to_string`; names the offset.
  static Position from_string(std::string_view text);

  friend bool operator==(const Position& a, const Position& b) { return a.equals(b); }

 private:
  struct Node;
  const Node& node() const;
  bool equals(const Position& other) const;

  std::shared_ptr<const Node> node_;
};

}  // namespace strata::data
