#include "keras_files/weights_tree.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/join.h"
#include "strata/core/error.h"

namespace strata::keras_files {
namespace {

/// The part before the first '/', and what follows it.
std::pair<std::string_view, std::string_view> split(std::string_view path) {
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return {path, {}};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor left = a.contiguous(), right = b.contiguous();
  return a.numel() == 0 ||
         std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

}  // namespace

const WeightsGroup* WeightsGroup::find(std::string_view path) const {
  const WeightsGroup* group = this;
  while (!path.empty()) {
    const auto [part, rest] = split(path);
    const auto child = group->groups.find(std::string(part));
    if (child == group->groups.end()) return nullptr;
    group = &child->second;
    path = rest;
  }
  return group;
}

const WeightsGroup& WeightsGroup::at(std::string_view path) const {
  const WeightsGroup* group = find(path);
  if (group != nullptr) return *group;
  std::string_view there = path;
  while (find(there) == nullptr) {
    const size_t slash = there.rfind('/');
    there = slash == std::string_view::npos ? std::string_view() : there.substr(0, slash);
  }
  const std::string names =
      join(find(there)->groups, [](const auto& group) { return group.first; });
  throw Error(ErrorCode::kNotFound,
              str_cat("[keras_files] weights: got no group '", path, "'; '", there, "' holds ",
                      names.empty() ? "no groups" : names));
}

WeightsGroup& WeightsGroup::make(std::string_view path) {
  WeightsGroup* group = this;
  for (std::string_view left = path; !left.empty();) {
    const auto [part, rest] = split(left);
    STRATA_CHECK(!part.empty() && part != "." && part != "vars", kInvalidArgument,
                 "[keras_files] weights: got the group path '", path,
                 "'; expected names divided by single '/', none of them '.' or 'vars'");
    group = &group->groups[std::string(part)];
    left = rest;
  }
  return *group;
}

int64_t WeightsGroup::num_bytes() const {
  int64_t bytes = 0;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  };
  for (const at::Tensor& tensor : vars) add(tensor);
  for (const auto& [name, tensor] : named_vars) add(tensor);
  for (const auto& [name, group] : groups) bytes += group.num_bytes();
  return bytes;
}

bool equal(const WeightsGroup& a, const WeightsGroup& b) {
  const auto same_variable = [](const auto& left, const auto& right) {
    return left.first == right.first && same_bytes(left.second, right.second);
  };
  const auto same_group = [](const auto& left, const auto& right) {
    return left.first == right.first && equal(left.second, right.second);
  };
  return a.name == b.name &&
         std::equal(a.vars.begin(), a.vars.end(), b.vars.begin(), b.vars.end(), same_bytes) &&
         std::equal(a.named_vars.begin(), a.named_vars.end(), b.named_vars.begin(),
                    b.named_vars.end(), same_variable) &&
         std::equal(a.groups.begin(), a.groups.end(), b.groups.begin(), b.groups.end(), same_group);
}

}  // namespace strata::keras_files
