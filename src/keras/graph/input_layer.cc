#include "keras/graph/input_layer.h"

#include <array>
#include <utility>

#include "keras/graph/node.h"

namespace strata::keras::detail {
namespace {

constexpr std::array<std::pair<const char*, at::ScalarType>, 13> kDtypes = {{
    {"float32", at::kFloat},
    {"float64", at::kDouble},
    {"float16", at::kHalf},
    {"bfloat16", at::kBFloat16},
    {"int8", at::kChar},
    {"int16", at::kShort},
    {"int32", at::kInt},
    {"int64", at::kLong},
    {"uint8", at::kByte},
    {"bool", at::kBool},
    {"uint16", at::kUInt16},
    {"complex64", at::kComplexFloat},
    {"complex128", at::kComplexDouble},
}};

}  // namespace

InputLayerImpl::InputLayerImpl(Shape batch_shape, at::ScalarType dtype, const std::string& name)
    : LayerImpl({.name = name}), batch_shape_(std::move(batch_shape)), input_dtype_(dtype) {}

void InputLayerImpl::describe(ConfigWriter& config) const {
  config("batch_shape", [&] {
    Json sizes = Json::array();
    for (int64_t size : batch_shape_) sizes.push_back(size == kNone ? Json() : Json(size));
    return sizes;
  }());
  config("dtype", dtype_name(input_dtype_));
  config("sparse", false);
}

SymbolicTensor make_input(const Shape& batch_shape, at::ScalarType dtype, const std::string& name) {
  const Layer layer(std::make_shared<InputLayerImpl>(batch_shape, dtype, name));
  return SymbolicTensor(
      std::make_shared<Node>(Node{
          .layer = layer, .inputs = {}, .options = {}, .shapes = {batch_shape}, .dtypes = {dtype}}),
      0);
}

const InputLayerImpl* as_input(const Layer& layer) {
  return dynamic_cast<const InputLayerImpl*>(layer.impl().get());
}

std::string dtype_name(at::ScalarType dtype) {
  for (const auto& [name, type] : kDtypes) {
    if (type == dtype) return name;
  }
  STRATA_CHECK(false, kInvalidArgument, "[keras] dtype: got ", at::toString(dtype),
               "; Keras has no such dtype");
}

at::ScalarType dtype_of_name(const std::string& name) {
  for (const auto& [known, type] : kDtypes) {
    if (known == name) return type;
  }
  STRATA_CHECK(false, kInvalidArgument, "[keras] dtype: got '", name, "'; there is no such dtype");
}

}  // namespace strata::keras::detail
