#include "keras/call_options.h"

#include <map>

namespace strata::keras::detail {

int64_t tensor_index(const Json& json) {
  const Json* index = json.is_object() ? json.find("tensor") : nullptr;
  return index != nullptr && index->is_int() ? index->as_int() : -1;
}

Json tensor_reference(size_t index) {
  Json json = Json::object();
  json.set("tensor", static_cast<int64_t>(index));
  return json;
}

void collect_tensor_indices(const Json& json, std::vector<size_t>& to) {
  if (const int64_t index = tensor_index(json); index >= 0) {
    to.push_back(static_cast<size_t>(index));
  } else if (json.is_array()) {
    for (const Json& each : json.as_array()) collect_tensor_indices(each, to);
  } else if (json.is_object()) {
    std::map<std::string, const Json*> members;
    for (const auto& [key, value] : json.as_object()) members.emplace(key, &value);
    for (const auto& [key, value] : members) collect_tensor_indices(*value, to);
  }
}

size_t count_masks(const Json& options) {
  const Json* mask = options.is_object() ? options.find("mask") : nullptr;
  if (mask == nullptr) return 0;
  std::vector<size_t> indices;
  collect_tensor_indices(*mask, indices);
  return indices.size();
}

}  // namespace strata::keras::detail
