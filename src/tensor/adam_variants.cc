// Adamax, Nadam, Lion and Lamb, and the moving average of weights.

#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/square.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "strata/core/error.h"
#include "tensor/rule_of.h"
#include "tensor/sum_of_squares.h"
#include "tensor/update_kernels.h"
#include "tensor/update_rule_checks.h"

namespace strata::tensor {
namespace {

using Slots = std::vector<at::Tensor>;

double number_of(const StepScalars& step) { return static_cast<double>(step.iteration + 1); }

class Adamax final : public RuleOf<AdamaxRule> {
 public:
  explicit Adamax(const AdamaxRule& options) : RuleOf(kAdamax, options) {}

  PreparedStep prepare(const StepScalars& step) const override {
    return {step.learning_rate,
            {1 - std::pow(options_.beta_1, number_of(step)), 1 - options_.beta_1, options_.beta_2,
             options_.epsilon}};
  }

 private:
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots& slots,
                const PreparedStep& step) const override {
    slots[0].lerp_(gradient, 1 - options_.beta_1);
    slots[1].mul_(options_.beta_2);
    at::maximum_out(slots[1], slots[1], at::abs(gradient));
    parameter.addcdiv_(slots[0], at::mul(slots[1].add(options_.epsilon), step.constants[0]),
                       -step.learning_rate);
  }
};

class Nadam final : public RuleOf<NadamRule> {
 public:
  explicit Nadam(const NadamRule& options) : RuleOf(kNadam, options) {}

  double next_scalar_state(double product, int64_t iteration) const override {
    return product * momentum(iteration + 1, 0.96);
  }
  PreparedStep prepare(const StepScalars& step) const override {
    // Keras has the decay in single precision here, even for float64, and not in the product.
    constexpr double kDecay = 0.96F;
    const double now = momentum(step.iteration + 1, kDecay);
    const double next = momentum(step.iteration + 2, kDecay);
    const double product = step.scalar_state;
    return {
        step.learning_rate,
        {next / (1 - product * next), (1 - now) / (1 - product), 1 - options_.beta_1,
         1 - options_.beta_2, 1 - std::pow(options_.beta_2, number_of(step)), options_.epsilon}};
  }

 private:
  double momentum(int64_t t, double decay) const {
    return options_.beta_1 * (1 - 0.5 * std::pow(decay, static_cast<double>(t)));
  }
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots& slots,
                const PreparedStep& step) const override {
    const auto& [of_momentum, of_gradient, rate_1, rate_2, correction, epsilon] = step.constants;
    slots[0].lerp_(gradient, rate_1);
    slots[1].lerp_(at::mul(gradient, gradient), rate_2);
    const at::Tensor towards = at::mul(slots[0], of_momentum).add_(gradient, of_gradient);
    parameter.addcdiv_(towards, at::div(slots[1], correction).sqrt_().add_(epsilon),
                       -step.learning_rate);
  }
};

class Lion final : public RuleOf<LionRule> {
 public:
  explicit Lion(const LionRule& options) : RuleOf(kLion, options) {}

  PreparedStep prepare(const StepScalars& step) const override {
    return {step.learning_rate,
            {options_.beta_1, 1 - options_.beta_1, options_.beta_2, 1 - options_.beta_2}};
  }

 private:
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots& slots,
                const PreparedStep& step) const override {
    const at::Tensor direction =
        at::mul(slots[0], options_.beta_1).add_(gradient, 1 - options_.beta_1).sign_();
    parameter.sub_(direction, step.learning_rate);
    slots[0].mul_(options_.beta_2).add_(gradient, 1 - options_.beta_2);
  }
};

/// Adam whose step is as long as the variable times the learning rate.
class Lamb final : public RuleOf<LambRule> {
 public:
  explicit Lamb(const LambRule& options) : RuleOf(kLambStep, options) {}

  bool whole_variables() const override { return true; }
  PreparedStep prepare(const StepScalars& step) const override {
    const double t = number_of(step);
    return {step.learning_rate,
            {1 - options_.beta_1, 1 - options_.beta_2, 1 - std::pow(options_.beta_1, t),
             1 - std::pow(options_.beta_2, t), options_.epsilon}};
  }

 private:
  static double ratio(double square_of_weights, double square_of_update) {
    return square_of_weights > 0 && square_of_update > 0
               ? std::sqrt(square_of_weights) / std::sqrt(square_of_update)
               : 1;
  }

  /// Twice over the variable: moments and norms, then the step.
  template <typename T>
  static void step_whole(const UpdateSpan<T>& span, const PreparedStep& step) {
    alignas(64) std::array<T, kNormBlock> buffer;
    PreparedStep to_buffer = step;
    to_buffer.learning_rate = -1;
    double weights = 0, updates = 0;
    for (int64_t begin = 0; begin < span.size; begin += kNormBlock) {
      UpdateSpan<T> block = span;
      block.size = std::min(kNormBlock, span.size - begin);
      block.parameter += begin;
      if (block.gradient != nullptr) block.gradient += begin;
      for (size_t i : {0U, 1U}) block.slots[i] += begin;
      run_kernel(kLambMoments, block, step);
      weights += sum_of_squares(block.parameter, block.size);
      buffer.fill(0);
      run_kernel(
          kLambStep,
          UpdateSpan<T>{.parameter = buffer.data(), .slots = block.slots, .size = block.size},
          to_buffer);
      updates += sum_of_squares(buffer.data(), block.size);
    }
    PreparedStep scaled = step;
    scaled.learning_rate *= ratio(weights, updates);
    run_kernel(kLambStep,
               UpdateSpan<T>{.parameter = span.parameter, .slots = span.slots, .size = span.size},
               scaled);
  }
  void do_apply_span(const UpdateSpan<float>& span, const PreparedStep& step) const override {
    step_whole(span, step);
  }
  void do_apply_span(const UpdateSpan<double>& span, const PreparedStep& step) const override {
    step_whole(span, step);
  }

  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots& slots,
                const PreparedStep& step) const override {
    const auto& [rate_1, rate_2, correction_1, correction_2, epsilon, unused] = step.constants;
    slots[0].lerp_(gradient, rate_1);
    slots[1].lerp_(at::square(gradient), rate_2);
    const at::Tensor update =
        at::div(slots[0], correction_1).div_(at::div(slots[1], correction_2).sqrt_().add_(epsilon));
    // On the device: the host does not wait for the norms.
    const at::Tensor weights = parameter.to(at::kDouble).square().sum();
    const at::Tensor updates = update.to(at::kDouble).square().sum();
    // 1 where either is 0; without at::where, which has no shapes for tensors without memory.
    const at::Tensor both = weights.gt(0).bitwise_and_(updates.gt(0)).to(at::kDouble);
    const at::Tensor neither = at::rsub(both, 1);
    const at::Tensor ratio =
        at::div(weights, at::add(updates, neither)).sqrt_().mul_(both).add_(neither);
    parameter.sub_(at::mul(update, ratio.to(update.scalar_type())), step.learning_rate);
  }
};

class MovingAverage final : public RuleOf<MovingAverageRule> {
 public:
  explicit MovingAverage(const MovingAverageRule& options) : RuleOf(kMovingAverage, options) {}

  PreparedStep prepare(const StepScalars& step) const override {
    return {step.learning_rate, {1 - step.learning_rate}};
  }

 private:
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots&,
                const PreparedStep& step) const override {
    parameter.mul_(step.constants[0]).add_(gradient, step.learning_rate);
  }
};

template <typename Options>
void check_betas(const char* rule, const Options& options) {
  check_fraction(rule, "beta_1", options.beta_1);
  check_fraction(rule, "beta_2", options.beta_2);
}

}  // namespace

std::unique_ptr<UpdateRule> AdamaxRule::make() const {
  check_betas("adamax", *this);
  check_not_negative("adamax", "epsilon", epsilon);
  return std::make_unique<Adamax>(*this);
}

std::unique_ptr<UpdateRule> NadamRule::make() const {
  check_betas("nadam", *this);
  check_not_negative("nadam", "epsilon", epsilon);
  return std::make_unique<Nadam>(*this);
}

std::unique_ptr<UpdateRule> LionRule::make() const {
  check_betas("lion", *this);
  STRATA_CHECK(beta_1 > 0, kInvalidArgument,
               "[update_rule] lion: got beta_1 0; expected more: otherwise nothing but the sign of "
               "the last gradient counts");
  return std::make_unique<Lion>(*this);
}

std::unique_ptr<UpdateRule> LambRule::make() const {
  check_betas("lamb", *this);
  check_not_negative("lamb", "epsilon", epsilon);
  return std::make_unique<Lamb>(*this);
}

std::unique_ptr<UpdateRule> MovingAverageRule::make() const {
  return std::make_unique<MovingAverage>(*this);
}

}  // namespace strata::tensor
