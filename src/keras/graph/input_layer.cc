#include "keras/graph/input_layer.h"

#include <array>
#include <utility>

#include "keras/graph/node.h"
#include "strata/keras/text_input.h"

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

InputLayerImpl::InputLayerImpl(Shape batch_shape, at::ScalarType dtype, const std::string& name,
                               bool is_text)
    : LayerImpl({.name = name}),
      batch_shape_(std::move(batch_shape)),
      input_dtype_(dtype),
      is_text_(is_text) {}

Shape InputLayerImpl::saved_shape() const {
  return {batch_shape_.begin(), batch_shape_.end() - (is_text_ ? 1 : 0)};
}
std::string InputLayerImpl::saved_dtype() const {
  return is_text_ ? "string" : dtype_name(input_dtype_);
}

void InputLayerImpl::describe(ConfigWriter& config) const {
  config("batch_shape", [&] {
    Json sizes = Json::array();
    for (int64_t size : saved_shape()) sizes.push_back(size == kNone ? Json() : Json(size));
    return sizes;
  }());
  config("dtype", saved_dtype());
  config("sparse", false);
}

namespace {

SymbolicTensor symbol_of(std::shared_ptr<InputLayerImpl> input) {
  const Shape shape = input->batch_shape();
  const at::ScalarType dtype = input->input_dtype();
  return SymbolicTensor(std::make_shared<Node>(Node{.layer = Layer(std::move(input)),
                                                    .inputs = {},
                                                    .options = {},
                                                    .shapes = {shape},
                                                    .dtypes = {dtype}}),
                        0);
}

}  // namespace

SymbolicTensor make_input(const Shape& batch_shape, at::ScalarType dtype, const std::string& name) {
  return symbol_of(std::make_shared<InputLayerImpl>(batch_shape, dtype, name));
}

SymbolicTensor make_text_input(Shape batch_shape, const std::string& name) {
  batch_shape.push_back(kNone);
  return symbol_of(
      std::make_shared<InputLayerImpl>(std::move(batch_shape), at::kByte, name, /*is_text=*/true));
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

namespace strata::keras {

SymbolicTensor TextInput(const Shape& shape, const TextInputOptions& options) {
  Shape batch_shape = {options.batch_size};
  batch_shape.insert(batch_shape.end(), shape.begin(), shape.end());
  return detail::make_text_input(std::move(batch_shape), options.name);
}

}  // namespace strata::keras
