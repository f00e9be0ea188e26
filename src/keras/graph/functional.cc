#include "keras/graph/functional.h"

#include "keras/graph/input_layer.h"

namespace strata::keras::detail {

FunctionalImpl::FunctionalImpl(std::vector<SymbolicTensor> inputs,
                               std::vector<SymbolicTensor> outputs, const std::string& name)
    : ModelImpl({.name = name}), graph_(std::move(inputs), std::move(outputs), this->name()) {
  for (const Layer& layer : graph_.layers()) {
    if (as_input(layer) == nullptr) track(layer.name(), layer);
  }
  std::vector<InputSpec> spec;
  std::vector<Shape> shapes;
  for (const SymbolicTensor& input : graph_.inputs()) {
    const Shape& shape = input.shape();
    InputSpec each{.ndim = static_cast<int64_t>(shape.size())};
    for (size_t i = 1; i < shape.size(); ++i) {
      if (shape[i] != kNone) each.axes[static_cast<int64_t>(i)] = shape[i];
    }
    spec.push_back(std::move(each));
    shapes.push_back(shape);
  }
  set_input_spec(std::move(spec));
  ensure_built(shapes);
}

Tensors FunctionalImpl::call(const Tensors& inputs, const Call& call) {
  return graph_.run(inputs, call).values;
}

LayerImpl::Outputs FunctionalImpl::call_with_masks(const Tensors& inputs, const Call& call) {
  return graph_.run(inputs, call);
}

std::vector<Shape> FunctionalImpl::compute_output_shapes(const std::vector<Shape>& inputs,
                                                         const Json&) const {
  std::vector<Shape> shapes;
  for (const SymbolicTensor& output : graph_.outputs()) shapes.push_back(output.shape());
  const bool as_described = [&] {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != graph_.inputs()[i].shape()) return false;
    }
    return true;
  }();
  return as_described ? shapes : graph_.shapes_for(inputs);
}

std::vector<at::ScalarType> FunctionalImpl::compute_output_dtypes(
    const std::vector<at::ScalarType>&) const {
  std::vector<at::ScalarType> dtypes;
  for (const SymbolicTensor& output : graph_.outputs()) dtypes.push_back(output.dtype());
  return dtypes;
}

}  // namespace strata::keras::detail
