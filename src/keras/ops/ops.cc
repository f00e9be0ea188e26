#include "strata/keras/ops.h"

#include "keras/call_options.h"
#include "keras/graph/input_layer.h"
#include "keras/graph/node.h"
#include "keras/ops/operation.h"

namespace strata::keras {
namespace {

using Options = std::vector<std::pair<std::string, Json>>;

/// The node. @param args  As files have them, tensors as references into `inputs`.
SymbolicTensor make_node(const std::string& class_name, const std::vector<SymbolicTensor>& inputs,
                         Json args, const Options& options = {}) {
  Json config = Json::object();
  for (const auto& [key, value] : options) config.set(key, value);
  Json object = Json::object();
  object.set("class_name", class_name).set("config", std::move(config));
  const Layer operation = detail::operation_from_config(object);
  Json call = Json::object();
  call.set("args", std::move(args));
  return operation.call(inputs, std::move(call))[0];
}

SymbolicTensor unary(const char* class_name, const SymbolicTensor& x, const Options& options = {}) {
  return make_node(class_name, {x}, Json::array({detail::tensor_reference(0)}), options);
}

SymbolicTensor on_list(const char* class_name, const std::vector<SymbolicTensor>& xs,
                       const Options& options) {
  Json list = Json::array();
  for (size_t i = 0; i < xs.size(); ++i) list.push_back(detail::tensor_reference(i));
  return make_node(class_name, xs, Json::array({std::move(list)}), options);
}

Json axis_of(const std::vector<int64_t>& axes) {
  if (axes.empty()) return {};
  return axes.size() == 1 ? Json(axes[0]) : to_config(axes);
}

SymbolicTensor reduction(const char* class_name, const SymbolicTensor& x,
                         const std::vector<int64_t>& axes, bool keepdims) {
  return unary(class_name, x, {{"axis", axis_of(axes)}, {"keepdims", keepdims}});
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

SymbolicTensor operation(const std::string& class_name, const std::vector<Operand>& arguments,
                         const Options& options) {
  std::vector<SymbolicTensor> inputs;
  Json args = Json::array();
  for (const Operand& each : arguments) {
    if (each.tensor()) {
      args.push_back(detail::tensor_reference(inputs.size()));
      inputs.push_back(*each.tensor());
    } else {
      args.push_back(each.number());
    }
  }
  STRATA_CHECK(!inputs.empty(), kInvalidArgument, "[keras] ops::operation ", class_name,
               ": got no tensor; expected one at least");
  return make_node(class_name, inputs, std::move(args), options);
}

SymbolicTensor get_item(const SymbolicTensor& x, const std::vector<Index>& index) {
  Json key = Json::array();
  for (const Index& each : index) key.push_back(to_json(each));
  return make_node("GetItem", {x}, Json::array({detail::tensor_reference(0), std::move(key)}));
}

SymbolicTensor power(const Operand& x, const Operand& exponent) {
  return operation("Power", {x, exponent});
}
SymbolicTensor maximum(const Operand& a, const Operand& b) { return operation("Maximum", {a, b}); }
SymbolicTensor minimum(const Operand& a, const Operand& b) { return operation("Minimum", {a, b}); }
SymbolicTensor matmul(const SymbolicTensor& a, const SymbolicTensor& b) {
  return operation("Matmul", {a, b});
}

SymbolicTensor exp(const SymbolicTensor& x) { return unary("Exp", x); }
SymbolicTensor log(const SymbolicTensor& x) { return unary("Log", x); }
SymbolicTensor sqrt(const SymbolicTensor& x) { return unary("Sqrt", x); }
SymbolicTensor square(const SymbolicTensor& x) { return unary("Square", x); }
SymbolicTensor absolute(const SymbolicTensor& x) { return unary("Absolute", x); }
SymbolicTensor tanh(const SymbolicTensor& x) { return unary("Tanh", x); }
SymbolicTensor sigmoid(const SymbolicTensor& x) { return unary("Sigmoid", x); }
SymbolicTensor relu(const SymbolicTensor& x) { return unary("Relu", x); }
SymbolicTensor silu(const SymbolicTensor& x) { return unary("Silu", x); }
SymbolicTensor gelu(const SymbolicTensor& x, bool approximate) {
  return unary("Gelu", x, {{"approximate", approximate}});
}
SymbolicTensor softmax(const SymbolicTensor& x, int64_t axis) {
  return unary("Softmax", x, {{"axis", axis}});
}

SymbolicTensor mean(const SymbolicTensor& x, const std::vector<int64_t>& axes, bool keepdims) {
  return reduction("Mean", x, axes, keepdims);
}
SymbolicTensor sum(const SymbolicTensor& x, const std::vector<int64_t>& axes, bool keepdims) {
  return reduction("Sum", x, axes, keepdims);
}
SymbolicTensor max(const SymbolicTensor& x, const std::vector<int64_t>& axes, bool keepdims) {
  return reduction("Max", x, axes, keepdims);
}
SymbolicTensor min(const SymbolicTensor& x, const std::vector<int64_t>& axes, bool keepdims) {
  return reduction("Min", x, axes, keepdims);
}

SymbolicTensor concatenate(const std::vector<SymbolicTensor>& xs, int64_t axis) {
  return on_list("Concatenate", xs, {{"axis", axis}});
}
SymbolicTensor stack(const std::vector<SymbolicTensor>& xs, int64_t axis) {
  return on_list("Stack", xs, {{"axis", axis}});
}
SymbolicTensor reshape(const SymbolicTensor& x, const Shape& shape) {
  return unary("Reshape", x, {{"newshape", to_config(shape)}});
}
SymbolicTensor transpose(const SymbolicTensor& x, const std::vector<int64_t>& axes) {
  return unary("Transpose", x, {{"axes", axes.empty() ? Json() : to_config(axes)}});
}
SymbolicTensor expand_dims(const SymbolicTensor& x, int64_t axis) {
  return unary("ExpandDims", x, {{"axis", axis}});
}
SymbolicTensor squeeze(const SymbolicTensor& x, const std::vector<int64_t>& axes) {
  return unary("Squeeze", x, {{"axis", axis_of(axes)}});
}
SymbolicTensor cast(const SymbolicTensor& x, at::ScalarType dtype) {
  return unary("Cast", x, {{"dtype", detail::dtype_name(dtype)}});
}

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
SymbolicTensor operator-(const SymbolicTensor& x) { return unary("Negative", x); }

}  // namespace strata::keras
