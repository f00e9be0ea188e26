#include "keras_files/keras_history.h"

#include <algorithm>
#include <utility>

namespace strata::keras_files {

bool is_keras_history(const Json& json) {
  return json.is_array() && json.as_array().size() >= 3 && json.as_array()[0].is_string() &&
         json.as_array()[1].is_int() && json.as_array()[2].is_int();
}

KerasHistory keras_history_of(const Json& json) {
  return {.layer = json.as_array()[0].as_string(),
          .call = json.as_array()[1].as_int(),
          .output = json.as_array()[2].as_int()};
}

std::vector<const Json*> children_of(const Json& json) {
  std::vector<const Json*> children;
  if (json.is_array()) {
    for (const Json& item : json.as_array()) children.push_back(&item);
  } else if (json.is_object()) {
    std::vector<const std::pair<std::string, Json>*> members;
    for (const auto& member : json.as_object()) members.push_back(&member);
    std::ranges::sort(members, {}, [](const auto* member) { return member->first; });
    for (const auto* member : members) children.push_back(&member->second);
  }
  return children;
}

void collect_keras_histories(const Json& json, std::vector<KerasHistory>& to) {
  if (is_keras_history(json)) {
    to.push_back(keras_history_of(json));
    return;
  }
  for (const Json* child : children_of(json)) collect_keras_histories(*child, to);
}

}  // namespace strata::keras_files
