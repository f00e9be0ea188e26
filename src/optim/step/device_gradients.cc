#include "optim/step/device_gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "optim/step/update_operator.h"

namespace strata::optimizers {
namespace {

/// Of those that are used: `[used entries]`, float64, where the gradients are. Undefined: none is.
at::Tensor norms_of(const Step& step, const std::vector<at::Tensor>& parameters,
                    std::vector<size_t>& used) {
  std::vector<at::Tensor> gradients;
  for (size_t e = 0; e < parameters.size(); ++e) {
    if (!step.gradients[e].used) continue;
    used.push_back(e);
    gradients.push_back(gradient_of(step.gradients[e], parameters[e], 0));
  }
  if (used.empty()) return {};
  return at::stack(at::_foreach_norm(gradients, /*ord=*/2, at::kDouble)).square_();
}

/// `gradient` times the factor that no host knows.
at::Tensor times_factor(const at::Tensor& gradient, const at::Tensor& factor) {
  if (!factor.defined()) return gradient;
  return gradient * factor.to(gradient.device(), gradient.scalar_type());
}

}  // namespace

at::Tensor unscaled_gradient_of(const EntryGradient& gradient, const at::Tensor& parameter,
                                int replica) {
  if (!gradient.rows) {
    const size_t source = gradient.sources.size() == 1 ? 0 : static_cast<size_t>(replica);
    return gradient.sources[source].to(parameter.device());
  }
  const at::Tensor rows = gradient.rows->rows.to(parameter.device());
  at::Tensor dense = at::full_like(parameter, 0).detach();
  dense.index_copy_(0, rows, gradient.rows->values.to(parameter.device()));
  return dense;
}

at::Tensor gradient_of(const EntryGradient& gradient, const at::Tensor& parameter, int replica) {
  return times_factor(unscaled_gradient_of(gradient, parameter, replica), gradient.factor);
}

void update_variable(const tensor::UpdateRule& rule, const Step& step, size_t entry, int replica,
                     at::Tensor& parameter, std::vector<at::Tensor>& slots,
                     const tensor::UpdateModifiers& modifiers) {
  const EntryGradient& gradient = step.gradients[entry];
  if (!step.touched_rows_only || !gradient.rows || rule.whole_variables()) {
    rule.apply(parameter, gradient_of(gradient, parameter, replica), slots, modifiers,
               step.prepared);
    return;
  }
  const at::Device device = parameter.device();
  const RowGradient rows = {gradient.rows->rows.to(device),
                            times_factor(gradient.rows->values.to(device), gradient.factor)};
  update_touched_rows(rule, parameter, rows, slots, modifiers, step.prepared);
}

std::vector<double> squared_norms_of(const Step& step, const std::vector<at::Tensor>& parameters) {
  std::vector<double> norms(parameters.size());
  std::vector<size_t> used;
  const at::Tensor all = norms_of(step, parameters, used);
  if (!all.defined()) return norms;
  const at::Tensor here = all.cpu();  // the device is waited for once
  for (size_t i = 0; i < used.size(); ++i) {
    norms[used[i]] = here[static_cast<int64_t>(i)].item<double>();
  }
  return norms;
}

at::Tensor squared_norms_on_gpu_of(const Step& step, const std::vector<at::Tensor>& parameters) {
  const at::Device device = parameters[0].device();
  if (!device.is_cuda()) return {};
  std::vector<size_t> used;
  const at::Tensor norms = norms_of(step, parameters, used);
  if (used.size() == parameters.size()) return norms;
  at::Tensor all = at::zeros({static_cast<int64_t>(parameters.size())},
                             at::TensorOptions(at::kDouble).device(device));
  for (size_t i = 0; i < used.size(); ++i) {
    all[static_cast<int64_t>(used[i])].copy_(norms[static_cast<int64_t>(i)]);
  }
  return all;
}

}  // namespace strata::optimizers
