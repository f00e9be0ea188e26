#include "strata/keras/model.h"

#include "keras/functional.h"
#include "keras/sequential_impl.h"

namespace strata::keras {

ModelImpl::ModelImpl(LayerOptions options)
    : LayerImpl(std::move(options)), strategy_(&get_strategy()) {}
ModelImpl::~ModelImpl() = default;

std::vector<Layer> ModelImpl::layers() const {
  std::vector<Layer> layers;
  for (const auto& [name, layer] : sublayers()) layers.push_back(layer);
  return layers;
}

void ModelImpl::describe(ConfigWriter&) const {}

Model::Model(const std::vector<SymbolicTensor>& inputs, const std::vector<SymbolicTensor>& outputs,
             const std::string& name)
    : LayerOf(std::make_shared<detail::FunctionalImpl>(inputs, outputs, name)) {}
Model::Model(const SymbolicTensor& input, const SymbolicTensor& output, const std::string& name)
    : Model(std::vector{input}, std::vector{output}, name) {}

Layer Model::get_layer(const std::string& name) const {
  std::string names;
  for (const Layer& layer : layers()) {
    if (layer.name() == name) return layer;
    names += (names.empty() ? "" : ", ") + layer.name();
  }
  STRATA_CHECK(false, kNotFound, "[keras] Model '", this->name(), "': no layer '", name,
               "'; there are ", names);
}

Layer Model::get_layer(size_t index) const {
  const std::vector<Layer> all = layers();
  STRATA_CHECK(index < all.size(), kOutOfRange, "[keras] Model '", name(), "': no layer ", index,
               "; there are ", all.size());
  return all[index];
}

std::vector<SymbolicTensor> Model::inputs() const {
  if (const auto* graph = dynamic_cast<const detail::FunctionalImpl*>(impl().get())) {
    return graph->graph().inputs();
  }
  if (const auto* row = dynamic_cast<const detail::SequentialImpl*>(impl().get());
      row != nullptr && row->input()) {
    return {*row->input()};
  }
  return {};
}

std::vector<SymbolicTensor> Model::outputs() const {
  if (const auto* graph = dynamic_cast<const detail::FunctionalImpl*>(impl().get())) {
    return graph->graph().outputs();
  }
  if (const auto* row = dynamic_cast<const detail::SequentialImpl*>(impl().get());
      row != nullptr && row->output()) {
    return {*row->output()};
  }
  return {};
}

}  // namespace strata::keras
