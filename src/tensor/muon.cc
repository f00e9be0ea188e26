// Muon: the momentum of a matrix, made nearly orthogonal by Newton and Schulz's iteration.
// Source: Jordan et al., "Muon", 2024, with the scale of Liu et al., "Muon is Scalable for LLM
// Training", 2025, as Keras has both.

#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/typeid.h>

#include <algorithm>
#include <cmath>

#include "strata/core/error.h"
#include "tensor/rule_of.h"
#include "tensor/update_kernels.h"
#include "tensor/update_rule_checks.h"

namespace strata::tensor {
namespace {

class Muon final : public RuleOf<MuonRule> {
 public:
  explicit Muon(const MuonRule& options)
      : RuleOf(kSgd, options),
        adam_(AdamRule{.beta_1 = options.adam_beta_1,
                       .beta_2 = options.adam_beta_2,
                       .epsilon = options.epsilon}
                  .make()) {}

  bool whole_variables() const override { return true; }
  /// The constants are Adam's, for the variables that it updates; the matrices need none.
  PreparedStep prepare(const StepScalars& step) const override {
    StepScalars of_adam = step;
    of_adam.learning_rate *= options_.adam_lr_ratio;
    return {step.learning_rate, adam_->prepare(of_adam).constants};
  }

 private:
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, std::vector<at::Tensor>& slots,
                const PreparedStep& step) const override {
    STRATA_CHECK(parameter.dim() == 2, kInvalidArgument,
                 "[update_rule] muon: got a variable of shape ", parameter.sizes(),
                 "; expected a matrix");
    if (parameter.numel() == 0) return;
    at::Tensor& momentum = slots[0];
    momentum.mul_(options_.momentum).add_(gradient);
    const at::Tensor direction =
        options_.nesterov ? at::add(gradient, momentum, options_.momentum) : momentum;
    const auto longest = static_cast<double>(std::max(parameter.size(0), parameter.size(1)));
    const double scale = options_.rms_rate == 0 ? 1 : std::sqrt(longest) * options_.rms_rate;
    parameter.sub_(orthogonal(direction), step.learning_rate * scale);
  }

  /// Singular values near 1, with the vectors of `matrix`.
  at::Tensor orthogonal(const at::Tensor& matrix) const {
    const bool tall = matrix.size(0) > matrix.size(1);
    at::Tensor x = tall ? matrix.t() : matrix;
    // Singular values of at most 1; 1e-7 is Keras's.
    x = at::div(x, x.square().sum().sqrt_().add_(1e-7));
    for (int64_t i = 0; i < options_.ns_steps; ++i) {
      const at::Tensor squares = at::mm(x, x.t());
      const at::Tensor polynomial =
          at::mm(squares, squares).mul_(options_.muon_c).add_(squares, options_.muon_b);
      x = at::mm(polynomial, x).add_(x, options_.muon_a);
    }
    return tall ? x.t() : x;
  }

  /// Products of matrices are libtorch's: the tensor form.
  template <typename T>
  void step_whole(const UpdateSpan<T>& span, const PreparedStep& step) const {
    const at::TensorOptions options(c10::CppTypeToScalarType<T>::value);
    const auto tensor_of = [&](T* values) { return at::from_blob(values, span.sizes, options); };
    at::Tensor parameter = tensor_of(span.parameter);
    std::vector<at::Tensor> slots = {tensor_of(span.slots[0])};
    // Only read.
    const at::Tensor gradient =
        span.gradient == nullptr ? at::Tensor() : tensor_of(const_cast<T*>(span.gradient));
    const UpdateModifiers modifiers{.gradient_scale = span.gradient_scale,
                                    .clip_value = span.clip_value,
                                    .weight_decay = span.weight_decay};
    UpdateRule::apply(parameter, gradient, slots, modifiers, step);
  }
  void do_apply_span(const UpdateSpan<float>& span, const PreparedStep& step) const override {
    step_whole(span, step);
  }
  void do_apply_span(const UpdateSpan<double>& span, const PreparedStep& step) const override {
    step_whole(span, step);
  }

  const std::unique_ptr<UpdateRule> adam_;
};

}  // namespace

std::unique_ptr<UpdateRule> MuonRule::make() const {
  check_fraction("muon", "momentum", momentum);
  check_not_negative("muon", "adam_lr_ratio", adam_lr_ratio);
  check_not_negative("muon", "rms_rate", rms_rate);
  STRATA_CHECK(ns_steps >= 0 && ns_steps <= 100, kInvalidArgument, "[update_rule] muon: got ",
               ns_steps, " ns_steps; expected 0 to 100");
  return std::make_unique<Muon>(*this);  // Adam checks its own
}

}  // namespace strata::tensor
