#include "strata/optim/optimizers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/join.h"
#include "strata/optim/optimizer.h"
#include "tensor/update_rule.h"

namespace strata::optimizers {
namespace {

template <typename... O>
std::vector<std::string> check_each(OptimizerList<O...>) {
  std::vector<std::string> names;
  const auto check = [&]<typename T>(const T& optimizer) {
    const tensor::RuleRow& row = tensor::row_of(optimizer.rule().options());
    EXPECT_EQ(std::ranges::count(row.class_names, T::class_name()), 1) << T::class_name();
    EXPECT_EQ(optimizer.name(), row.name);
    EXPECT_EQ(make_optimizer(T::class_name())->name(), row.name);
    names.emplace_back(T::class_name());
  };
  (check(O()), ...);
  return names;
}

TEST(OptimizersTest, EachClassIsInTheRowOfItsRule) {
  std::vector<std::string> names = check_each(AllOptimizers()), in_rows;
  for (const tensor::RuleRow& row : tensor::rule_rows()) {
    in_rows.insert(in_rows.end(), row.class_names.begin(), row.class_names.end());
  }
  std::ranges::sort(names);
  std::ranges::sort(in_rows);
  EXPECT_EQ(join(names), join(in_rows));
}

TEST(OptimizersTest, OptionsReachTheRuleAndTheStep) {
  const RMSprop optimizer({.learning_rate = 0.5,
                           .rho = 0.25,
                           .momentum = 0.125,
                           .centered = true,
                           .weight_decay = 0.75,
                           .clipvalue = 2,
                           .use_ema = true,
                           .ema_momentum = 0.625,
                           .ema_overwrite_frequency = 3,
                           .loss_scale_factor = 4,
                           .gradient_accumulation_steps = 5});
  const auto rule = std::get<tensor::RMSpropRule>(optimizer.rule().options());
  EXPECT_EQ(rule.rho, 0.25);
  EXPECT_EQ(rule.momentum, 0.125);
  EXPECT_EQ(rule.epsilon, 1e-7);
  EXPECT_TRUE(rule.centered);
  const OptimizerOptions& common = optimizer.common_options();
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
  EXPECT_EQ(common.weight_decay, 0.75);
  EXPECT_EQ(common.clipnorm, 0);
  EXPECT_EQ(common.clipvalue, 2);
  EXPECT_EQ(common.global_clipnorm, 0);
  EXPECT_TRUE(common.use_ema);
  EXPECT_EQ(common.ema_momentum, 0.625);
  EXPECT_EQ(common.ema_overwrite_frequency, 3);
  EXPECT_EQ(common.loss_scale_factor, 4);
  EXPECT_EQ(common.gradient_accumulation_steps, 5);
  EXPECT_EQ(optimizer.options().momentum, 0.125);
  EXPECT_EQ(Adam({.clipnorm = 1}).common_options().clipnorm, 1);
  EXPECT_EQ(AdamW().common_options().weight_decay, 0.004);
  EXPECT_EQ(Lion({.global_clipnorm = 1}).common_options().global_clipnorm, 1);
}

/// What is left out of adaptation and decay moves as by SGD; the rest by its norm.
TEST(OptimizersTest, LarsLeavesOutWhatItsSkipListNames) {
  const auto variable = [](const char* name) {
    return Variable(at::full({2}, 3.0, at::kDouble), {.name = name});
  };
  const std::vector<Variable> variables = {variable("dense/kernel"), variable("dense/bias"),
                                           variable("norm/gamma")};
  const double norm = 3 * std::sqrt(2.0), decay = 0.1;
  const LARSOptions options{.learning_rate = 0.5,
                            .momentum = 0,
                            .eeta = 0.01,
                            .skip_list = {"bias", "norm/"},
                            .weight_decay = decay};
  LARS lars(variables, options);
  const at::Tensor gradient = at::tensor({3.0, 4.0}, at::kDouble);
  lars.apply_gradients({gradient, gradient, gradient});
  const double ratio = 0.01 * norm / (5 + decay * norm);
  const at::Tensor adapted = 3 - 0.5 * ratio * (gradient + decay * 3);
  EXPECT_TRUE(at::allclose(variables[0].value(), adapted, 1e-14, 1e-14));
  EXPECT_TRUE(at::allclose(variables[1].value(), 3 - 0.5 * gradient, 1e-14, 1e-14));
  EXPECT_TRUE(at::allclose(variables[2].value(), 3 - 0.5 * gradient, 1e-14, 1e-14));

  // Left out of decay alone.
  const Variable undecayed = variable("undecayed");
  LARS other({.learning_rate = 0.5, .momentum = 0, .eeta = 0.01, .weight_decay = decay});
  other.exclude_from_weight_decay({"undecayed"});
  other.build({undecayed});
  other.apply_gradients({gradient});
  EXPECT_TRUE(
      at::allclose(undecayed.value(), 3 - 0.5 * (0.01 * norm / 5) * gradient, 1e-14, 1e-14));
}

/// Slots are counted where variables have not all the same ones.
TEST(OptimizersTest, MuonsSlotsAreWrittenWhereTheyAre) {
  const std::vector<Variable> variables = {
      Variable(at::ones({2}), {.name = "bias"}), Variable(at::ones({2, 3}), {.name = "kernel"}),
      Variable(at::ones({4, 2}), {.name = "embedding/embeddings"})};
  Muon muon(variables, {.use_ema = true});
  using Names = std::vector<std::string>;
  EXPECT_EQ(muon.slot_names(0), (Names{"momentum", "velocity", "average"}));
  EXPECT_EQ(muon.slot_names(1), (Names{"momentum", "average"}));
  EXPECT_EQ(muon.slot_names(2), (Names{"momentum", "velocity", "average"}));
  Names names;
  for (const auto& [name, slot] : muon.slots()) names.push_back(name);
  EXPECT_EQ(names, (Names{"bias/momentum", "bias/velocity", "bias/average", "kernel/momentum",
                          "kernel/average", "embedding/embeddings/momentum",
                          "embedding/embeddings/velocity", "embedding/embeddings/average"}));
  const std::vector<std::vector<int64_t>> shapes = {{2},    {2},    {2},    {2, 3},
                                                    {2, 3}, {4, 2}, {4, 2}, {4, 2}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    muon.set_slot(i, at::full(shapes[i], static_cast<double>(i)));
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_TRUE(muon.slots()[i].second.eq(static_cast<double>(i)).all().item<bool>()) << names[i];
  }
  muon.set_iterations(1);
  muon.finalize_variable_values();
  EXPECT_EQ(variables[0].value()[0].item<double>(), 2);
  EXPECT_EQ(variables[1].value()[0][0].item<double>(), 4);
  EXPECT_EQ(variables[2].value()[0][0].item<double>(), 7);
}

TEST(OptimizersTest, ScheduleFreesMomentumBeginsAsTheVariable) {
  const Variable variable(at::full({3}, 2.5), {.name = "v"});
  const ScheduleFreeAdamW adam(std::vector<Variable>{variable}, {});
  EXPECT_EQ(adam.slots()[0].first, "v/momentum");
  EXPECT_TRUE(adam.slots()[0].second.equal(variable.value()));
  EXPECT_EQ(adam.slots()[1].second.sum().item<double>(), 0);
}

// The names of version 0.1 are the same types.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST(OptimizersTest, DeprecatedNamesAreTheSameClasses) {
  EXPECT_TRUE((std::is_same_v<Sgd, SGD> && std::is_same_v<SgdOptions, SGDOptions>));
  EXPECT_TRUE((std::is_same_v<Rmsprop, RMSprop> && std::is_same_v<RmspropOptions, RMSpropOptions>));
  EXPECT_EQ(Sgd({.learning_rate = 0.25, .momentum = 0.5}).options().momentum, 0.5);
}
#pragma GCC diagnostic pop

}  // namespace
}  // namespace strata::optimizers
