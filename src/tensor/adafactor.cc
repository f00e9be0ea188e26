// Adafactor: of a matrix's second moments only the means of rows and columns are kept.

#include <ATen/ops/div.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "strata/core/error.h"
#include "tensor/rule_of.h"
#include "tensor/sum_of_squares.h"
#include "tensor/update_kernels.h"
#include "tensor/update_rule_checks.h"

namespace strata::tensor {
namespace {

using Slots = std::vector<at::Tensor>;

enum Slot : size_t { kRow, kColumn, kVelocity };
enum Constant : size_t { kBeta2, kRho };

/// A root of a mean of squares, added block by block.
template <typename T>
double rms(const T* values, int64_t size) {
  double sum = 0;
  for (int64_t begin = 0; begin < size; begin += kNormBlock) {
    sum += sum_of_squares(values + begin, std::min(kNormBlock, size - begin));
  }
  return std::sqrt(sum / static_cast<double>(size));
}

/// The mean in eight lanes.
template <typename T>
T mean(const T* values, int64_t size) {
  T lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) lanes[lane] += values[i + lane];
  }
  for (int64_t lane = 0; i < size; ++i, ++lane) lanes[lane] += values[i];
  return (((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
          ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))) /
         static_cast<T>(size);
}

/// rows[i] and columns[j] move towards the means of `squares`, and velocity becomes their product.
template <typename T>
void factor(const T* squares, int64_t num_rows, int64_t num_columns, T beta_2, T* rows, T* columns,
            T* velocity) {
  std::vector<T> sums(static_cast<size_t>(num_columns), T(0));
  for (int64_t i = 0; i < num_rows; ++i) {
    const T* row = squares + i * num_columns;
    rows[i] = beta_2 * rows[i] + (1 - beta_2) * mean(row, num_columns);
    for (int64_t j = 0; j < num_columns; ++j) sums[static_cast<size_t>(j)] += row[j];
  }
  for (int64_t j = 0; j < num_columns; ++j) {
    columns[j] = beta_2 * columns[j] +
                 (1 - beta_2) * (sums[static_cast<size_t>(j)] / static_cast<T>(num_rows));
  }
  const T of_rows = mean(rows, num_rows);
  for (int64_t i = 0; i < num_rows; ++i) {
    const T share = rows[i] / of_rows;
    for (int64_t j = 0; j < num_columns; ++j) velocity[i * num_columns + j] = share * columns[j];
  }
}

class Adafactor final : public RuleOf<AdafactorRule> {
 public:
  explicit Adafactor(const AdafactorRule& options) : RuleOf(kSgd, options) {}

  bool whole_variables() const override { return true; }
  PreparedStep prepare(const StepScalars& step) const override {
    const auto t = static_cast<double>(step.iteration + 1);
    return {
        step.learning_rate,
        {1 - std::pow(t, options_.beta_2_decay), std::min(step.learning_rate, 1 / std::sqrt(t))}};
  }

 private:
  template <typename T>
  void step_whole(const UpdateSpan<T>& span, const PreparedStep& step) const {
    if (span.size == 0) return;
    // Modifiers first, by SGD: the parameter decays (its gradient is zero), and zero takes away
    // minus the gradient.
    if (span.weight_decay != 0) {
      UpdateSpan<T> decay = span;
      decay.gradient = nullptr;
      run_kernel(kSgd, decay, step);
    }
    std::vector<T> gradient(static_cast<size_t>(span.size), T(0));
    UpdateSpan<T> copy = span;
    copy.parameter = gradient.data();
    copy.weight_decay = 0;
    run_kernel(kSgd, copy, PreparedStep(-1, {}));

    std::vector<T> squares(gradient.size());
    for (size_t i = 0; i < squares.size(); ++i) {
      squares[i] = gradient[i] * gradient[i] + static_cast<T>(options_.epsilon_1);
    }
    const T beta_2 = static_cast<T>(step.constants[kBeta2]);
    T* velocity = span.slots[kVelocity];
    if (span.sizes.size() >= 2) {
      const int64_t num_columns = span.sizes[span.sizes.size() - 1];
      const int64_t num_rows = span.sizes[span.sizes.size() - 2];
      for (int64_t at = 0, matrix = 0; at < span.size; at += num_rows * num_columns, ++matrix) {
        factor(squares.data() + at, num_rows, num_columns, beta_2,
               span.slots[kRow] + matrix * num_rows, span.slots[kColumn] + matrix * num_columns,
               velocity + at);
      }
    } else {
      for (size_t i = 0; i < squares.size(); ++i) {
        velocity[i] = beta_2 * velocity[i] + (1 - beta_2) * squares[i];
      }
    }
    const double alpha =
        std::max(options_.epsilon_2, rms(span.parameter, span.size)) * step.constants[kRho];
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] /= std::sqrt(velocity[i]);
    const T factor = static_cast<T>(
        alpha / std::max(1.0, rms(gradient.data(), span.size) / options_.clip_threshold));
    for (size_t i = 0; i < gradient.size(); ++i) span.parameter[i] -= factor * gradient[i];
  }
  void do_apply_span(const UpdateSpan<float>& span, const PreparedStep& step) const override {
    step_whole(span, step);
  }
  void do_apply_span(const UpdateSpan<double>& span, const PreparedStep& step) const override {
    step_whole(span, step);
  }

  void do_apply(at::Tensor& parameter, const at::Tensor& gradient, Slots& slots,
                const PreparedStep& step) const override {
    const auto rms_of = [](const at::Tensor& x) {
      return x.to(at::kDouble).square().mean().sqrt_().to(x.scalar_type());
    };
    const double beta_2 = step.constants[kBeta2];
    const at::Tensor squares = at::mul(gradient, gradient).add_(options_.epsilon_1);
    if (parameter.dim() >= 2) {
      slots[kRow].mul_(beta_2).add_(squares.mean(-1), 1 - beta_2);
      slots[kColumn].mul_(beta_2).add_(squares.mean(-2), 1 - beta_2);
      const at::Tensor shares = at::div(slots[kRow], slots[kRow].mean(-1, /*keepdim=*/true));
      slots[kVelocity].copy_(at::mul(shares.unsqueeze(-1), slots[kColumn].unsqueeze(-2)));
    } else {
      slots[kVelocity].mul_(beta_2).add_(squares, 1 - beta_2);
    }
    const at::Tensor alpha =
        rms_of(parameter).clamp_min_(options_.epsilon_2).mul_(step.constants[kRho]);
    const at::Tensor update = at::div(gradient, slots[kVelocity].sqrt());
    update.div_(rms_of(update).div_(options_.clip_threshold).clamp_min_(1));
    parameter.sub_(update.mul_(alpha));
  }
};

}  // namespace

std::unique_ptr<UpdateRule> AdafactorRule::make() const {
  check_not_negative("adafactor", "epsilon_1", epsilon_1);
  check_not_negative("adafactor", "epsilon_2", epsilon_2);
  STRATA_CHECK(clip_threshold > 0, kInvalidArgument, "[update_rule] adafactor: got clip_threshold ",
               clip_threshold, "; expected more than 0");
  return std::make_unique<Adafactor>(*this);
}

}  // namespace strata::tensor
