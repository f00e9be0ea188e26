#include "optim/metrics/mean_sums.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <optional>

#include "kernels/find_operator.h"
#include "optim/shapes.h"
#include "runtime/context.h"
#include "runtime/replica_group.h"
#include "strata/core/error.h"

namespace strata::metrics {
namespace {

using at::Tensor;

template <typename T>
void sum_into(double& total, double& weights, const Tensor& values, const T* weight) {
  const T* const value = values.const_data_ptr<T>();
  const int64_t n = values.numel();
  double sum = 0;
  if (weight == nullptr) {
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(value[i]);
    weights = static_cast<double>(n);
  } else {
    double weight_sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += static_cast<double>(value[i]) * static_cast<double>(weight[i]);
      weight_sum += static_cast<double>(weight[i]);
    }
    weights = weight_sum;
  }
  total = sum;
}

// One pass instead of five operators: metrics are updated in every step. An operator, so that
// whatever records a step below autograd sees it. Contiguous; weight of values' shape and dtype.
void add_to_mean_on_cpu(Tensor& total, Tensor& count, const Tensor& values,
                        const std::optional<Tensor>& weight, double inner) {
  double sum = 0, weights = 0;
  if (values.scalar_type() == at::kFloat) {
    sum_into<float>(sum, weights, values, weight ? weight->const_data_ptr<float>() : nullptr);
  } else {
    sum_into<double>(sum, weights, values, weight ? weight->const_data_ptr<double>() : nullptr);
  }
  *total.mutable_data_ptr<double>() += sum / inner;
  *count.mutable_data_ptr<double>() += weights / inner;
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def(
      "add_to_mean_(Tensor(a!) total, Tensor(b!) count, Tensor values, Tensor? weight, "
      "float inner) -> ()");
}
TORCH_LIBRARY_IMPL(strata, CPU, library) { library.impl("add_to_mean_", add_to_mean_on_cpu); }

void add_to_mean_by_libtorch(Tensor& total, Tensor& count, const Tensor& values,
                             const std::optional<Tensor>& weight, double inner) {
  const Tensor terms = values.to(at::kDouble);
  if (weight) {
    const Tensor weights = weight->to(at::kDouble);
    total.add_((terms * weights).sum() / inner);
    count.add_(weights.sum() / inner);
  } else {
    total.add_(terms.sum() / inner);
    count.add_(static_cast<double>(values.numel()) / inner);
  }
}
TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("add_to_mean_", add_to_mean_by_libtorch);
}

/// The tensor that may be written to without asking anybody; null: ask the variable.
const Tensor* own_tensor(const Variable& variable) {
  const detail::Context& context = detail::current_context();
  const std::shared_ptr<detail::VariableState>& state = variable.state();
  if (context.replica == nullptr || context.group != state->group().get()) return nullptr;
  return &state->replicas()[static_cast<size_t>(context.replica->local_replica())];
}

/// How many elements of `values` make an example.
double elements_of_example(const Tensor& values, const Tensor& weight) {
  if (values.numel() == 0 || values.dim() == 0) return 1;
  const bool whole = weight.defined() && weight.dim() == 0;
  return static_cast<double>(whole ? values.numel() : values.numel() / values.size(0));
}

}  // namespace

Variable make_sum(const std::string& name, at::IntArrayRef shape) {
  return Variable(at::zeros(shape, at::TensorOptions(at::kDouble)),
                  {.name = name,
                   .trainable = false,
                   .synchronization = VariableSynchronization::kOnRead,
                   .aggregation = VariableAggregation::kSum});
}

void add_to_sum(Variable& variable, const Tensor& value) {
  if (get_replica_context()) {
    variable.assign_add(value);
  } else {
    variable.assign(variable.value() + value.cpu());
  }
}

void bring_to_scope(Variable& sum) {
  ReplicaGroup* const here = detail::current_context().group;
  if (here == &sum.group()) return;
  STRATA_CHECK(sum.state()->group() == detail::default_group(), kFailedPrecondition,
               "[metrics] build: '", sum.name(), "' belongs to ", sum.group().name(),
               " and is wanted by ", here->name(),
               "; Mixing different tf.distribute.Strategy objects is not possible");
  Variable moved = make_sum(sum.name(), sum.sizes());
  moved.assign(sum.value());
  sum = moved;
}

void add_to_mean(Variable& total, Variable& count, const Tensor& values, const Tensor& weight) {
  const at::NoGradGuard no_grad;
  Tensor terms = values, weights;
  const double inner = elements_of_example(values, weight);
  if (terms.scalar_type() != at::kFloat) terms = terms.to(at::kDouble);
  if (weight.defined()) {
    weights = weight.to(terms.options());
    strata::detail::match_weight("[metrics] update_state", terms, weights);
    if (terms.dim() == 0) terms = terms.expand_as(weights);
    weights = weights.expand_as(terms).contiguous();
  }
  const Tensor* const my_total = own_tensor(total);
  const Tensor* const my_count = own_tensor(count);
  if (my_total != nullptr && my_count != nullptr && my_total->is_cpu() && terms.is_cpu()) {
    using Signature = void(Tensor&, Tensor&, const Tensor&, const std::optional<Tensor>&, double);
    static const auto operation = kernels::find_operator<Signature>("strata::add_to_mean_");
    const at::AutoDispatchBelowADInplaceOrView below;
    Tensor a = *my_total, b = *my_count;
    operation.call(a, b, terms.contiguous(),
                   weights.defined() ? std::optional<Tensor>(weights) : std::nullopt, inner);
    return;
  }
  const Tensor exact = terms.detach().to(at::kDouble);
  if (weights.defined()) {
    const Tensor exact_weights = weights.to(at::kDouble);
    add_to_sum(total, (exact * exact_weights).sum() / inner);
    add_to_sum(count, exact_weights.sum() / inner);
  } else {
    add_to_sum(total, exact.sum() / inner);
    add_to_sum(count, at::scalar_tensor(static_cast<double>(exact.numel()) / inner, at::kDouble));
  }
}

void add_weighted(Variable& total, const Tensor& values, const Tensor& weight) {
  const at::NoGradGuard no_grad;
  Tensor terms = values.detach().to(at::kDouble);
  if (weight.defined()) {
    Tensor weights = weight.to(terms.options());
    strata::detail::match_weight("[metrics] update_state", terms, weights);
    terms = terms * weights;
  }
  add_to_sum(total, terms.sum());
}

}  // namespace strata::metrics
