#include "strata/optim/metrics.h"

#include <ATen/ops/scalar_tensor.h>

#include "optim/metrics/mean_sums.h"

namespace strata::metrics {

struct Mean::State {
  std::string name;
  Variable total, count;
};

Mean::Mean(const std::string& name)
    : state_(std::make_shared<State>(
          State{name, make_sum(name + "/total"), make_sum(name + "/count")})) {}

void Mean::update(const at::Tensor& values, const at::Tensor& weight) {
  add_to_mean(state_->total, state_->count, values, weight);
}

void Mean::update(double value, double weight) {
  update(at::scalar_tensor(value, at::kDouble), at::scalar_tensor(weight, at::kDouble));
}

double Mean::result() const {
  const double count = state_->count.value().item<double>();
  return count == 0 ? 0 : state_->total.value().item<double>() / count;
}

void Mean::reset() {
  state_->total.assign(0.0);
  state_->count.assign(0.0);
}

void Mean::build() {
  bring_to_scope(state_->total);
  bring_to_scope(state_->count);
}

const std::string& Mean::name() const { return state_->name; }
const Variable& Mean::total() const { return state_->total; }
const Variable& Mean::count() const { return state_->count; }

struct Sum::State {
  std::string name;
  Variable total;
};

Sum::Sum(const std::string& name)
    : state_(std::make_shared<State>(State{name, make_sum(name + "/total")})) {}

void Sum::update(const at::Tensor& values, const at::Tensor& weight) {
  add_weighted(state_->total, values, weight);
}
double Sum::result() const { return state_->total.value().item<double>(); }
void Sum::reset() { state_->total.assign(0.0); }
void Sum::build() { bring_to_scope(state_->total); }
const std::string& Sum::name() const { return state_->name; }
const Variable& Sum::total() const { return state_->total; }

}  // namespace strata::metrics
