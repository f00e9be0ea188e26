#include "strata/keras/sequential.h"

#include "keras/graph/graph.h"
#include "keras/graph/input_layer.h"
#include "keras/graph/sequential_impl.h"

namespace strata::keras {
namespace detail {

void SequentialImpl::set_input(const SymbolicTensor& input) {
  input_ = output_ = input;
  for (const Layer& layer : layers_) output_ = layer(*output_);
  ensure_built({input.shape()});
}

void SequentialImpl::add(const Layer& layer) {
  STRATA_CHECK(as_input(layer) == nullptr, kInvalidArgument, "[keras] Sequential '", name(),
               "': got an InputLayer as layer ", layers_.size(),
               "; pass the input first: Sequential(Input(shape), {layers ...})");
  if (output_) output_ = layer(*output_);
  layers_.push_back(layer);
  track(layer.name(), layer);
}

void SequentialImpl::pop() {
  STRATA_CHECK(!layers_.empty(), kFailedPrecondition, "[keras] Sequential '", name(),
               "': pop() of a model without layers");
  layers_.pop_back();
  untrack_last();
  if (!input_) return;
  output_ = input_;
  for (const Layer& layer : layers_) output_ = layer(*output_);
}

void SequentialImpl::build(const std::vector<Shape>& inputs) {
  STRATA_CHECK(inputs.size() == 1, kInvalidArgument, "[keras] Sequential '", name(), "': got ",
               inputs.size(), " inputs; expected 1 (keras::Model takes several)");
  if (input_) return;
  Shape shape = inputs[0];
  if (!shape.empty()) shape[0] = kNone;  // what it was built with was one batch of many
  input_ = output_ = make_input(shape, at::kFloat, "");
  for (const Layer& layer : layers_) output_ = layer(*output_);
}

Tensors SequentialImpl::call(const Tensors& inputs, const Call& call) {
  return call_with_masks(inputs, call).values;
}

LayerImpl::Outputs SequentialImpl::call_with_masks(const Tensors& inputs, const Call& call) {
  Outputs row{.values = inputs, .masks = call.masks};
  if (input_) row.values[0] = as_declared(row.values[0], *input_);
  Call inner{.training = call.training};
  for (const Layer& layer : layers_) {
    inner.masks = std::move(row.masks);
    row = (*layer)(row.values, inner);
  }
  return row;
}

std::vector<Shape> SequentialImpl::compute_output_shapes(const std::vector<Shape>& inputs,
                                                         const Json&) const {
  std::vector<Shape> shapes = inputs;
  for (const Layer& layer : layers_) shapes = layer->output_shapes(shapes);
  return shapes;
}

std::vector<at::ScalarType> SequentialImpl::compute_output_dtypes(
    const std::vector<at::ScalarType>& inputs) const {
  std::vector<at::ScalarType> dtypes = inputs;
  for (const Layer& layer : layers_) dtypes = layer->output_dtypes(dtypes);
  return dtypes;
}

}  // namespace detail

namespace {

detail::SequentialImpl& row_of(const Model& model) {
  return static_cast<detail::SequentialImpl&>(*model);
}

}  // namespace

Sequential::Sequential(std::vector<Layer> layers, const std::string& name)
    : Model(std::make_shared<detail::SequentialImpl>(name)) {
  for (const Layer& layer : layers) add(layer);
}

Sequential::Sequential(const SymbolicTensor& input, std::vector<Layer> layers,
                       const std::string& name)
    : Sequential(std::move(layers), name) {
  row_of(*this).set_input(input);
}

void Sequential::add(const Layer& layer) const { row_of(*this).add(layer); }
void Sequential::pop() const { row_of(*this).pop(); }

}  // namespace strata::keras
