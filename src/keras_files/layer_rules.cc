#include "keras_files/layer_rules.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace strata::keras_files {
namespace {

constexpr int64_t kUnknown = -1;

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(by), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool is_true(const Json* value, bool missing) {
  if (value == nullptr) return missing;
  if (value->is_bool()) return value->as_bool();
  if (value->is_number()) return value->as_double() != 0;
  return true;
}

int64_t axis_size(const Json& config, const std::vector<int64_t>& input) {
  const Json* axis = find_value(config, "axis");
  if (axis != nullptr && axis->is_array() && axis->as_array().size() == 1) {
    axis = axis->as_array().data();
  }
  const auto rank = static_cast<int64_t>(input.size());
  int64_t index = axis == nullptr ? -1 : axis->is_int() ? axis->as_int() : rank;
  if (index < 0) index += rank;
  return index >= 0 && index < rank ? input[static_cast<size_t>(index)] : kUnknown;
}

int64_t factor(std::string_view name, const Json& config, const std::vector<int64_t>& input) {
  int64_t number = 0;
  if (std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc()) {
    return number;
  }
  if (name == "in") return input.empty() ? kUnknown : input.back();
  if (name == "axis") return axis_size(config, input);
  const Json* value = find_value(config, name);
  if (value != nullptr && value->is_int()) return value->as_int();
  return value == nullptr && (name == "groups" || name == "depth_multiplier") ? 1 : kUnknown;
}

int64_t size_of(std::string_view text, const Json& config, const std::vector<int64_t>& input) {
  if (text == "?") return kUnknown;
  const size_t slash = text.find('/');
  int64_t size = 1;
  for (const std::string_view name : split(text.substr(0, slash), '*')) {
    const int64_t value = factor(name, config, input);
    if (value < 0 || __builtin_mul_overflow(size, value, &size)) return kUnknown;
  }
  if (slash != std::string_view::npos) {
    const int64_t divisor = factor(text.substr(slash + 1), config, input);
    size = divisor <= 0 ? kUnknown : size / divisor;
  }
  return size;
}

/// How many sizes stand for "name...": those of the list `kernel_size`; nullopt if it is no list.
std::optional<std::vector<int64_t>> list_of(std::string_view name, const Json& config) {
  const Json* list = find_value(config, "kernel_size");
  if (list == nullptr || !list->is_array()) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const Json& item : list->as_array()) {
    sizes.push_back(name == "1" ? 1 : item.is_int() ? item.as_int() : kUnknown);
  }
  return sizes;
}

}  // namespace

const Json* find_value(const Json& object, std::string_view key) {
  const Json* value = object.is_object() ? object.find(key) : nullptr;
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool holds(std::string_view when, const Json& config) {
  for (std::string_view condition : split(when, ',')) {
    const size_t equals = condition.find('=');
    if (equals != std::string_view::npos) {
      const Json* value = find_value(config, condition.substr(0, equals));
      if (value == nullptr || !value->is_string() ||
          value->as_string() != condition.substr(equals + 1)) {
        return false;
      }
      continue;
    }
    const bool negated = condition.starts_with('!');
    if (negated) condition.remove_prefix(1);
    const size_t colon = condition.find(':');
    const bool value =
        is_true(find_value(config, condition.substr(0, colon)), condition.back() == '1');
    if (value == negated) return false;
  }
  return true;
}

VariableSpec make_spec(const VariableRow& row, const Json& config,
                       const std::vector<int64_t>& input) {
  VariableSpec spec = {
      .name = std::string(row.name), .trainable = row.trainable, .is_of_part = row.is_of_part};
  if (row.shape == "...") return spec;
  for (const std::string_view part : split(row.shape, ',')) {
    if (!part.ends_with("...")) {
      spec.shape.push_back(size_of(part, config, input));
      continue;
    }
    const auto sizes = list_of(part.substr(0, part.size() - 3), config);
    if (!sizes) {
      spec.shape.clear();
      return spec;
    }
    spec.shape.insert(spec.shape.end(), sizes->begin(), sizes->end());
  }
  spec.has_shape = true;
  return spec;
}

}  // namespace strata::keras_files
