#include "keras/call_options.h"

#include <ATen/ops/tensor.h>

#include <map>

#include "keras/graph/input_layer.h"
#include "strata/core/error.h"

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

at::Tensor constant_tensor(const Json& json) {
  const Json* class_name = json.is_object() ? json.find("class_name") : nullptr;
  if (class_name == nullptr || !class_name->is_string() ||
      (class_name->as_string() != "__numpy__" && class_name->as_string() != "__tensor__")) {
    return {};
  }
  const Json& config = json.at("config");
  std::vector<double> flat;
  std::vector<int64_t> shape;
  const auto read = [&](const auto& self, const Json& value, size_t depth) -> void {
    if (!value.is_array()) {
      STRATA_CHECK(depth == shape.size(), kDataLoss, "[keras] config: got a ragged array");
      flat.push_back(value.is_bool() ? (value.as_bool() ? 1.0 : 0.0) : value.as_double());
      return;
    }
    const auto size = static_cast<int64_t>(value.as_array().size());
    if (depth == shape.size() && flat.empty()) shape.push_back(size);
    STRATA_CHECK(depth < shape.size() && shape[depth] == size, kDataLoss,
                 "[keras] config: got a ragged array");
    for (const Json& each : value.as_array()) self(self, each, depth + 1);
  };
  read(read, config.at("value"), 0);
  return at::tensor(flat, at::kDouble)
      .reshape(shape)
      .to(dtype_of_name(config.at("dtype").as_string()));
}

size_t count_masks(const Json& options) {
  const Json* mask = options.is_object() ? options.find("mask") : nullptr;
  if (mask == nullptr) return 0;
  std::vector<size_t> indices;
  collect_tensor_indices(*mask, indices);
  return indices.size();
}

}  // namespace strata::keras::detail
