// LARS against its formula, written down here in double precision, step by step: Keras has no LARS.

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "support/expect_error.h"
#include "tensor/update_rule.h"

namespace strata::tensor {
namespace {

struct Modifiers {
  double scale = 1, clip = 0, decay = 0;
};

/// Algorithm 1 of You, Gitman and Ginsburg 2017: v = m v + rate * ratio * (g + decay * w), w -= v.
void step_by_formula(const LARSRule& rule, double rate, const Modifiers& modifiers,
                     std::vector<double>& w, std::vector<double> g, std::vector<double>& v) {
  double squares_w = 0, squares_g = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    g[i] *= modifiers.scale;
    if (modifiers.clip > 0) g[i] = std::clamp(g[i], -modifiers.clip, modifiers.clip);
    squares_w += w[i] * w[i];
    squares_g += g[i] * g[i];
  }
  const double norm_w = std::sqrt(squares_w), norm_g = std::sqrt(squares_g);
  const double ratio = norm_w > 0 && norm_g > 0
                           ? rule.eeta * norm_w / (norm_g + modifiers.decay * norm_w + rule.epsilon)
                           : 1;
  for (size_t i = 0; i < w.size(); ++i) {
    const double increment = rate * ratio * (g[i] + modifiers.decay * w[i]);
    v[i] = rule.momentum * v[i] + increment;
    w[i] -= rule.nesterov ? rule.momentum * v[i] + increment : v[i];
  }
}

template <typename T>
void expect_formula(const LARSRule& options, const std::vector<int64_t>& shape,
                    const Modifiers& modifiers, bool no_weights, bool no_gradient) {
  const auto rule = options.make();
  ASSERT_TRUE(rule->whole_variables());
  const auto size = static_cast<size_t>(c10::multiply_integers(shape));
  std::mt19937 engine(7);
  std::normal_distribution<double> normal;
  std::vector<double> w(size), v(size);
  for (double& x : w) x = no_weights ? 0 : static_cast<T>(normal(engine));
  std::vector<T> parameter(w.begin(), w.end()), momentum(size);
  const auto tensor_options = at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value);
  at::Tensor by_tensors = at::tensor(w, at::kDouble).to(tensor_options.dtype()).view(shape);
  std::vector<at::Tensor> slots = {at::zeros_like(by_tensors)};
  for (int64_t step = 0; step < 5; ++step) {
    std::vector<T> gradient(size);
    for (T& x : gradient) x = static_cast<T>(no_gradient ? 0 : normal(engine));
    const double rate = 0.5 / static_cast<double>(step + 1);
    step_by_formula(options, rate, modifiers, w, {gradient.begin(), gradient.end()}, v);
    UpdateSpan<T> span;
    span.parameter = parameter.data();
    span.gradient = gradient.data();
    span.slots[0] = momentum.data();
    span.size = static_cast<int64_t>(size);
    span.sizes = shape;
    span.gradient_scale = modifiers.scale;
    span.clip_value = modifiers.clip;
    span.weight_decay = modifiers.decay;
    rule->apply(span, {rate, step});
    rule->apply(by_tensors, at::from_blob(gradient.data(), shape, tensor_options), slots,
                {modifiers.scale, modifiers.clip, modifiers.decay}, StepScalars{rate, step});
  }
  const double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-12;
  const auto wanted = at::tensor(w, at::kDouble);
  const auto wanted_slot = at::tensor(v, at::kDouble).neg();  // Keras's sign, as SGD's
  const auto near = [&](const at::Tensor& got, const at::Tensor& expected) {
    return at::allclose(got.to(at::kDouble).flatten(), expected, tolerance, tolerance);
  };
  const auto n = static_cast<int64_t>(size);
  EXPECT_TRUE(near(at::from_blob(parameter.data(), {n}, tensor_options), wanted)) << shape;
  EXPECT_TRUE(near(at::from_blob(momentum.data(), {n}, tensor_options), wanted_slot)) << shape;
  EXPECT_TRUE(near(by_tensors, wanted)) << shape;
  EXPECT_TRUE(near(slots[0], wanted_slot)) << shape;
}

template <typename T>
void expect_formula_everywhere() {
  const LARSRule rules[] = {{},
                            {.momentum = 0},
                            {.momentum = 0.8, .eeta = 0.02, .nesterov = true},
                            {.momentum = 0.5, .eeta = 0.1, .epsilon = 0.3}};
  const Modifiers modifiers[] = {{}, {.decay = 0.05}, {.scale = 0.25, .clip = 0.3, .decay = 1e-4}};
  for (const LARSRule& rule : rules) {
    for (const Modifiers& each : modifiers) {
      // Of one block of norms, of several, and of none; odd sizes.
      for (const std::vector<int64_t>& shape :
           {std::vector<int64_t>{7}, {3, 5}, {90, 117}, {2, 3, 4, 5}, {0}}) {
        expect_formula<T>(rule, shape, each, false, false);
      }
      expect_formula<T>(rule, {6, 4}, each, true, false);
      expect_formula<T>(rule, {6, 4}, each, false, true);
    }
  }
}

TEST(LarsTest, FloatsEqualTheFormula) { expect_formula_everywhere<float>(); }
TEST(LarsTest, DoublesEqualTheFormula) { expect_formula_everywhere<double>(); }

TEST(LarsTest, AStepIsAsLongAsTheVariableSays) {
  // Whatever the gradient's size: |step| = rate * eeta * |w|.
  for (const double size : {1e-6, 1.0, 1e6}) {
    std::vector<double> w = {3, 4}, g = {size, -2 * size}, v = {0, 0};
    UpdateSpan<double> span;
    span.parameter = w.data();
    span.gradient = g.data();
    span.slots[0] = v.data();
    span.size = 2;
    const int64_t shape[] = {2};
    span.sizes = shape;
    LARSRule{.eeta = 0.1}.make()->apply(span, {.learning_rate = 0.5});
    EXPECT_NEAR(std::hypot(w[0] - 3, w[1] - 4), 0.5 * 0.1 * 5, 1e-12) << size;
  }
}

TEST(LarsTest, ItsLeftOutVariablesHaveSgd) {
  const auto plain =
      std::get<SGDRule>(rule_of_left_out(LARSRule{.momentum = 0.7, .nesterov = true}));
  EXPECT_EQ(plain.momentum, 0.7);
  EXPECT_TRUE(plain.nesterov);
  // The steps that LARS prepares are SGD's.
  const StepScalars step{.learning_rate = 0.25, .iteration = 3};
  EXPECT_EQ(LARSRule{.momentum = 0.7}.make()->prepare(step).constants,
            SGDRule{.momentum = 0.7}.make()->prepare(step).constants);
}

TEST(LarsTest, ErrorsNameTheOption) {
  expect_error([] { LARSRule{.momentum = 1.5}.make(); }, ErrorCode::kInvalidArgument,
               "[update_rule] lars: got momentum 1.5; expected a value in [0, 1]");
  expect_error([] { LARSRule{.epsilon = -1}.make(); }, ErrorCode::kInvalidArgument,
               "[update_rule] lars: got epsilon -1; expected 0 or more");
  expect_error([] { LARSRule{.eeta = 0}.make(); }, ErrorCode::kInvalidArgument,
               "[update_rule] lars: got eeta 0; expected more than 0: otherwise nothing changes");
}

}  // namespace
}  // namespace strata::tensor
