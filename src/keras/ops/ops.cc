#include "strata/keras/ops.h"

#include "keras/call_options.h"
#include "keras/graph/input_layer.h"
#include "keras/graph/node.h"
#include "keras/ops/operation.h"

namespace strata::keras {
namespace {

using ops::Options;

/// The options as a config, and the tensors of the arguments; what refers to them.
template <typename T>
struct Arguments {
  std::vector<T> inputs;
  Json args;
  Json config = Json::object();

  Arguments(const std::vector<OperandOf<T>>& arguments, const Options& options) {
    Json::Array list;
    for (const OperandOf<T>& each : arguments) {
      if (each.is_list()) {
        Json::Array tensors;
        for (const T& tensor : each.tensors()) tensors.push_back(add(tensor));
        list.push_back(Json::array(std::move(tensors)));
      } else {
        list.push_back(each.is_tensor() ? add(each.tensors()[0]) : each.constant());
      }
    }
    args = Json::array(std::move(list));
    for (const auto& [key, value] : options) config.set(key, value);
  }

 private:
  Json add(const T& tensor) {
    inputs.push_back(tensor);
    return detail::tensor_reference(inputs.size() - 1);
  }
};

void check_tensors(size_t count, const std::string& class_name) {
  STRATA_CHECK(count > 0, kInvalidArgument, "[keras] ops::operation ", class_name,
               ": got no tensor; expected one at least");
}

Json call_options(Json args, const Options& named) {
  Json options = Json::object();
  options.set("args", std::move(args));
  if (named.empty()) return options;
  Json kwargs = Json::object();
  for (const auto& [key, value] : named) kwargs.set(key, value);
  return options.set("kwargs", std::move(kwargs));
}

Json object_for(const std::string& class_name, Json config) {
  Json object = Json::object();
  return object.set("class_name", class_name).set("config", std::move(config));
}

Json to_json(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

Json to_json(const ops::Index& index) {
  Json object = Json::object();
  if (const auto* number = std::get_if<int64_t>(&index)) return *number;
  if (std::holds_alternative<ops::NewAxis>(index)) return {};
  if (const auto* slice = std::get_if<ops::Slice>(&index)) {
    Json config = Json::object();
    config.set("start", to_json(slice->start));
    config.set("stop", to_json(slice->stop));
    config.set("step", to_json(slice->step));
    return object.set("class_name", "__slice__").set("config", std::move(config));
  }
  return object.set("class_name", "__ellipsis__").set("config", Json::object());
}

}  // namespace

namespace ops {

std::vector<SymbolicTensor> invoke(const std::string& class_name,
                                   const std::vector<Operand>& arguments, const Options& options,
                                   const Options& named) {
  Arguments<SymbolicTensor> given(arguments, options);
  check_tensors(given.inputs.size(), class_name);
  const Layer operation =
      keras::detail::operation_from_config(object_for(class_name, std::move(given.config)));
  return operation.call(given.inputs, call_options(std::move(given.args), named));
}

Tensors invoke(const std::string& class_name, const std::vector<OperandOf<at::Tensor>>& arguments,
               const Options& options, const Options& named) {
  Arguments<at::Tensor> given(arguments, options);
  check_tensors(given.inputs.size(), class_name);
  return keras::detail::compute_operation(object_for(class_name, std::move(given.config)),
                                          given.inputs, call_options(std::move(given.args), named));
}

SymbolicTensor operation(const std::string& class_name, const std::vector<Operand>& arguments,
                         const Options& options) {
  return invoke(class_name, arguments, options)[0];
}

namespace {

Json key_of(const std::vector<Index>& index) {
  Json key = Json::array();
  for (const Index& each : index) key.push_back(to_json(each));
  return key;
}

}  // namespace

SymbolicTensor get_item(const SymbolicTensor& x, const std::vector<Index>& index) {
  return call("GetItem", {}, x, key_of(index));
}
at::Tensor get_item(const at::Tensor& x, const std::vector<Index>& index) {
  return call("GetItem", {}, x, key_of(index));
}

namespace detail {
Json dtype_or_null(const std::optional<at::ScalarType>& dtype) {
  return dtype ? Json(keras::detail::dtype_name(*dtype)) : Json();
}
}  // namespace detail

}  // namespace ops

SymbolicTensor operator+(const Operand& a, const Operand& b) {
  return ops::operation("Add", {a, b});
}
SymbolicTensor operator-(const Operand& a, const Operand& b) {
  return ops::operation("Subtract", {a, b});
}
SymbolicTensor operator*(const Operand& a, const Operand& b) {
  return ops::operation("Multiply", {a, b});
}
SymbolicTensor operator/(const Operand& a, const Operand& b) {
  return ops::operation("TrueDivide", {a, b});
}
SymbolicTensor operator-(const SymbolicTensor& x) { return ops::negative(x); }

}  // namespace strata::keras
