#include "strata/keras/saving.h"

#include <gtest/gtest.h>

#include "strata/core/file_system.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/optim/optimizer.h"
#include "strata/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/source_path.h"

namespace strata::keras {
namespace {

using optimizers::AnyOptimizer;

/// Equal but for 1 and 1.0, and for numbers that Keras keeps in float32.
bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    return static_cast<float>(a.as_double()) == static_cast<float>(b.as_double());
  }
  if (a.is_object() && b.is_object()) {
    if (a.as_object().size() != b.as_object().size()) return false;
    for (const auto& [key, value] : a.as_object()) {
      if (b.find(key) == nullptr || !same(value, b.at(key))) return false;
    }
    return true;
  }
  if (a.is_array() && b.is_array()) {
    if (a.as_array().size() != b.as_array().size()) return false;
    for (size_t i = 0; i < a.as_array().size(); ++i) {
      if (!same(a.as_array()[i], b.as_array()[i])) return false;
    }
    return true;
  }
  return a == b;
}

TEST(OptimizerConfigTest, WhatKerasWroteIsReadAndWrittenAgain) {
  const Json golden =
      Json::parse(read_file(test::source_path("tests/golden/keras_optimizer_state.json")));
  for (const Json& test : golden.at("cases").as_array()) {
    const Json& config = test.at("config");
    const Json again = to_config(*optimizer_from_config(config));
    EXPECT_TRUE(same(again, config))
        << "got      " << again.dump() << "\nexpected " << config.dump();
  }
  EXPECT_GE(golden.at("cases").as_array().size(), 30U);
}

TEST(OptimizerConfigTest, NamesMakeOptimizersWithKerasDefaults) {
  EXPECT_EQ(optimizer_from_config("adam")->learning_rate(), 1e-3);
  EXPECT_EQ(optimizer_from_config("SGD")->learning_rate(), 0.01);
  EXPECT_EQ(to_config(*optimizer_from_config("rmsprop")).at("class_name").as_string(), "RMSprop");
  const Json config = to_config(*optimizer_from_config("adamw")).at("config");
  EXPECT_EQ(config.at("weight_decay").as_double(), 0.004);
  EXPECT_EQ(config.at("name").as_string(), "adam_w");
  EXPECT_TRUE(config.at("clipnorm").is_null());
}

TEST(OptimizerConfigTest, TheRateIsTodaysAndOptionsThatAreAbsentHaveDefaults) {
  const auto adam = optimizer_from_config(
      Json::parse(R"({"class_name": "Adam", "config": {"beta_1": 0.5, "decay": 0.0}})"));
  adam->set_learning_rate(0.25);
  const Json config = to_config(*adam).at("config");
  EXPECT_EQ(config.at("learning_rate").as_double(), 0.25);
  EXPECT_EQ(config.at("beta_1").as_double(), 0.5);
  EXPECT_EQ(config.at("beta_2").as_double(), 0.999);
}

TEST(OptimizerConfigTest, LarsIsWrittenAndReadWithItsNames) {
  const optimizers::LARS lars({.learning_rate = 2,
                               .momentum = 0.8,
                               .eeta = 0.01,
                               .nesterov = true,
                               .skip_list = {"bias", "gamma"},
                               .weight_decay = 1e-4});
  const Json json = to_config(lars);
  EXPECT_EQ(json.at("class_name").as_string(), "LARS");
  const auto back = optimizer_from_config(json);
  EXPECT_EQ(to_config(*back).dump(), json.dump());
  const auto& options = dynamic_cast<const optimizers::LARS&>(*back).options();
  EXPECT_EQ(options.skip_list, (std::vector<std::string>{"bias", "gamma"}));
  EXPECT_EQ(options.eeta, 0.01);
  EXPECT_EQ(options.weight_decay, 1e-4);
}

TEST(OptimizerConfigTest, MuonsNoneIsOff) {
  const auto muon = optimizer_from_config(Json::parse(
      R"({"class_name": "Muon", "config": {"rms_rate": null, "adam_weight_decay": null}})"));
  const auto& options = dynamic_cast<const optimizers::Muon&>(*muon).options();
  EXPECT_EQ(options.rms_rate, 0);
  EXPECT_EQ(options.adam_weight_decay, 0);
  const Json config = to_config(*muon).at("config");
  EXPECT_TRUE(config.at("rms_rate").is_null());
  EXPECT_TRUE(config.at("adam_weight_decay").is_null());
  EXPECT_EQ(config.at("exclude_layers").as_array().size(), 0U);
}

class Mine : public optimizers::Optimizer {
 public:
  Mine() : Optimizer(tensor::SGDRule{}, {}) {}
};

TEST(OptimizerConfigTest, ErrorsNameOptimizerAndOption) {
  const auto read = [](const char* text) { optimizer_from_config(Json::parse(text)); };
  expect_error(
      [&] { read(R"("mine")"); }, ErrorCode::kUnimplemented,
      "[keras] config of an optimizer: got mine; expected one of Adadelta, Adafactor, "
      "Adagrad, Adam, AdamW, Adamax, Ftrl, LARS, Lamb, Lion, LossScaleOptimizer, Muon, Nadam, "
      "RMSprop, SGD, ScheduleFreeAdamW");
  expect_error_containing([&] { read(R"({"class_name": "Adam", "config": {"colour": 1}})"); },
                          ErrorCode::kUnimplemented,
                          "[keras] config of Adam: got option 'colour' = 1");
  expect_error_containing([&] { read(R"({"class_name": "SGD", "config": {"momentum": "much"}})"); },
                          ErrorCode::kDataLoss,
                          "[keras] config of SGD: option 'momentum' = \"much\"");
  expect_error_containing([&] { read(R"({"class_name": "SGD", "config": {"decay": 0.1}})"); },
                          ErrorCode::kUnimplemented,
                          "[keras] config of SGD: got option 'decay' = 0.1");
  expect_error_containing(
      [&] {
        read(R"({"class_name": "SGD", "config": {"learning_rate": {"class_name": "Mine"}}})");
      },
      ErrorCode::kUnimplemented,
      "config of a learning rate: got schedule Mine; expected a number, ExponentialDecay, ");
  expect_error_containing(
      [&] {
        read(
            R"({"class_name": "SGD", "config": {"learning_rate": {"class_name": "CosineDecay", "config": {"decay_steps": 3}}}})");
      },
      ErrorCode::kDataLoss,
      "[keras] config of CosineDecay: got no option 'initial_learning_rate', which has no default");
  expect_error(
      [&] { read(R"("lossscaleoptimizer")"); }, ErrorCode::kDataLoss,
      "[keras] config of LossScaleOptimizer: got no option 'inner_optimizer', which has no "
      "default");
  expect_error(
      [] { to_config(Mine()); }, ErrorCode::kUnimplemented,
      "[keras] config of optimizer sgd: got a user-defined class, which Keras does not have");
  const optimizers::SGD by_function(
      {.learning_rate = schedules::Schedule([](int64_t) { return 0.1; })});
  expect_error_containing([&] { to_config(by_function); }, ErrorCode::kUnimplemented,
                          "got a user-defined function, which no file can hold");
}

struct OnlyAnOptimizer {
  AnyOptimizer optimizer = {};
};

TEST(AnyOptimizerTest, IsMadeFromOptimizersPointersAndNames) {
  EXPECT_FALSE(OnlyAnOptimizer().optimizer);
  const OnlyAnOptimizer moved{.optimizer = optimizers::Adam({.learning_rate = 0.5})};
  EXPECT_EQ(moved.optimizer->learning_rate(), 0.5);
  EXPECT_EQ(to_config(*moved.optimizer).at("class_name").as_string(), "Adam");
  const OnlyAnOptimizer named{.optimizer = "RMSprop"};
  EXPECT_EQ(named.optimizer->name(), "rmsprop");
  const auto kept = std::make_shared<optimizers::SGD>();
  const OnlyAnOptimizer shared{.optimizer = kept};
  kept->set_learning_rate(0.125);
  EXPECT_EQ(shared.optimizer->learning_rate(), 0.125);
  const OnlyAnOptimizer owned{.optimizer = optimizer_from_config("ftrl")};
  EXPECT_EQ((*owned.optimizer).name(), "ftrl");
  const OnlyAnOptimizer scaled{
      .optimizer = optimizers::LossScaleOptimizer(optimizers::Adam({.learning_rate = 0.25}))};
  EXPECT_EQ(scaled.optimizer->learning_rate(), 0.25);
  expect_error([] { AnyOptimizer("adm"); }, ErrorCode::kInvalidArgument,
               "[optimizers] make_optimizer: got 'adm'; expected one of adadelta, adafactor, "
               "adagrad, adam, adamax, adamw, ftrl, lamb, lars, lion, muon, nadam, rmsprop, "
               "schedulefreeadamw, sgd");
}

}  // namespace
}  // namespace strata::keras
