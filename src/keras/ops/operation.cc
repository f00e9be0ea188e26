#include "keras/ops/operation.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/join.h"
#include "keras/call_options.h"
#include "keras/graph/input_layer.h"

namespace strata::keras::detail {
namespace {

const Json kNull;

constexpr std::string_view kModule = "keras.src.ops.";

auto tables() {
  return std::array{arithmetic_operations(),     reduction_operations(),  shape_operations(),
                    activation_operations(),     elementary_operations(), statistics_operations(),
                    array_operations(),          index_operations(),      sorting_operations(),
                    linear_algebra_operations(), signal_operations(),     window_operations(),
                    network_operations(),        image_operations(),      decode_operations()};
}

std::string known_operations() {
  return join(tables(), [](const auto& table) { return join(table, &OperationRow::name); });
}

/// @param node  Its name, for messages.
const OperationRow& known_operation(const ObjectJson& object, const std::string& node) {
  const OperationRow* row = find_operation(object.class_name);
  STRATA_CHECK(row != nullptr, kUnimplemented, "[keras] node '", node, "' is operation ",
               object.class_name, ", which is unknown to strata; register_operation(\"",
               object.class_name, "\", ...) adds it; known operations: ", known_operations());
  return *row;
}

bool has_word(std::string_view words, std::string_view word) {
  size_t at = 0;
  while (at <= words.size()) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

/// The options without `name`, all of which the row knows.
Json known_options(const OperationRow& row, const ObjectJson& object, const std::string& node) {
  Json options = Json::object();
  for (const auto& [key, value] : object.config.as_object()) {
    if (key == "name") continue;
    STRATA_CHECK(value.is_null() || has_word(row.options, key), kUnimplemented,
                 "[keras] config of ", object.class_name, " operation '", node, "': got option '",
                 key, "' = ", value.dump(), "; it is unknown to strata");
    if (has_word(row.options, key)) options.set(key, value);
  }
  return options;
}

/// NumPy's broadcasting; a size that is not known is taken to fit.
Shape broadcast(const std::vector<Shape>& shapes, std::string_view name) {
  Shape result;
  for (const Shape& shape : shapes) {
    if (shape.size() > result.size())
      result.insert(result.begin(), shape.size() - result.size(), 1);
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t& size = result[result.size() - shape.size() + i];
      if (shape[i] == 1 || shape[i] == size) continue;
      STRATA_CHECK(size == 1 || size == kNone || shape[i] == kNone, kInvalidArgument, "[keras] ",
                   name, ": got shapes ", to_string(shapes[0]), " and ", to_string(shape),
                   "; expected ones that broadcast");
      size =
          size == kNone || (shape[i] == kNone && size != 1) ? std::max(size, shape[i]) : shape[i];
    }
  }
  return result;
}

}  // namespace

const Json& OperationCall::argument(size_t i, const char* name) const {
  const Json* args = options_.is_object() ? options_.find("args") : nullptr;
  if (args != nullptr && i < args->as_array().size()) return args->as_array()[i];
  const Json* kwargs = options_.is_object() ? options_.find("kwargs") : nullptr;
  const Json* value = kwargs != nullptr ? kwargs->find(name) : nullptr;
  return value != nullptr ? *value : kNull;
}

at::Tensor OperationCall::tensor_of(const Json& json) const {
  if (const int64_t index = tensor_index(json); index >= 0) {
    STRATA_CHECK(static_cast<size_t>(index) < inputs_.size(), kDataLoss,
                 "[keras] operation: got tensor ", index, " of ", inputs_.size());
    return inputs_[static_cast<size_t>(index)];
  }
  at::ScalarType floating = at::kFloat;
  for (const at::Tensor& input : inputs_) {
    if (input.is_floating_point()) floating = input.scalar_type();
  }
  if (json.is_bool()) return at::scalar_tensor(json.as_bool(), at::kBool);
  if (json.is_int()) {
    bool any_float = false;
    for (const at::Tensor& input : inputs_) any_float |= input.is_floating_point();
    return at::scalar_tensor(json.as_int(), any_float ? floating : at::kInt);
  }
  if (json.is_number()) return at::scalar_tensor(json.as_double(), floating);
  const at::Tensor constant = constant_tensor(json);
  STRATA_CHECK(constant.defined(), kUnimplemented, "[keras] operation: got ", json.dump(),
               " as an argument; expected a tensor, a number or an array");
  return inputs_.empty() ? constant : constant.to(inputs_[0].device());
}

at::Tensor OperationCall::tensor(size_t i, const char* name) const {
  return tensor_of(argument(i, name));
}

Tensors OperationCall::tensors(size_t i, const char* name) const {
  Tensors tensors;
  const Json& list = argument(i, name);
  if (!list.is_array()) return {tensor_of(list)};
  for (const Json& each : list.as_array()) tensors.push_back(tensor_of(each));
  return tensors;
}

std::vector<std::pair<std::string, Json>> OperationCall::named_arguments() const {
  std::vector<std::pair<std::string, Json>> named;
  const Json* kwargs = options_.is_object() ? options_.find("kwargs") : nullptr;
  if (kwargs == nullptr) return named;
  for (const auto& [name, value] : kwargs->as_object()) named.emplace_back(name, value);
  return named;
}

Tensors OperationCall::all_tensors() const {
  Tensors tensors;
  const Json* args = options_.is_object() ? options_.find("args") : nullptr;
  if (args == nullptr) return tensors;
  for (const Json& each : args->as_array()) tensors.push_back(tensor_of(each));
  return tensors;
}

const Json& OperationCall::option(const char* name) const {
  const Json* value = config_.find(name);
  return value != nullptr ? *value : kNull;
}

int64_t OperationCall::integer(const char* name, int64_t otherwise) const {
  const Json& value = option(name);
  return value.is_null() ? otherwise : value.as_int();
}

double OperationCall::number(const char* name, double otherwise) const {
  const Json& value = option(name);
  return value.is_null() ? otherwise : value.as_double();
}

bool OperationCall::flag(const char* name) const {
  const Json& value = option(name);
  return !value.is_null() && value.as_bool();
}

std::string OperationCall::text(const char* name, std::string_view otherwise) const {
  const Json& value = option(name);
  return value.is_null() ? std::string(otherwise) : value.as_string();
}

std::vector<int64_t> OperationCall::integers(const char* name) const {
  const Json& value = option(name);
  if (value.is_null()) return {};
  if (value.is_int()) return {value.as_int()};
  std::vector<int64_t> integers;
  from_config(value, integers);
  return integers;
}

const OperationRow* find_operation(std::string_view class_name) {
  static const std::unordered_map<std::string_view, const OperationRow*> rows = [] {
    std::unordered_map<std::string_view, const OperationRow*> by_name;
    for (const auto& table : tables()) {
      for (const OperationRow& row : table) {
        by_name.emplace(row.name, &row);
      }
    }
    return by_name;
  }();
  const auto found = rows.find(class_name);
  return found == rows.end() ? nullptr : found->second;
}

OperationImpl::OperationImpl(Entry entry, Json config, const std::string& name)
    : LayerImpl({.name = name}), entry_(std::move(entry)), config_(std::move(config)) {}

void OperationImpl::describe(ConfigWriter& config) const {
  for (const auto& [key, value] : config_.as_object()) config(key.c_str(), value);
}

Json OperationImpl::operation_config() const {
  Json config = Json::object();
  config.set("name", name());
  for (const auto& [key, value] : config_.as_object()) config.set(key, value);
  return config;
}

std::vector<at::ScalarType> OperationImpl::compute_output_dtypes(
    const std::vector<at::ScalarType>& inputs) const {
  at::ScalarType promoted = inputs.empty() ? at::kFloat : inputs[0];
  for (const at::ScalarType each : inputs) promoted = c10::promoteTypes(promoted, each);
  return {promoted};
}

TableOperationImpl::TableOperationImpl(const OperationRow& row, Json config,
                                       const std::string& name)
    : OperationImpl({.class_name = std::string(row.name),
                     .module = str_cat(kModule, row.module),
                     .registered_name = std::string(row.name)},
                    std::move(config), name),
      row_(row) {}

Tensors TableOperationImpl::call(const Tensors& inputs, const Call& call) {
  return compute_operation(row_, OperationCall(inputs, call.options, options()));
}

Tensors TableOperationImpl::try_with(const std::vector<Shape>& inputs, const Json& options,
                                     int64_t size, int64_t other) const {
  const auto stand_in = [&](size_t i, at::Device device) {
    Shape shape = inputs[i];
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == kNone) shape[d] = d == 0 ? size : other;
    }
    const at::ScalarType dtype = i < input_dtypes_.size() ? input_dtypes_[i] : at::kFloat;
    const auto like = at::TensorOptions().dtype(dtype).device(device);
    if (device.is_meta() || !at::isFloatingType(dtype)) return at::zeros(shape, like);
    // Matrices of these can be inverted.
    const at::Tensor flat = at::arange(at::empty(shape, at::kMeta).numel(), at::kDouble);
    return (flat * flat * 0.618 + 0.1).frac().reshape(shape).to(dtype);
  };
  const auto compute = [&](at::Device device) {
    Tensors tensors;
    for (size_t i = 0; i < inputs.size(); ++i) tensors.push_back(stand_in(i, device));
    return compute_operation(row_, OperationCall(tensors, options, OperationImpl::options()));
  };
  try {
    return compute(at::kMeta);
  } catch (const std::exception&) {
    return compute(at::kCPU);  // where an operator needs values; what does not fit is said by it
  }
}

std::vector<Shape> TableOperationImpl::compute_output_shapes(const std::vector<Shape>& inputs,
                                                             const Json& options) const {
  if (row_.elementwise) return {broadcast(inputs, row_.name)};
  if (row_.shape != nullptr) {
    return {row_.shape(inputs, OperationCall({}, options, OperationImpl::options()))};
  }
  if (row_.dtype != OutputDtype::kTried) return LayerImpl::compute_output_shapes(inputs, options);
  const at::NoGradGuard no_grad;
  // Sizes that halves and the like divide.
  const Tensors first = try_with(inputs, options, 4, 12), second = try_with(inputs, options, 8, 24);
  std::vector<Shape> shapes;
  tried_dtypes_.clear();
  for (size_t i = 0; i < first.size(); ++i) {
    Shape shape = first[i].sizes().vec();
    // A size that follows one that is not known differs between the two.
    for (size_t d = 0; d < shape.size(); ++d) {
      if (row_.free_sizes ||
          first[i].size(static_cast<int64_t>(d)) != second[i].size(static_cast<int64_t>(d))) {
        shape[d] = kNone;
      }
    }
    shapes.push_back(std::move(shape));
    tried_dtypes_.push_back(first[i].scalar_type());
  }
  return shapes;
}

std::vector<at::ScalarType> TableOperationImpl::compute_output_dtypes(
    const std::vector<at::ScalarType>& inputs) const {
  const at::ScalarType promoted = OperationImpl::compute_output_dtypes(inputs)[0];
  switch (row_.dtype) {
    case OutputDtype::kBool:
      return {at::kBool};
    case OutputDtype::kInt32:
      return {at::kInt};
    case OutputDtype::kFloating:
      return {c10::isFloatingType(promoted) ? promoted : at::kFloat};
    case OutputDtype::kOption:
      if (const Json* dtype = options().find("dtype"); dtype != nullptr && dtype->is_string()) {
        return {dtype_of_name(dtype->as_string())};
      }
      return {promoted};
    case OutputDtype::kTried:
      if (!tried_dtypes_.empty()) return tried_dtypes_;
      return {promoted};
    case OutputDtype::kPromoted:
      return {promoted};
  }
  return {promoted};
}

Tensors compute_operation(const OperationRow& row, const OperationCall& call) {
  if (row.compute_all != nullptr) return row.compute_all(call);
  return {row.compute(call)};
}

const OperationImpl* as_operation(const Layer& layer) {
  return dynamic_cast<const OperationImpl*>(layer.impl().get());
}

bool is_operation(const Json& object) {
  const Json* module = object.is_object() ? object.find("module") : nullptr;
  if (module != nullptr && module->is_string() && module->as_string().starts_with(kModule)) {
    return true;
  }
  return object.is_object() && find_registered_operation(object) != nullptr;
}

Layer operation_from_config(const Json& object) {
  const ObjectJson parsed = parse_object(object, "an operation");
  const Json* found = parsed.config.find("name");
  if (found == nullptr) found = object.find("name");  // a node has it beside its config, too
  const std::string name = found != nullptr && found->is_string() ? found->as_string() : "";
  Json options = Json::object();
  if (OperationFunction function = find_registered_operation(object)) {
    for (const auto& [key, value] : parsed.config.as_object()) {
      if (key != "name") options.set(key, value);
    }
    const Json* module = object.find("module");
    const Json* registered = object.find("registered_name");
    return Layer(make_registered_operation(
        std::move(function),
        {.class_name = parsed.class_name,
         .module = module == nullptr ? Json() : *module,
         .registered_name = registered != nullptr && registered->is_string()
                                ? registered->as_string()
                                : parsed.class_name},
        std::move(options), name));
  }
  const OperationRow& row = known_operation(parsed, name);
  return Layer(std::make_shared<TableOperationImpl>(row, known_options(row, parsed, name), name));
}

Tensors compute_operation(const Json& object, const Tensors& inputs, const Json& call_options) {
  const ObjectJson parsed = parse_object(object, "an operation");
  if (const OperationFunction function = find_registered_operation(object)) {
    return call_registered_operation(function, inputs, call_options, parsed.config);
  }
  const OperationRow& row = known_operation(parsed, parsed.class_name);
  const Json config = known_options(row, parsed, parsed.class_name);
  return compute_operation(row, OperationCall(inputs, call_options, config));
}

}  // namespace strata::keras::detail
