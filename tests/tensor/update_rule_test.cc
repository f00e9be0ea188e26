#include "tensor/update_rule.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "strata/core/error.h"
#include "support/expect_error.h"
#include "tensor/update_kernels.h"

namespace strata::tensor {
namespace {

struct NamedRule {
  std::string label;
  std::unique_ptr<UpdateRule> rule;
};

std::vector<NamedRule> every_rule() {
  std::vector<NamedRule> rules;
  rules.push_back({"sgd", SGDRule{}.make()});
  rules.push_back({"momentum", SGDRule{.momentum = 0.9}.make()});
  rules.push_back({"nesterov", SGDRule{.momentum = 0.9, .nesterov = true}.make()});
  rules.push_back({"adam", AdamRule{}.make()});
  rules.push_back({"amsgrad", AdamRule{.beta_2 = 0.5, .amsgrad = true}.make()});
  rules.push_back({"adagrad", AdagradRule{}.make()});
  rules.push_back({"legacy adagrad", LegacyAdagradRule{}.make()});
  rules.push_back({"legacy rmsprop", LegacyRMSpropRule{}.make()});
  rules.push_back(
      {"legacy rmsprop centered", LegacyRMSpropRule{.epsilon = 1e-3, .centered = true}.make()});
  rules.push_back({"rmsprop", RMSpropRule{}.make()});
  rules.push_back({"rmsprop momentum", RMSpropRule{.momentum = 0.9}.make()});
  rules.push_back({"rmsprop centered", RMSpropRule{.epsilon = 1e-3, .centered = true}.make()});
  rules.push_back(
      {"rmsprop both", RMSpropRule{.momentum = 0.5, .epsilon = 1e-3, .centered = true}.make()});
  rules.push_back({"adadelta", AdadeltaRule{}.make()});
  rules.push_back(
      {"ftrl",
       FtrlRule{.l1_regularization_strength = 0.01, .l2_regularization_strength = 0.1}.make()});
  rules.push_back({"ftrl power", FtrlRule{.learning_rate_power = -0.7, .beta = 0.1}.make()});
  rules.push_back({"adamax", AdamaxRule{}.make()});
  rules.push_back({"nadam", NadamRule{}.make()});
  rules.push_back({"lion", LionRule{}.make()});
  rules.push_back({"schedule free", ScheduleFreeAdamWRule{.warmup_steps = 2}.make()});
  return rules;
}

/// One variable's parameter, gradient and slots.
template <typename T>
struct State {
  State(const UpdateRule& rule, int64_t size, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<double> normal;
    const auto n = static_cast<size_t>(size);
    parameter.resize(n);
    gradient.resize(n);
    for (auto& x : parameter) x = static_cast<T>(normal(engine));
    for (auto& x : gradient) x = static_cast<T>(normal(engine));
    for (int s = 0; s < rule.num_slots(); ++s) {
      slots.emplace_back(n, static_cast<T>(rule.slot_initial_value(s)));
    }
  }

  UpdateSpan<T> span(int64_t begin, int64_t end) {
    UpdateSpan<T> span;
    span.parameter = parameter.data() + begin;
    span.gradient = gradient.data() + begin;
    for (size_t s = 0; s < slots.size(); ++s) span.slots[s] = slots[s].data() + begin;
    span.size = end - begin;
    return span;
  }
  int64_t size() const { return static_cast<int64_t>(parameter.size()); }

  bool same_bits(const State& other) const {
    const auto same = [](const std::vector<T>& a, const std::vector<T>& b) {
      return a.size() == b.size() &&
             (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
    };
    if (!same(parameter, other.parameter)) return false;
    for (size_t s = 0; s < slots.size(); ++s) {
      if (!same(slots[s], other.slots[s])) return false;
    }
    return true;
  }

  std::vector<T> parameter, gradient;
  std::vector<std::vector<T>> slots;
};

template <typename T>
void with_modifiers(UpdateSpan<T>& span) {
  span.gradient_scale = 1.0 / 3;
  span.clip_value = 0.4;
  span.weight_decay = 0.01;
}

template <typename T>
class UpdateRuleTest : public testing::Test {};
using RuleTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(UpdateRuleTest, RuleTypes);

TYPED_TEST(UpdateRuleTest, CuttingARangeChangesNoBit) {
  for (const auto& [label, rule] : every_rule()) {
    State<TypeParam> whole(*rule, 517, 1), cut(*rule, 517, 1);
    for (int64_t step = 0; step < 3; ++step) {
      const StepScalars scalars{0.01, step};
      auto span = whole.span(0, 517);
      with_modifiers(span);
      rule->apply(span, scalars);
      int64_t begin = 0;
      for (int64_t length = 1; begin < 517; ++length) {
        const int64_t end = std::min<int64_t>(begin + length, 517);
        auto part = cut.span(begin, end);
        with_modifiers(part);
        rule->apply(part, scalars);
        begin = end;
      }
      auto empty = cut.span(517, 517);
      rule->apply(empty, scalars);
    }
    EXPECT_TRUE(whole.same_bits(cut)) << label;
  }
}

/// At every alignment, of every size around a piece's; whole-variable rules, too.
TYPED_TEST(UpdateRuleTest, TheCopyHasTheSameBits) {
  std::vector<NamedRule> rules = every_rule();
  rules.push_back({"lamb", LambRule{}.make()});
  rules.push_back({"lars", LARSRule{}.make()});
  for (const auto& [label, rule] : rules) {
    for (const int64_t size : {0, 1, 15, 64, 200, 517}) {
      for (const int64_t offset : {0, 1, 7, 16}) {
        State<TypeParam> with(*rule, size, 1), without(*rule, size, 1);
        std::vector<TypeParam> copy(static_cast<size_t>(offset + size) + 3, TypeParam(-7));
        for (int64_t step = 0; step < 2; ++step) {
          auto span = without.span(0, size);
          with_modifiers(span);
          if (step == 1) span.gradient = nullptr;
          const int64_t shape[] = {size};
          span.sizes = shape;
          rule->apply(span, {0.01, step});
          auto copied = with.span(0, size);
          with_modifiers(copied);
          if (step == 1) copied.gradient = nullptr;
          copied.sizes = shape;
          copied.copy = copy.data() + offset;
          rule->apply(copied, {0.01, step});
        }
        EXPECT_TRUE(with.same_bits(without)) << label << " " << size << " " << offset;
        for (int64_t i = 0; i < static_cast<int64_t>(copy.size()); ++i) {
          const bool inside = i >= offset && i < offset + size;
          const TypeParam expected =
              inside ? with.parameter[static_cast<size_t>(i - offset)] : TypeParam(-7);
          ASSERT_EQ(copy[static_cast<size_t>(i)], expected) << label << " " << size << " " << i;
        }
      }
    }
  }
}

TYPED_TEST(UpdateRuleTest, EveryInstructionSetGivesTheSameBits) {
  for (int run = 0; run < 4 * kNumUpdateKernels; ++run) {
    const int kernel = run / 4;
    const bool scales = run % 2 == 1, decays = run % 4 >= 2;
    std::vector<std::vector<TypeParam>> reference;
    for (int i = 0; i < kNumCpuIsas; ++i) {
      const auto isa = static_cast<CpuIsa>(i);
      if (!cpu_supports(isa)) continue;
      std::mt19937 engine(5);
      std::normal_distribution<double> normal;
      std::vector<std::vector<TypeParam>> arrays(5, std::vector<TypeParam>(1003));
      for (auto& array : arrays) {
        for (auto& x : array) x = static_cast<TypeParam>(std::abs(normal(engine)));
      }
      for (auto& x : arrays[1]) x -= TypeParam(0.7);
      arrays[1][17] = std::numeric_limits<TypeParam>::quiet_NaN();
      arrays[1][18] = std::numeric_limits<TypeParam>::infinity();
      arrays[1][19] = std::numeric_limits<TypeParam>::denorm_min();
      UpdateArguments<TypeParam> arguments = {};
      arguments.parameter = arrays[0].data() + 1;
      arguments.gradient = arrays[1].data() + 1;
      for (size_t s = 0; s < 3; ++s) arguments.slots[s] = arrays[s + 2].data() + 1;
      arguments.size = 1001;
      arguments.gradient_scale = TypeParam(scales ? 0.3 : 1);
      arguments.clip_limit = scales ? TypeParam(0.2) : std::numeric_limits<TypeParam>::infinity();
      arguments.weight_decay = TypeParam(decays ? 0.01 : 0);
      arguments.learning_rate = TypeParam(0.1);
      for (auto& c : arguments.constants) c = TypeParam(0.37);
      const UpdateKernels& kernels = update_kernels(isa);
      if constexpr (std::is_same_v<TypeParam, float>) {
        kernels.f32[kernel](arguments);
      } else {
        kernels.f64[kernel](arguments);
      }
      if (reference.empty()) {
        reference = arrays;
        continue;
      }
      for (size_t a = 0; a < arrays.size(); ++a) {
        EXPECT_EQ(std::memcmp(arrays[a].data(), reference[a].data(), 1003 * sizeof(TypeParam)), 0)
            << "kernel " << kernel << " isa " << i << " array " << a;
      }
    }
  }
}

/// Of Adam, which every instruction set computes in its own way: of all mantissas and both parities of
/// the exponent, of numbers that are small, large or none, and as the reciprocals of two numbers, so that
/// each bit of the root shows.
TEST(UpdateRuleSquareRootTest, IsExactOnEveryInstructionSet) {
  constexpr int64_t kBlock = 1 << 16;
  std::vector<uint32_t> starts;
  for (uint32_t bits = 0x3f800000; bits < 0x40800000; bits += kBlock) starts.push_back(bits);
  for (uint32_t high = 0; high < 0x100; ++high) starts.push_back(high << 24 | 0x345678);
  std::vector<float> v(kBlock), m(kBlock), p(kBlock), reference;
  const std::vector<float> zeros(kBlock);
  for (const uint32_t start : starts) {
    for (const float numerator : {1.0F, 1.9999F}) {
      reference.clear();
      for (int i = 0; i < kNumCpuIsas; ++i) {
        if (!cpu_supports(static_cast<CpuIsa>(i))) continue;
        for (uint32_t j = 0; j < kBlock; ++j) {
          const uint32_t bits = start + j;
          std::memcpy(&v[j], &bits, sizeof(bits));
        }
        std::ranges::fill(m, numerator);
        std::ranges::fill(p, 0.0F);
        // The slots stay: (1 - beta) is 0. The step is m / sqrt(v).
        update_kernels(static_cast<CpuIsa>(i))
            .f32[kAdam]({.parameter = p.data(),
                         .gradient = zeros.data(),
                         .slots = {m.data(), v.data()},
                         .copy = nullptr,
                         .size = kBlock,
                         .gradient_scale = 1,
                         .clip_limit = std::numeric_limits<float>::infinity(),
                         .weight_decay = 0,
                         .learning_rate = 0,
                         .constants = {1, 0, 0, 0}});
        if (reference.empty()) reference = p;
        ASSERT_EQ(std::memcmp(p.data(), reference.data(), kBlock * sizeof(float)), 0)
            << "instruction set " << i << ", from " << start << ", " << numerator;
      }
    }
  }
}

TYPED_TEST(UpdateRuleTest, EqualsTheTensorForm) {
  for (const auto& [label, rule] : every_rule()) {
    State<TypeParam> state(*rule, 83, 2);
    const auto options = at::TensorOptions().dtype(c10::CppTypeToScalarType<TypeParam>::value);
    const auto tensor = [&](std::vector<TypeParam>& v) {
      return at::from_blob(v.data(), {83}, options).clone();
    };
    at::Tensor parameter = tensor(state.parameter);
    const at::Tensor gradient = tensor(state.gradient);
    std::vector<at::Tensor> slots;
    for (auto& slot : state.slots) slots.push_back(tensor(slot));
    for (int64_t step = 0; step < 4; ++step) {
      const StepScalars scalars{0.05, step};
      auto span = state.span(0, 83);
      UpdateModifiers modifiers;
      if (step > 0) {
        with_modifiers(span);
        modifiers = {span.gradient_scale, span.clip_value, span.weight_decay};
      }
      if (step == 3) span.gradient = nullptr;
      rule->apply(span, scalars);
      rule->apply(parameter, step == 3 ? at::Tensor() : gradient, slots, modifiers, scalars);
    }
    const double tolerance = sizeof(TypeParam) == 4 ? 3e-5 : 1e-12;
    EXPECT_TRUE(at::allclose(tensor(state.parameter), parameter, tolerance, tolerance)) << label;
    for (size_t s = 0; s < slots.size(); ++s) {
      EXPECT_TRUE(at::allclose(tensor(state.slots[s]), slots[s], tolerance, tolerance))
          << label << " slot " << s;
    }
  }
}

/// Rules of whole variables, of several shapes: long enough for several blocks, and of odd sizes.
TYPED_TEST(UpdateRuleTest, WholeVariablesEqualTheTensorForm) {
  const auto options = at::TensorOptions().dtype(c10::CppTypeToScalarType<TypeParam>::value);
  for (const auto& rule :
       {LambRule{}.make(), LARSRule{}.make(), MuonRule{}.make(), AdafactorRule{}.make()}) {
    EXPECT_TRUE(rule->whole_variables());
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{7}, {3, 5}, {90, 117}, {2, 3, 4, 5}}) {
      if (rule->name() == "muon" && shape.size() != 2) continue;
      State<TypeParam> state(*rule, c10::multiply_integers(shape), 6);
      std::vector<at::Tensor> slots;
      for (size_t s = 0; s < state.slots.size(); ++s) {
        const auto slot_shape = rule->slot_shape(static_cast<int>(s), shape);
        state.slots[s].resize(static_cast<size_t>(c10::multiply_integers(slot_shape)));
        slots.push_back(at::zeros(slot_shape, options));
      }
      const auto tensor = [&](std::vector<TypeParam>& v, at::IntArrayRef sizes) {
        return at::from_blob(v.data(), sizes, options).clone();
      };
      at::Tensor parameter = tensor(state.parameter, shape);
      const at::Tensor gradient = tensor(state.gradient, shape);
      for (int64_t step = 0; step < 4; ++step) {
        const StepScalars scalars{0.05, step};
        auto span = state.span(0, state.size());
        span.sizes = shape;
        UpdateModifiers modifiers;
        if (step > 0) {
          with_modifiers(span);
          modifiers = {span.gradient_scale, span.clip_value, span.weight_decay};
        }
        if (step == 3) span.gradient = nullptr;
        rule->apply(span, scalars);
        rule->apply(parameter, step == 3 ? at::Tensor() : gradient, slots, modifiers, scalars);
      }
      const double tolerance = sizeof(TypeParam) == 4 ? 3e-5 : 1e-12;
      EXPECT_TRUE(at::allclose(tensor(state.parameter, shape), parameter, tolerance, tolerance))
          << rule->name() << shape;
      for (size_t s = 0; s < slots.size(); ++s) {
        EXPECT_TRUE(
            at::allclose(tensor(state.slots[s], slots[s].sizes()), slots[s], tolerance, tolerance))
            << rule->name() << shape << " slot " << s;
      }
    }
  }
}

TEST(UpdateRuleInterfaceTest, TheMovingAverageMovesByItsRate) {
  std::vector<double> average = {1, 2}, weights = {3, -2};
  UpdateSpan<double> span{.parameter = average.data(), .gradient = weights.data(), .size = 2};
  MovingAverageRule{}.make()->apply(span, {.learning_rate = 0.25});
  EXPECT_EQ(average, (std::vector<double>{1.5, 1}));
  at::Tensor tensor = at::full({2}, 4.0);
  std::vector<at::Tensor> none;
  MovingAverageRule{}.make()->apply(tensor, at::zeros({2}), none, {}, {.learning_rate = 0.25});
  EXPECT_TRUE(tensor.equal(at::full({2}, 3.0)));
}

TYPED_TEST(UpdateRuleTest, NoGradientEqualsZeros) {
  for (const auto& [label, rule] : every_rule()) {
    State<TypeParam> absent(*rule, 37, 3), zeros(*rule, 37, 3);
    bool unchanged = true;
    for (int64_t step = 0; step < 3; ++step) {
      auto first = absent.span(0, 37), second = zeros.span(0, 37);
      const State<TypeParam> before = absent;
      if (step != 1) {  // before and after a step with a gradient
        first.gradient = nullptr;
        std::fill(zeros.gradient.begin(), zeros.gradient.end(), TypeParam(0));
      } else {
        zeros.gradient = absent.gradient;
      }
      rule->apply(first, {0.1, step});
      rule->apply(second, {0.1, step});
      if (step != 1) unchanged = unchanged && absent.same_bits(before);
    }
    EXPECT_TRUE(absent.same_bits(zeros)) << label;
    EXPECT_EQ(unchanged, rule->zero_gradient_is_identity()) << label;
  }
}

TYPED_TEST(UpdateRuleTest, NeutralModifiersChangeNoBit) {
  const auto rule = SGDRule{}.make();
  State<TypeParam> a(*rule, 100, 4), b(*rule, 100, 4);
  rule->apply(a.span(0, 100), {0.1, 0});
  auto span = b.span(0, 100);
  span.clip_value = 1e30;
  rule->apply(span, {0.1, 0});
  for (size_t i = 0; i < 100; ++i) {
    const State<TypeParam> start(*rule, 100, 4);
    EXPECT_EQ(a.parameter[i], start.parameter[i] - start.gradient[i] * TypeParam(0.1));
  }
  EXPECT_TRUE(a.same_bits(b));
}

TEST(UpdateRuleInterfaceTest, NamesSlotsAsKerasDoes) {
  const auto adam = AdamRule{.amsgrad = true}.make();
  EXPECT_EQ(adam->name(), "adam");
  ASSERT_EQ(adam->num_slots(), 3);
  EXPECT_EQ(adam->slot_name(0), "momentum");
  EXPECT_EQ(adam->slot_name(1), "velocity");
  EXPECT_EQ(adam->slot_name(2), "velocity_hat");
  EXPECT_EQ(AdagradRule{}.make()->slot_initial_value(0), 0.1);
  EXPECT_EQ(FtrlRule{}.make()->slot_initial_value(0), 0.1);
  EXPECT_EQ(FtrlRule{}.make()->slot_initial_value(1), 0);
  const RMSpropRule centered = {.momentum = 0.1, .centered = true};
  EXPECT_EQ(centered.make()->slot_name(2), "average_gradient");
  EXPECT_EQ(AdadeltaRule{}.make()->slot_name(1), "accumulated_delta_var");
  EXPECT_EQ(SGDRule{}.make()->num_slots(), 0);
  EXPECT_EQ(AdamaxRule{}.make()->slot_name(1), "norm");
  EXPECT_EQ(NadamRule{}.make()->carried_name(), "u_product");
  EXPECT_EQ(AdafactorRule{}.make()->slot_shape(0, {2, 3, 5}), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(AdafactorRule{}.make()->slot_shape(1, {2, 3, 5}), (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(AdafactorRule{}.make()->slot_shape(0, {5}), std::vector<int64_t>{});
}

TEST(UpdateRuleInterfaceTest, RefusesValuesOutsideTheirRange) {
  expect_error([] { SGDRule{.momentum = 1.5}.make(); }, ErrorCode::kInvalidArgument,
               "[update_rule] sgd: got momentum 1.5; expected a value in [0, 1]");
  expect_error([] { FtrlRule{.beta = -1}.make(); }, ErrorCode::kInvalidArgument,
               "[update_rule] ftrl: got beta -1; expected 0 or more");
  expect_error_containing([] { LionRule{.beta_1 = 0}.make(); }, ErrorCode::kInvalidArgument,
                          "[update_rule] lion: got beta_1 0; expected more");
  expect_error([] { AdafactorRule{.clip_threshold = 0}.make(); }, ErrorCode::kInvalidArgument,
               "[update_rule] adafactor: got clip_threshold 0; expected more than 0");
  expect_error([] { AdamRule{}.make()->slot_name(2); }, ErrorCode::kOutOfRange,
               "[update_rule] slot_name: got slot 2 of adam, which has 2");
  expect_error(
      [] {
        at::Tensor parameter = at::zeros({2});
        std::vector<at::Tensor> slots;
        AdamRule{}.make()->apply(parameter, at::zeros({2}), slots, UpdateModifiers{},
                                 StepScalars{});
      },
      ErrorCode::kInvalidArgument, "[update_rule] apply: got 0 slots for adam; expected 2");
}

TEST(UpdateRuleInterfaceTest, TensorFormTakesHalfPrecisionAndAnyStrides) {
  const auto rule = AdamRule{}.make();
  at::Tensor parameter = at::ones({4, 3}, at::kBFloat16).t();
  std::vector<at::Tensor> slots = {at::zeros({3, 4}, at::kBFloat16),
                                   at::zeros({3, 4}, at::kBFloat16)};
  rule->apply(parameter, at::ones({3, 4}, at::kBFloat16), slots, {}, {0.5, 0});
  EXPECT_NEAR(parameter.min().item<double>(), 0.5, 0.01);
  EXPECT_NEAR(parameter.max().item<double>(), 0.5, 0.01);
}

}  // namespace
}  // namespace strata::tensor
