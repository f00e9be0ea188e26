// LARS: steps whose length, layer by layer, is a share of the layer's own norm.
//
// The trust ratio of a variable w with the gradient g is
//   eeta * |w| / (|g| + weight_decay * |w| + epsilon), or 1 where |w| or |g| is 0,
// and the step is that of SGD with momentum, by the learning rate times the ratio and the gradient g
// + weight_decay * w. The momentum holds the learning rates of its steps, as the paper has it.
// Source: You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks", 2017,
// algorithm 1; epsilon and the cases with 0 as in MLPerf's LARSOptimizer.

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsub.h>

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

class Lars final : public RuleOf<LARSRule> {
 public:
  explicit Lars(const LARSRule& options)
      : RuleOf(options.nesterov ? kLarsNesterov : kLars, options) {}

  bool whole_variables() const override { return true; }
  bool couples_weight_decay() const override { return true; }
  PreparedStep prepare(const StepScalars& step) const override {
    return {step.learning_rate, {options_.momentum}};
  }

 private:
  /// Twice over the variable: norms, then the step.
  template <typename T>
  void step_whole(const UpdateSpan<T>& span, const PreparedStep& step) const {
    double weights = 0, gradients = 0;
    alignas(64) std::array<T, kNormBlock> buffer;
    for (int64_t begin = 0; begin < span.size; begin += kNormBlock) {
      const int64_t size = std::min(kNormBlock, span.size - begin);
      weights += sum_of_squares(span.parameter + begin, size);
      if (span.gradient == nullptr) continue;
      // Scaled and clipped, by SGD: from zero it takes away minus the gradient.
      buffer.fill(0);
      UpdateSpan<T> block{.parameter = buffer.data(),
                          .gradient = span.gradient + begin,
                          .size = size,
                          .gradient_scale = span.gradient_scale,
                          .clip_value = span.clip_value};
      run_kernel(kSgd, block, PreparedStep(-1, {}));
      gradients += sum_of_squares(buffer.data(), size);
    }
    PreparedStep scaled(step.learning_rate, {options_.momentum, span.weight_decay});
    if (weights > 0 && gradients > 0) {
      const double norm = std::sqrt(weights);
      scaled.learning_rate *= options_.eeta * norm /
                              (std::sqrt(gradients) + span.weight_decay * norm + options_.epsilon);
    }
    UpdateSpan<T> rest = span;
    rest.weight_decay = 0;
    run_kernel(options_.nesterov ? kLarsNesterov : kLars, rest, scaled);
  }
  void do_apply_span(const UpdateSpan<float>& span, const PreparedStep& step) const override {
    step_whole(span, step);
  }
  void do_apply_span(const UpdateSpan<double>& span, const PreparedStep& step) const override {
    step_whole(span, step);
  }

  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, std::vector<at::Tensor>& slots,
                const PreparedStep& step) const override {
    // On the device: the host does not wait for the norms.
    const auto norm = [](const at::Tensor& x) { return x.to(at::kDouble).square().sum().sqrt_(); };
    const at::Tensor weights = norm(parameter), gradients = norm(gradient);
    // 1 where either is 0; without at::where, which has no shapes for tensors without memory.
    const at::Tensor both = weights.gt(0).bitwise_and_(gradients.gt(0)).to(at::kDouble);
    const at::Tensor neither = at::rsub(both, 1);
    const at::Tensor divisor =
        at::add(gradients, weights, step.weight_decay).add_(options_.epsilon).add_(neither);
    const at::Tensor ratio = at::mul(weights, options_.eeta).div_(divisor).mul_(both).add_(neither);
    const at::Tensor increment = at::add(gradient, parameter, step.weight_decay)
                                     .mul_(ratio.to(gradient.scalar_type()))
                                     .mul_(step.learning_rate);
    slots[0].mul_(options_.momentum).sub_(increment);
    if (options_.nesterov) {
      parameter.add_(slots[0], options_.momentum).sub_(increment);
    } else {
      parameter.add_(slots[0]);
    }
  }
};

}  // namespace

std::unique_ptr<UpdateRule> LARSRule::make() const {
  check_fraction("lars", "momentum", momentum);
  check_not_negative("lars", "epsilon", epsilon);
  STRATA_CHECK(eeta > 0, kInvalidArgument, "[update_rule] lars: got eeta ", eeta,
               "; expected more than 0: otherwise nothing changes");
  return std::make_unique<Lars>(*this);
}

}  // namespace strata::tensor
