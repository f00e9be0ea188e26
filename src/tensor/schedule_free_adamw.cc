// ScheduleFreeAdamW: gradients move a sequence z ("momentum"), of which x is the mean; the variable
// is y, between both, where gradients are taken. x is not kept: it follows from y and z.
// Source: Defazio et al., "The Road Less Scheduled", 2024, as Keras has it.

#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <cmath>

#include "strata/core/error.h"
#include "tensor/rule_of.h"
#include "tensor/update_kernels.h"
#include "tensor/update_rule_checks.h"

namespace strata::tensor {
namespace {

class ScheduleFreeAdamW final : public RuleOf<ScheduleFreeAdamWRule> {
 public:
  explicit ScheduleFreeAdamW(const ScheduleFreeAdamWRule& options)
      : RuleOf(kScheduleFree, options) {}

  PreparedStep prepare(const StepScalars& step) const override {
    const auto t = static_cast<double>(step.iteration + 1);
    const double warmth = options_.warmup_steps > 0
                              ? std::min(t / static_cast<double>(options_.warmup_steps), 1.0)
                              : 1;
    return {step.learning_rate,
            {step.learning_rate * warmth, 1 - options_.beta_2, 1 - std::pow(options_.beta_2, t),
             options_.epsilon, 1 / t, options_.beta_1}};
  }

 private:
  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, std::vector<at::Tensor>& slots,
                const PreparedStep& step) const override {
    const auto& [rate, rate_2, correction, epsilon, weight, beta_1] = step.constants;
    at::Tensor& z = slots[0];
    const at::Tensor x = at::sub(parameter, z, 1 - beta_1).div_(beta_1);
    slots[1].lerp_(at::square(gradient), rate_2);
    z.addcdiv_(gradient, at::div(slots[1], correction).sqrt_().add_(epsilon), -rate);
    x.mul_(1 - weight).add_(z, weight);
    parameter.copy_(at::mul(z, 1 - beta_1).add_(x, beta_1));
  }
};

}  // namespace

std::unique_ptr<UpdateRule> ScheduleFreeAdamWRule::make() const {
  check_fraction("schedule_free_adamw", "beta_1", beta_1);
  check_fraction("schedule_free_adamw", "beta_2", beta_2);
  check_not_negative("schedule_free_adamw", "epsilon", epsilon);
  check_not_negative("schedule_free_adamw", "warmup_steps", static_cast<double>(warmup_steps));
  STRATA_CHECK(beta_1 > 0, kInvalidArgument,
               "[update_rule] schedule_free_adamw: got beta_1 0; expected more: the average is "
               "divided by it");
  return std::make_unique<ScheduleFreeAdamW>(*this);
}

}  // namespace strata::tensor
