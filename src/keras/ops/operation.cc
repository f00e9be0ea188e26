#include "keras/ops/operation.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <array>

#include "core/join.h"
#include "keras/call_options.h"
#include "keras/graph/input_layer.h"

namespace strata::keras::detail {
namespace {

const Json kNull;

constexpr std::string_view kModule = "keras.src.ops.";

auto tables() {
  return std::array{arithmetic_operations(), reduction_operations(), shape_operations(),
                    activation_operations()};
}

std::string known_operations() {
  return join(tables(), [](const auto& table) { return join(table, &OperationRow::name); });
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

std::vector<int64_t> OperationCall::integers(const char* name) const {
  const Json& value = option(name);
  if (value.is_null()) return {};
  if (value.is_int()) return {value.as_int()};
  std::vector<int64_t> integers;
  from_config(value, integers);
  return integers;
}

const OperationRow* find_operation(std::string_view class_name) {
  for (const auto& table : tables()) {
    for (const OperationRow& row : table) {
      if (row.name == class_name) return &row;
    }
  }
  return nullptr;
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
  return {row_.compute(OperationCall(inputs, call.options, options()))};
}

std::vector<Shape> TableOperationImpl::compute_output_shapes(const std::vector<Shape>& inputs,
                                                             const Json& options) const {
  if (row_.elementwise) return {broadcast(inputs, row_.name)};
  if (row_.shape != nullptr) {
    return {row_.shape(inputs, OperationCall({}, options, OperationImpl::options()))};
  }
  return LayerImpl::compute_output_shapes(inputs, options);
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
    case OutputDtype::kPromoted:
      return {promoted};
  }
  return {promoted};
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
  const OperationRow* row = find_operation(parsed.class_name);
  STRATA_CHECK(row != nullptr, kUnimplemented, "[keras] node '", name, "' is operation ",
               parsed.class_name, ", which is unknown to strata; register_operation(\"",
               parsed.class_name, "\", ...) adds it; known operations: ", known_operations());
  for (const auto& [key, value] : parsed.config.as_object()) {
    if (key == "name") continue;
    STRATA_CHECK(value.is_null() || has_word(row->options, key), kUnimplemented,
                 "[keras] config of ", parsed.class_name, " operation '", name, "': got option '",
                 key, "' = ", value.dump(), "; it is unknown to strata");
    if (has_word(row->options, key)) options.set(key, value);
  }
  return Layer(std::make_shared<TableOperationImpl>(*row, std::move(options), name));
}

}  // namespace strata::keras::detail
