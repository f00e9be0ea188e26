#include "keras/ops/rearrange.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "strata/core/error.h"

namespace strata::keras::detail {
namespace {

using Group = std::vector<std::string>;  // names of one dimension: (h w)

constexpr const char* kRest = "...";

std::vector<Group> groups_of(std::string side, const std::string& pattern) {
  for (const char bracket : {'(', ')'}) {
    for (size_t at = 0; (at = side.find(bracket, at)) != std::string::npos; at += 3) {
      side.replace(at, 1, std::string(" ") + bracket + " ");
    }
  }
  std::vector<Group> groups;
  std::istringstream words(side);
  bool inside = false;
  for (std::string word; words >> word;) {
    if (word == "(") {
      groups.emplace_back();
      inside = true;
    } else if (word == ")") {
      inside = false;
    } else if (inside) {
      groups.back().push_back(word);
    } else {
      groups.push_back({word});
    }
  }
  STRATA_CHECK(!inside, kInvalidArgument, "[keras] rearrange: got pattern '", pattern,
               "' with a bracket that is not closed");
  return groups;
}

}  // namespace

at::Tensor rearrange(const at::Tensor& x, const std::string& pattern,
                     std::map<std::string, int64_t> lengths) {
  const size_t arrow = pattern.find("->");
  STRATA_CHECK(arrow != std::string::npos, kInvalidArgument, "[keras] rearrange: got pattern '",
               pattern, "'; expected 'names -> names'");
  std::vector<Group> from = groups_of(pattern.substr(0, arrow), pattern);
  std::vector<Group> to = groups_of(pattern.substr(arrow + 2), pattern);

  // "..." becomes names of its own.
  const auto rest = std::ranges::find(from, Group{kRest});
  const int64_t extra = x.dim() - static_cast<int64_t>(from.size()) + (rest == from.end() ? 0 : 1);
  STRATA_CHECK(extra >= 0 && (rest != from.end() || extra == 0), kInvalidArgument,
               "[keras] rearrange: got pattern '", pattern, "' for ", x.dim(), " dimensions");
  if (rest != from.end()) {
    std::vector<Group> names;
    for (int64_t i = 0; i < extra; ++i) names.push_back({"..." + std::to_string(i)});
    from.insert(from.erase(rest), names.begin(), names.end());
    if (const auto there = std::ranges::find(to, Group{kRest}); there != to.end()) {
      to.insert(to.erase(there), names.begin(), names.end());
    }
  }

  std::vector<int64_t> single;  // a size for each name, in order
  Group order;
  for (size_t d = 0; d < from.size(); ++d) {
    const int64_t size = x.size(static_cast<int64_t>(d));
    int64_t known = 1;
    std::string open;
    for (const std::string& name : from[d]) {
      if (name == "1") lengths[name] = 1;
      if (from[d].size() == 1) lengths.emplace(name, size);
      if (lengths.contains(name)) {
        known *= lengths[name];
      } else {
        STRATA_CHECK(open.empty(), kInvalidArgument, "[keras] rearrange: got pattern '", pattern,
                     "', where the lengths of ", open, " and ", name, " are not known; pass one");
        open = name;
      }
    }
    STRATA_CHECK(known > 0 && size % known == 0 && (!open.empty() || size == known),
                 kInvalidArgument, "[keras] rearrange: got dimension ", d, " of size ", size,
                 " for pattern '", pattern, "'; its names have ", known);
    if (!open.empty()) lengths[open] = size / known;
    for (const std::string& name : from[d]) {
      single.push_back(lengths[name]);
      order.push_back(name);
    }
  }
  std::vector<int64_t> axes, shape;
  for (const Group& group : to) {
    int64_t size = 1;
    for (const std::string& name : group) {
      if (name == "1") continue;
      const auto found = std::ranges::find(order, name);
      STRATA_CHECK(found != order.end(), kInvalidArgument, "[keras] rearrange: got pattern '",
                   pattern, "', whose right side has '", name, "', which the left has not");
      axes.push_back(found - order.begin());
      size *= lengths[name];
    }
    shape.push_back(size);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    if (std::ranges::find(axes, axis) != axes.end()) continue;
    STRATA_CHECK(order[i] == "1", kInvalidArgument, "[keras] rearrange: got pattern '", pattern,
                 "', whose right side lacks '", order[i], "'");
    axes.push_back(axis);
  }
  return x.reshape(single).permute(axes).reshape(shape);
}

}  // namespace strata::keras::detail
