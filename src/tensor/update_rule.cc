#include "tensor/update_rule.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "strata/core/error.h"
#include "tensor/rule_of.h"
#include "tensor/update_kernels.h"
#include "tensor/update_rule_checks.h"

namespace strata::tensor {

const UpdateKernels& update_kernels(CpuIsa isa) { return STRATA_KERNELS_FOR(isa, update_kernels); }

namespace {

template <typename T>
UpdateKernel<T> kernel_of(int id) {
  static const UpdateKernels& kernels = update_kernels(best_cpu_isa());
  if constexpr (std::is_same_v<T, float>) {
    return kernels.f32[id];
  } else {
    return kernels.f64[id];
  }
}

}  // namespace

UpdateRule::UpdateRule(int kernel, const RuleRow& row, std::vector<RuleSlot> slots)
    : kernel_(kernel), row_(row), slots_(std::move(slots)) {}
UpdateRule::~UpdateRule() = default;

const RuleSlot& UpdateRule::slot_at(const char* where, int slot) const {
  STRATA_CHECK(slot >= 0 && slot < num_slots(), kOutOfRange, "[update_rule] ", where, ": got slot ",
               slot, " of ", name(), ", which has ", num_slots());
  return slots_[static_cast<size_t>(slot)];
}

std::string_view UpdateRule::slot_name(int slot) const { return slot_at("slot_name", slot).name; }
double UpdateRule::slot_initial_value(int) const { return 0; }
bool UpdateRule::slot_starts_as_variable(int slot) const {
  return slot_at("slot_starts_as_variable", slot).starts_as_variable;
}
std::vector<int64_t> UpdateRule::slot_shape(int slot, at::IntArrayRef sizes) const {
  return slot_at("slot_shape", slot).shape_of({sizes.data(), sizes.size()});
}
double UpdateRule::next_scalar_state(double scalar_state, int64_t) const { return scalar_state; }

void UpdateRule::do_apply_span(const UpdateSpan<float>& span, const PreparedStep& step) const {
  run_kernel(kernel_, span, step);
}
void UpdateRule::do_apply_span(const UpdateSpan<double>& span, const PreparedStep& step) const {
  run_kernel(kernel_, span, step);
}

template <typename T>
void UpdateRule::run_kernel(int kernel, const UpdateSpan<T>& span, const PreparedStep& step) {
  UpdateArguments<T> arguments;
  arguments.parameter = span.parameter;
  arguments.gradient = span.gradient;
  for (int i = 0; i < kMaxSlots; ++i) arguments.slots[i] = span.slots[static_cast<size_t>(i)];
  arguments.copy = span.copy;
  arguments.size = span.size;
  arguments.gradient_scale = static_cast<T>(span.gradient_scale);
  arguments.clip_limit =
      span.clip_value > 0 ? static_cast<T>(span.clip_value) : std::numeric_limits<T>::infinity();
  arguments.weight_decay = static_cast<T>(span.weight_decay);
  arguments.learning_rate = static_cast<T>(step.learning_rate);
  for (size_t i = 0; i < step.constants.size(); ++i) {
    arguments.constants[i] = static_cast<T>(step.constants[i]);
  }
  kernel_of<T>(kernel)(arguments);
}

template void UpdateRule::run_kernel(int, const UpdateSpan<float>&, const PreparedStep&);
template void UpdateRule::run_kernel(int, const UpdateSpan<double>&, const PreparedStep&);

template <typename T>
void UpdateRule::apply_and_copy(UpdateSpan<T> span, const PreparedStep& step) const {
  T* const copy = std::exchange(span.copy, nullptr);
  do_apply_span(span, step);
  std::copy_n(span.parameter, span.size, copy);
}

void UpdateRule::apply(const UpdateSpan<float>& span, const PreparedStep& step) const {
  if (span.copy != nullptr && whole_variables()) return apply_and_copy(span, step);
  do_apply_span(span, step);
}

void UpdateRule::apply(const UpdateSpan<double>& span, const PreparedStep& step) const {
  if (span.copy != nullptr && whole_variables()) return apply_and_copy(span, step);
  do_apply_span(span, step);
}

void UpdateRule::apply(at::Tensor& parameter, const at::Tensor& gradient,
                       std::vector<at::Tensor>& slots, const UpdateModifiers& modifiers,
                       const StepScalars& step) const {
  apply(parameter, gradient, slots, modifiers, prepare(step));
}

void UpdateRule::apply(at::Tensor& parameter, const at::Tensor& gradient,
                       std::vector<at::Tensor>& slots, const UpdateModifiers& modifiers,
                       const PreparedStep& step) const {
  STRATA_CHECK(static_cast<int>(slots.size()) == num_slots(), kInvalidArgument,
               "[update_rule] apply: got ", slots.size(), " slots for ", name(), "; expected ",
               num_slots());
  const at::NoGradGuard no_grad;
  at::Tensor g = gradient.defined() ? gradient : at::zeros_like(parameter);
  if (modifiers.gradient_scale != 1) g = at::mul(g, modifiers.gradient_scale);
  if (modifiers.clip_value > 0) g = at::clamp(g, -modifiers.clip_value, modifiers.clip_value);
  if (couples_weight_decay()) {
    PreparedStep of_variable = step;
    of_variable.weight_decay = modifiers.weight_decay;
    return do_apply(parameter, g, slots, of_variable);
  }
  if (modifiers.weight_decay != 0) {
    parameter.mul_(1 - modifiers.weight_decay * step.learning_rate);
  }
  do_apply(parameter, g, slots, step);
}

namespace {

using Slots = std::vector<at::Tensor>;

class SGD final : public RuleOf<SGDRule> {
 public:
  explicit SGD(const SGDRule& options)
      : RuleOf(options.momentum == 0 ? kSgd
               : options.nesterov    ? kSgdNesterov
                                     : kSgdMomentum,
               options) {}

  bool zero_gradient_is_identity() const override { return options_.momentum == 0; }
  PreparedStep prepare(const StepScalars& step) const override {
    return {step.learning_rate, {options_.momentum}};
  }

 private:
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots& slots,
                const PreparedStep& step) const override {
    if (options_.momentum == 0) {
      parameter.sub_(gradient, step.learning_rate);
      return;
    }
    at::Tensor& m = slots[0];
    m.mul_(options_.momentum).sub_(gradient, step.learning_rate);
    if (options_.nesterov) {
      parameter.add_(m, options_.momentum).sub_(gradient, step.learning_rate);
    } else {
      parameter.add_(m);
    }
  }
};

class Adam final : public RuleOf<AdamRule> {
 public:
  explicit Adam(const AdamRule& options)
      : RuleOf(options.amsgrad ? kAdamAmsgrad : kAdam, options) {}

  PreparedStep prepare(const StepScalars& step) const override {
    const auto t = static_cast<double>(step.iteration + 1);
    const double alpha = step.learning_rate * std::sqrt(1 - std::pow(options_.beta_2, t)) /
                         (1 - std::pow(options_.beta_1, t));
    return {step.learning_rate,
            {alpha, 1 - options_.beta_1, 1 - options_.beta_2, options_.epsilon}};
  }

 private:
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots& slots,
                const PreparedStep& step) const override {
    const auto& [alpha, one_minus_beta_1, one_minus_beta_2, epsilon, unused_0, unused_1] =
        step.constants;
    if (parameter.is_cuda()) {
      // The kernel's own bias correction, which scales epsilon, too, is 1 after infinite steps.
      const at::Tensor steps = at::full({}, std::numeric_limits<float>::infinity(),
                                        parameter.options().dtype(at::kFloat));
      const auto largest = options_.amsgrad ? at::TensorList(slots[2]) : at::TensorList();
      at::_fused_adam_(parameter, gradient, slots[0], slots[1], largest, steps, alpha,
                       options_.beta_1, options_.beta_2, /*weight_decay=*/0, epsilon,
                       options_.amsgrad, /*maximize=*/false);
      return;
    }
    slots[0].lerp_(gradient, one_minus_beta_1);
    slots[1].lerp_(at::square(gradient), one_minus_beta_2);
    if (options_.amsgrad) at::maximum_out(slots[2], slots[2], slots[1]);
    parameter.addcdiv_(slots[0], at::sqrt(options_.amsgrad ? slots[2] : slots[1]).add_(epsilon),
                       -alpha);
  }
};

/// `value` under a root with epsilon, or (the legacy rules) the root with epsilon beside it.
at::Tensor root_with_epsilon(const at::Tensor& value, double epsilon, bool is_outside) {
  return is_outside ? value.sqrt().add_(epsilon) : value.add(epsilon).sqrt_();
}

template <typename Rule>
class Adagrad final : public RuleOf<Rule> {
 public:
  using RuleOf<Rule>::options_;

  explicit Adagrad(const Rule& options)
      : RuleOf<Rule>(kIsLegacy ? kLegacyAdagrad : kAdagrad, options) {}

  double slot_initial_value(int) const override { return options_.initial_accumulator_value; }
  bool zero_gradient_is_identity() const override { return true; }
  PreparedStep prepare(const StepScalars& step) const override {
    return {step.learning_rate, {options_.epsilon}};
  }

 private:
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots& slots,
                const PreparedStep& step) const override {
    slots[0].addcmul_(gradient, gradient);
    parameter.addcdiv_(gradient, root_with_epsilon(slots[0], options_.epsilon, kIsLegacy),
                       -step.learning_rate);
  }

  static constexpr bool kIsLegacy = std::is_same_v<Rule, LegacyAdagradRule>;
};

template <typename Rule>
class RMSprop final : public RuleOf<Rule> {
 public:
  using RuleOf<Rule>::options_;

  explicit RMSprop(const Rule& options) : RuleOf<Rule>(kernel_of(options), options) {}

  PreparedStep prepare(const StepScalars& step) const override {
    return {step.learning_rate,
            {options_.rho, 1 - options_.rho, options_.epsilon, options_.momentum}};
  }

 private:
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots& slots,
                const PreparedStep& step) const override {
    at::Tensor& velocity = slots[0];
    velocity.mul_(options_.rho).addcmul_(gradient, gradient, 1 - options_.rho);
    at::Tensor variance = velocity;
    if (options_.centered) {
      at::Tensor& average = slots.back();
      average.mul_(options_.rho).add_(gradient, 1 - options_.rho);
      variance = velocity.addcmul(average, average, -1);
    }
    const at::Tensor denominator =
        root_with_epsilon(variance, options_.epsilon, kIsLegacy && options_.momentum == 0);
    if (options_.momentum > 0) {
      slots[1].mul_(options_.momentum).addcdiv_(gradient, denominator, step.learning_rate);
      parameter.sub_(slots[1]);
    } else {
      parameter.addcdiv_(gradient, denominator, -step.learning_rate);
    }
  }

  static constexpr bool kIsLegacy = std::is_same_v<Rule, LegacyRMSpropRule>;

  static int kernel_of(const Rule& options) {
    if (options.momentum > 0) {
      return options.centered ? kRmspropCenteredMomentum : kRmspropMomentum;
    }
    if (kIsLegacy) return options.centered ? kLegacyRmspropCentered : kLegacyRmsprop;
    return options.centered ? kRmspropCentered : kRmsprop;
  }
};

class Adadelta final : public RuleOf<AdadeltaRule> {
 public:
  explicit Adadelta(const AdadeltaRule& options) : RuleOf(kAdadelta, options) {}

  PreparedStep prepare(const StepScalars& step) const override {
    return {step.learning_rate, {options_.rho, 1 - options_.rho, options_.epsilon}};
  }

 private:
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots& slots,
                const PreparedStep& step) const override {
    slots[0].mul_(options_.rho).addcmul_(gradient, gradient, 1 - options_.rho);
    const at::Tensor minus_delta = slots[1]
                                       .add(options_.epsilon)
                                       .sqrt_()
                                       .mul_(gradient)
                                       .div_(slots[0].add(options_.epsilon).sqrt_());
    slots[1].mul_(options_.rho).addcmul_(minus_delta, minus_delta, 1 - options_.rho);
    parameter.sub_(minus_delta, step.learning_rate);
  }
};

class Ftrl final : public RuleOf<FtrlRule> {
 public:
  explicit Ftrl(const FtrlRule& options)
      : RuleOf(options.learning_rate_power == -0.5 ? kFtrlSquareRoot : kFtrlPower, options) {}

  double slot_initial_value(int slot) const override {
    return slot == 0 ? options_.initial_accumulator_value : 0;
  }
  PreparedStep prepare(const StepScalars& step) const override {
    const double l2 =
        options_.l2_regularization_strength + options_.beta / (2 * step.learning_rate);
    return {step.learning_rate,
            {-options_.learning_rate_power, options_.l1_regularization_strength, 2 * l2,
             2 * options_.l2_shrinkage_regularization_strength}};
  }

 private:
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots& slots,
                const PreparedStep& step) const override {
    const auto& [exponent, l1, two_l2, two_shrinkage, unused_0, unused_1] = step.constants;
    at::Tensor& accumulator = slots[0];
    at::Tensor& linear = slots[1];
    const at::Tensor before = at::pow(accumulator, exponent);
    accumulator.addcmul_(gradient, gradient);
    const at::Tensor after = at::pow(accumulator, exponent);
    const double lr = step.learning_rate;
    linear.add_(gradient.add(parameter, two_shrinkage))
        .sub_(after.sub(before).div_(lr).mul_(parameter));
    parameter.copy_(linear.clamp(-l1, l1).sub_(linear).div_(after.div(lr).add_(two_l2)));
  }
};

}  // namespace

void check_fraction(const char* rule, const char* what, double value) {
  STRATA_CHECK(value >= 0 && value <= 1, kInvalidArgument, "[update_rule] ", rule, ": got ", what,
               " ", value, "; expected a value in [0, 1]");
}

void check_not_negative(const char* rule, const char* what, double value) {
  STRATA_CHECK(value >= 0, kInvalidArgument, "[update_rule] ", rule, ": got ", what, " ", value,
               "; expected 0 or more");
}

std::unique_ptr<UpdateRule> SGDRule::make() const {
  check_fraction("sgd", "momentum", momentum);
  return std::make_unique<SGD>(*this);
}

std::unique_ptr<UpdateRule> AdamRule::make() const {
  check_fraction("adam", "beta_1", beta_1);
  check_fraction("adam", "beta_2", beta_2);
  check_not_negative("adam", "epsilon", epsilon);
  return std::make_unique<Adam>(*this);
}

namespace {

template <typename Rule>
std::unique_ptr<UpdateRule> make_adagrad(const Rule& options) {
  check_not_negative("adagrad", "initial_accumulator_value", options.initial_accumulator_value);
  check_not_negative("adagrad", "epsilon", options.epsilon);
  return std::make_unique<Adagrad<Rule>>(options);
}

template <typename Rule>
std::unique_ptr<UpdateRule> make_rmsprop(const Rule& options) {
  check_fraction("rmsprop", "rho", options.rho);
  check_fraction("rmsprop", "momentum", options.momentum);
  check_not_negative("rmsprop", "epsilon", options.epsilon);
  return std::make_unique<RMSprop<Rule>>(options);
}

}  // namespace

std::unique_ptr<UpdateRule> AdagradRule::make() const { return make_adagrad(*this); }
std::unique_ptr<UpdateRule> LegacyAdagradRule::make() const { return make_adagrad(*this); }
std::unique_ptr<UpdateRule> RMSpropRule::make() const { return make_rmsprop(*this); }
std::unique_ptr<UpdateRule> LegacyRMSpropRule::make() const { return make_rmsprop(*this); }

std::unique_ptr<UpdateRule> AdadeltaRule::make() const {
  check_fraction("adadelta", "rho", rho);
  check_not_negative("adadelta", "epsilon", epsilon);
  return std::make_unique<Adadelta>(*this);
}

std::unique_ptr<UpdateRule> FtrlRule::make() const {
  check_not_negative("ftrl", "initial_accumulator_value", initial_accumulator_value);
  check_not_negative("ftrl", "-learning_rate_power", -learning_rate_power);
  check_not_negative("ftrl", "l1_regularization_strength", l1_regularization_strength);
  check_not_negative("ftrl", "l2_regularization_strength", l2_regularization_strength);
  check_not_negative("ftrl", "l2_shrinkage_regularization_strength",
                     l2_shrinkage_regularization_strength);
  check_not_negative("ftrl", "beta", beta);
  return std::make_unique<Ftrl>(*this);
}

}  // namespace strata::tensor
