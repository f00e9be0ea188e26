#include "keras/layers/gated_cell.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>

namespace strata::layers {

using keras::Call;
using keras::Shape;
using keras::Tensors;

RNNCellImpl& as_cell(const keras::Layer& layer, const char* where) {
  auto* cell = dynamic_cast<RNNCellImpl*>(layer.impl().get());
  STRATA_CHECK(cell != nullptr, kInvalidArgument, "[layers] ", where, ": got layer '", layer.name(),
               "' of class ", layer->class_name(),
               " as cell; expected an RNN cell (LSTMCell, a class derived from RNNCellImpl, ...)");
  return *cell;
}

namespace {

/// A cell of the user's: its `call`, step by step.
class CallRun final : public RNNCellImpl::Run {
 public:
  CallRun(RNNCellImpl& cell, const Call& call) : cell_(cell), call_{.training = call.training} {}

  at::Tensor advance(const at::Tensor& x, Tensors& states) override {
    Tensors inputs{x};
    inputs.insert(inputs.end(), states.begin(), states.end());
    Tensors outputs = cell_(inputs, call_).values;
    STRATA_CHECK(outputs.size() == inputs.size(), kInvalidArgument, "[layers] cell '", cell_.name(),
                 "' gave ", outputs.size(), " tensors; expected its output and ", states.size(),
                 " states");
    states.assign(outputs.begin() + 1, outputs.end());
    return outputs[0];
  }

 private:
  RNNCellImpl& cell_;
  Call call_;
};

}  // namespace

std::unique_ptr<RNNCellImpl::Run> RNNCellImpl::start(const Call& call) {
  return std::make_unique<CallRun>(*this, call);
}

std::vector<Shape> RNNCellImpl::compute_output_shapes(const std::vector<Shape>& inputs,
                                                      const Json&) const {
  const int64_t batch = inputs.at(0).at(0);
  std::vector<Shape> shapes{{batch, output_size()}};
  for (int64_t size : state_sizes()) shapes.push_back({batch, size});
  return shapes;
}

GatedRun::GatedRun(const GatedWeights& weights, const CellDropout& dropout, int64_t gates)
    : weights_(weights), dropout_(dropout), gates_(gates) {}

at::Tensor GatedRun::project(const at::Tensor& x) {
  const int64_t width = x.size(-1);
  if (dropout_.input > 0 && input_masks_.empty()) {
    input_masks_ = masks(x.size(-2), width, dropout_.input, x);
  }
  const auto product = [&](const at::Tensor& input, const at::Tensor& kernel,
                           const at::Tensor& bias) {
    const at::Tensor rows = input.reshape({input.numel() / std::max<int64_t>(width, 1), width});
    const at::Tensor y = bias.defined() ? at::addmm(bias, rows, kernel) : at::mm(rows, kernel);
    std::vector<int64_t> shape = input.sizes().vec();
    shape.back() = kernel.size(1);
    return y.reshape(shape);
  };
  if (input_masks_.size() <= 1) {
    return product(input_masks_.empty() ? x : x * input_masks_[0], weights_.kernel,
                   weights_.input_bias);
  }
  const auto kernels = weights_.kernel.chunk(gates_, 1);
  Tensors parts;
  for (size_t g = 0; g < kernels.size(); ++g) {
    parts.push_back(product(x * input_masks_[g], kernels[g], {}));
  }
  const at::Tensor all = at::cat(parts, -1);
  return weights_.input_bias.defined() ? all + weights_.input_bias : all;
}

std::optional<at::Tensor> GatedRun::all_steps(const at::Tensor&, const kernels::SequenceSteps&,
                                              Tensors&) {
  return std::nullopt;
}

at::Tensor GatedRun::dropped_inputs(const at::Tensor& x) {
  if (dropout_.input <= 0) return x;
  if (input_masks_.empty()) input_masks_ = masks(x.size(0), x.size(2), dropout_.input, x);
  return x * input_masks_[0].unsqueeze(1);
}

Tensors GatedRun::masked_states(const at::Tensor& h) {
  if (dropout_.recurrent <= 0) return {};
  if (state_masks_.empty()) state_masks_ = masks(h.size(0), h.size(1), dropout_.recurrent, h);
  Tensors masked;
  for (const at::Tensor& mask : state_masks_) masked.push_back(h * mask);
  return masked;
}

at::Tensor GatedRun::recur(const at::Tensor& h, const at::Tensor& addend) {
  const Tensors masked = masked_states(h);
  if (masked.empty()) {
    return addend.defined() ? at::addmm(addend, h, weights_.recurrent)
                            : at::mm(h, weights_.recurrent);
  }
  if (masked.size() == 1) {
    const at::Tensor y = at::mm(masked[0], weights_.recurrent);
    return addend.defined() ? y + addend : y;
  }
  const auto kernels = weights_.recurrent.chunk(gates_, 1);
  Tensors parts;
  for (size_t g = 0; g < kernels.size(); ++g) parts.push_back(at::mm(masked[g], kernels[g]));
  const at::Tensor all = at::cat(parts, -1);
  return addend.defined() ? all + addend : all;
}

Tensors GatedRun::masks(int64_t rows, int64_t width, double rate, const at::Tensor& like) const {
  // Keras: with dropout of the state a mask for each gate, else one for all.
  const int64_t count = dropout_.recurrent > 0 ? gates_ : 1;
  Tensors masks;
  for (int64_t i = 0; i < count; ++i) {
    masks.push_back(at::empty({rows, width}, like.options().requires_grad(false))
                        .bernoulli_(1 - rate)
                        .div_(1 - rate));
  }
  return masks;
}

}  // namespace strata::layers
