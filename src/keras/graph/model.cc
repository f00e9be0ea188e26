#include "strata/keras/model.h"

#include "core/join.h"
#include "keras/call_context.h"
#include "keras/graph/functional.h"
#include "keras/graph/sequential_impl.h"
#include "keras/training/step_graphs.h"
#include "keras/training/trainer.h"

namespace strata::keras {

ModelImpl::ModelImpl(LayerOptions options)
    : LayerImpl(std::move(options)),
      strategy_(&get_strategy()),
      graphs_(std::make_unique<detail::StepGraphs>(*this, /*run_eagerly=*/false)) {}
ModelImpl::~ModelImpl() = default;

std::vector<Layer> ModelImpl::layers() const {
  std::vector<Layer> layers;
  for (const auto& [name, layer] : sublayers()) layers.push_back(layer);
  return layers;
}

void ModelImpl::describe(ConfigWriter&) const {}

detail::Trainer& ModelImpl::trainer() const {
  STRATA_CHECK(trainer_ != nullptr, kFailedPrecondition, "[keras] Model '", name(),
               "': you must call compile() before fit(), evaluate() or train_on_batch()");
  return *trainer_;
}
optimizers::Optimizer& ModelImpl::optimizer() const { return trainer().optimizer(); }

StepLoss ModelImpl::compute_loss(const Batch& batch, const Outputs& outputs) {
  Tensors added;
  if (Tensors* losses = detail::call_context().losses) added = std::exchange(*losses, {});
  const summary::TraceRecorder::Scope span(detail::call_context().trace, "loss");
  return trainer().compute_loss(batch, outputs, added);
}
void ModelImpl::update_metrics(const Batch& batch, const Outputs& outputs, const StepLoss& loss) {
  const summary::TraceRecorder::Scope span(detail::call_context().trace, "metrics");
  trainer().update_metrics(batch, outputs, loss);
}
void ModelImpl::minimize(const StepLoss& loss) {
  const summary::TraceRecorder::Scope span(detail::call_context().trace, "minimize");
  trainer().minimize(loss);
}

void ModelImpl::train_step(const Batch& batch) {
  const Outputs outputs = (*this)(batch.x, {.training = true});
  const StepLoss loss = compute_loss(batch, outputs);
  minimize(loss);
  update_metrics(batch, outputs, loss);
}

void ModelImpl::test_step(const Batch& batch) {
  const Outputs outputs = (*this)(batch.x, {});
  update_metrics(batch, outputs, compute_loss(batch, outputs));
}

Tensors ModelImpl::predict_step(const Batch& batch) { return (*this)(batch.x, {}).values; }

Model::Model(const std::vector<SymbolicTensor>& inputs, const std::vector<SymbolicTensor>& outputs,
             const std::string& name)
    : LayerOf(std::make_shared<detail::FunctionalImpl>(inputs, outputs, name)) {}
Model::Model(const SymbolicTensor& input, const SymbolicTensor& output, const std::string& name)
    : Model(std::vector{input}, std::vector{output}, name) {}

Layer Model::get_layer(const std::string& name) const {
  const std::vector<Layer> all = layers();
  for (const Layer& layer : all) {
    if (layer.name() == name) return layer;
  }
  throw Error(ErrorCode::kNotFound, str_cat("[keras] Model '", this->name(), "': no layer '", name,
                                            "'; there are ", join(all, &Layer::name)));
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
