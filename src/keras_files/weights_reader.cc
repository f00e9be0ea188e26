#include <algorithm>
#include <map>

#include "keras_files/h5_input.h"
#include "keras_files/weights_file.h"

namespace strata::keras_files {
namespace {

/// The index that a dataset's name is, or -1.
int64_t index_of(const std::string& name) {
  constexpr size_t kMaxDigits = 9;
  if (name.empty() || name.size() > kMaxDigits || (name.size() > 1 && name[0] == '0') ||
      !std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) {
    return -1;
  }
  return std::stoll(name);
}

void read_vars(h5::Input& input, const h5::Input::Object& vars, const std::string& path,
               WeightsGroup& to) {
  to.name = input.string_attribute(vars, "name", path);
  std::map<int64_t, at::Tensor> by_index;
  for (const auto& member : input.members(vars, path)) {
    if (member.is_group()) continue;
    at::Tensor tensor = input.read(member, path + '/' + member.name);
    const int64_t index = index_of(member.name);
    if (index >= 0) {
      by_index.emplace(index, std::move(tensor));
    } else {
      to.named_vars.emplace(member.name, std::move(tensor));
    }
  }
  for (auto& [index, tensor] : by_index) {
    STRATA_CHECK(index == static_cast<int64_t>(to.vars.size()), kDataLoss, "[keras_files] ",
                 input.source(), ": ", path, ": got dataset ", index, " and no ", to.vars.size(),
                 "; expected 0 to ", by_index.size() - 1, " without gaps");
    to.vars.push_back(std::move(tensor));
  }
}

void read_group(h5::Input& input, const h5::Input::Object& group, const std::string& path,
                int depth, WeightsGroup& to) {
  input.enter(group, path, depth);
  for (const auto& member : input.members(group, path)) {
    if (!member.is_group()) continue;  // datasets are not read outside `vars`
    const std::string inner = path.empty() ? member.name : path + '/' + member.name;
    if (member.name == "vars") {
      input.enter(member, inner, depth + 1);
      read_vars(input, member, inner, to);
    } else {
      read_group(input, member, inner, depth + 1, to.groups[member.name]);
    }
  }
}

}  // namespace

WeightsGroup parse_weights(std::span<const std::byte> bytes, const std::string& source,
                           const ReadLimits& limits) {
  h5::Input input(bytes, source, limits);
  WeightsGroup weights;
  read_group(input, input.root(), "", 0, weights);
  return weights;
}

}  // namespace strata::keras_files
