#include "strata/optim/optimizers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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
