#include "tensor/rule_json.h"

#include <gtest/gtest.h>

#include <string>

#include "strata/core/error.h"
#include "support/expect_error.h"
#include "tensor/update_rule.h"

namespace strata::tensor {
namespace {

TEST(RuleJsonTest, ARuleComesBackWithItsOptions) {
  const RuleOptions adam = AdamRule{.beta_1 = 0.1, .epsilon = 1e-300, .amsgrad = true};
  const Json json = Json::parse(rule_to_json(adam).dump());
  EXPECT_EQ(json.at("rule").as_string(), "adam");
  const auto back = std::get<AdamRule>(rule_from_json(json));
  EXPECT_EQ(back.beta_1, 0.1);
  EXPECT_EQ(back.beta_2, AdamRule().beta_2);
  EXPECT_EQ(back.epsilon, 1e-300);
  EXPECT_TRUE(back.amsgrad);
}

TEST(RuleJsonTest, EveryRuleComesBackAsItself) {
  const RuleOptions all[] = {SGDRule{.momentum = 0.5, .nesterov = true},
                             AdagradRule{.epsilon = 0.5},
                             LegacyAdagradRule{.epsilon = 0.5},
                             RMSpropRule{.rho = 0.5, .centered = true},
                             LegacyRMSpropRule{.rho = 0.5, .centered = true},
                             AdadeltaRule{.rho = 0.5},
                             FtrlRule{.beta = 0.5},
                             AdamaxRule{.beta_2 = 0.5},
                             NadamRule{.epsilon = 0.5},
                             LionRule{.beta_1 = 0.5},
                             LambRule{.beta_1 = 0.5},
                             LARSRule{.eeta = 0.5, .nesterov = true},
                             MuonRule{.ns_steps = 3, .nesterov = false},
                             ScheduleFreeAdamWRule{.warmup_steps = 7},
                             AdafactorRule{.clip_threshold = 0.5},
                             MovingAverageRule{}};
  for (const RuleOptions& options : all) {
    const std::string text = rule_to_json(options).dump();
    const RuleOptions back = rule_from_json(Json::parse(text));
    EXPECT_EQ(back.index(), options.index()) << text;
    EXPECT_EQ(rule_to_json(back).dump(), text);
    EXPECT_EQ(rule_to_json(make_rule(back)->options()).dump(), text);
  }
}

/// Servers and workers of different builds read each other's rules.
TEST(RuleJsonTest, TheTextOfEachRuleIsTheProtocols) {
  std::string text;
  for (const RuleRow& row : rule_rows()) text += rule_to_json(row.defaults).dump() + '\n';
  EXPECT_EQ(text, R"({"rule":"sgd","momentum":0.0,"nesterov":false}
{"rule":"adam","beta_1":0.9,"beta_2":0.999,"epsilon":1e-07,"amsgrad":false}
{"rule":"adamax","beta_1":0.9,"beta_2":0.999,"epsilon":1e-07}
{"rule":"nadam","beta_1":0.9,"beta_2":0.999,"epsilon":1e-07}
{"rule":"lamb","beta_1":0.9,"beta_2":0.999,"epsilon":1e-07}
{"rule":"lars","momentum":0.9,"eeta":0.001,"epsilon":0.0,"nesterov":false}
{"rule":"lion","beta_1":0.9,"beta_2":0.99}
{"rule":"muon","adam_beta_1":0.9,"adam_beta_2":0.999,"epsilon":1e-07,"adam_lr_ratio":1.0,"muon_a":3.4445,"muon_b":-4.775,"muon_c":2.0315,"momentum":0.95,"ns_steps":5,"nesterov":true,"rms_rate":0.2}
{"rule":"schedule_free_adamw","beta_1":0.9,"beta_2":0.999,"epsilon":1e-08,"warmup_steps":0}
{"rule":"adagrad","initial_accumulator_value":0.1,"epsilon":1e-07}
{"rule":"legacy_adagrad","initial_accumulator_value":0.1,"epsilon":1e-07}
{"rule":"adadelta","rho":0.95,"epsilon":1e-07}
{"rule":"adafactor","beta_2_decay":-0.8,"epsilon_1":1e-30,"epsilon_2":0.001,"clip_threshold":1.0}
{"rule":"ftrl","learning_rate_power":-0.5,"initial_accumulator_value":0.1,"l1_regularization_strength":0.0,"l2_regularization_strength":0.0,"l2_shrinkage_regularization_strength":0.0,"beta":0.0}
{"rule":"rmsprop","rho":0.9,"momentum":0.0,"epsilon":1e-07,"centered":false}
{"rule":"legacy_rmsprop","rho":0.9,"momentum":0.0,"epsilon":1e-07,"centered":false}
{"rule":"moving_average"}
)");
}

TEST(RuleJsonTest, EachRuleHasARowOfItsOwn) {
  EXPECT_EQ(rule_rows().size(), std::variant_size_v<RuleOptions>);
  for (const RuleRow& row : rule_rows()) {
    EXPECT_EQ(&row_of(row.defaults), &row);
    EXPECT_EQ(make_rule(row.defaults)->name(), row.name);
  }
}

TEST(RuleJsonTest, WhatIsLeftOutHasItsDefault) {
  const auto sgd = std::get<SGDRule>(rule_from_json(Json::parse(R"({"rule":"sgd"})")));
  EXPECT_EQ(sgd.momentum, 0);
}

TEST(RuleJsonTest, UnknownRulesAndOptionsAreNamed) {
  expect_error_containing([] { (void)rule_from_json(Json::parse(R"({"rule":"adm"})")); },
                          ErrorCode::kInvalidArgument,
                          "got the rule \"adm\"; there are: sgd, adam");
  expect_error_containing([] { (void)rule_from_json(Json::parse(R"({"rule":"adam","beta":1})")); },
                          ErrorCode::kInvalidArgument,
                          "\"beta\" for adam; it has: beta_1, beta_2, epsilon, amsgrad");
}

}  // namespace
}  // namespace strata::tensor
