#include "strata/optim/mean.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>

namespace strata::metrics {
namespace {

Variable accumulator(const std::string& name) {
  return Variable(at::scalar_tensor(0.0, at::kDouble),
                  {.name = name,
                   .trainable = false,
                   .synchronization = VariableSynchronization::kOnRead,
                   .aggregation = VariableAggregation::kSum});
}

/// By a replica an addition to its own copy. Outside `run` the sum over replicas may only be
/// assigned.
void add(Variable& variable, const at::Tensor& value) {
  if (get_replica_context()) {
    variable.assign_add(value);
  } else {
    variable.assign(variable.value() + value.cpu());
  }
}

}  // namespace

Mean::Mean(const std::string& name)
    : name_(name), total_(accumulator(name + "/total")), count_(accumulator(name + "/count")) {}

void Mean::update(const at::Tensor& values, const at::Tensor& weight) {
  const at::NoGradGuard no_grad;
  const at::Tensor terms = values.detach().to(at::kDouble);
  const at::Tensor weights =
      weight.defined() ? weight.to(terms.options()).expand_as(terms) : at::ones_like(terms);
  add(total_, (terms * weights).sum());
  add(count_, weights.sum());
}

void Mean::update(double value, double weight) {
  update(at::scalar_tensor(value, at::kDouble), at::scalar_tensor(weight, at::kDouble));
}

double Mean::result() const {
  const double count = count_.value().item<double>();
  return count == 0 ? 0 : total_.value().item<double>() / count;
}

void Mean::reset() {
  total_.assign(0.0);
  count_.assign(0.0);
}

}  // namespace strata::metrics
