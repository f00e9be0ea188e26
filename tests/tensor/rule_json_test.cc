#include "tensor/rule_json.h"

#include <gtest/gtest.h>

#include <string>

#include "strata/core/error.h"
#include "support/expect_error.h"

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
                             RMSpropRule{.rho = 0.5, .centered = true},
                             AdadeltaRule{.rho = 0.5},
                             FtrlRule{.beta = 0.5},
                             AdamaxRule{.beta_2 = 0.5},
                             NadamRule{.epsilon = 0.5},
                             LionRule{.beta_1 = 0.5},
                             LambRule{.beta_1 = 0.5},
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
