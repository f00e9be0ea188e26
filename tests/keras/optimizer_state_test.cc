// State in Keras's order against tests/golden/keras_optimizer_state.json.

#include "strata/keras/optimizer_state.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "strata/core/file_system.h"
#include "strata/core/json.h"
#include "strata/keras/saving.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/strategy.h"
#include "support/expect_error.h"
#include "support/replicas.h"
#include "support/source_path.h"

namespace strata::keras {
namespace {

Json read_golden(const char* name) {
  return Json::parse(read_file(test::source_path(str_cat("tests/golden/", name))));
}

const Json& golden() {
  static const Json json = read_golden("keras_optimizer_state.json");
  return json;
}

/// Of Keras on TensorFlow, and those that are right on JAX alone; start and gradients are the same.
std::vector<Json> all_cases() {
  std::vector<Json> cases = golden().at("cases").as_array();
  const Json on_jax = read_golden("keras_optimizer_state_jax.json");
  for (const Json& test : on_jax.at("cases").as_array()) cases.push_back(test);
  return cases;
}

at::Tensor tensor(const Json& json, at::ScalarType dtype = at::kFloat) {
  std::vector<double> values;
  for (const Json& value : json.at("data").as_array()) values.push_back(value.as_double());
  std::vector<int64_t> shape;
  for (const Json& size : json.at("shape").as_array()) shape.push_back(size.as_int());
  return at::tensor(values, at::kDouble).to(dtype).view(shape);
}

std::vector<at::Tensor> tensors(const Json& list) {
  std::vector<at::Tensor> result;
  for (const Json& each : list.as_array()) {
    const bool integer = each.find("dtype") != nullptr && each.at("dtype").as_string() == "int64";
    result.push_back(tensor(each, integer ? at::kLong : at::kFloat));
  }
  return result;
}

/// The golden variables, of which the optimizer gets them in another order.
struct Trained {
  Trained(Strategy& strategy_of, const Json& config, const std::vector<at::Tensor>& start)
      : strategy(strategy_of), optimizer(optimizer_from_config(config)) {
    strategy.scope([&] {
      for (size_t i = 0; i < start.size(); ++i) {
        // Muon's exclude_layers are of names.
        const std::string& name = golden().at("names").as_array()[i].as_string();
        variables.emplace_back(start[i], VariableOptions{.name = name});
      }
    });
    optimizer->build({variables[2], variables[0], variables[1]});
  }
  void step(size_t number) {
    const std::vector<at::Tensor> whole = tensors(golden().at("gradients").as_array()[number]);
    const int replicas = strategy.num_replicas_in_sync();
    strategy.run([&] {
      const int id = get_replica_context()->replica_id_in_sync_group();
      const double share = replicas == 1 ? 1 : id == 0 ? 0.5 : 0.25;
      const auto part = [&](size_t i) { return at::mul(whole[i], share); };
      optimizer->apply_gradients({part(2), part(0), part(1)});
    });
  }

  Strategy& strategy;
  std::unique_ptr<optimizers::Optimizer> optimizer;
  std::vector<Variable> variables;
};

void expect_near(const at::Tensor& got, const at::Tensor& wanted, const std::string& what) {
  ASSERT_EQ(got.scalar_type(), wanted.scalar_type()) << what;
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  EXPECT_TRUE(at::allclose(got.to(at::kDouble), wanted.to(at::kDouble), 1e-5, 1e-6)) << what << "\n"
                                                                                     << got << "\n"
                                                                                     << wanted;
}

void expect_keras(Strategy& strategy) {
  for (const Json& test : all_cases()) {
    const Json& config = test.at("config");
    const std::string name = config.dump();
    std::vector<at::Tensor> state = tensors(test.at("state"));
    state[0] = state[0].to(at::kLong);  // the count of steps, which is int32 on JAX
    const std::vector<at::Tensor> weights = tensors(test.at("weights"));
    const std::vector<at::Tensor> next = tensors(test.at("next_weights"));

    // Ours after the same steps.
    Trained actual(strategy, config, tensors(golden().at("start")));
    for (size_t step = 0; step < 3; ++step) actual.step(step);
    const std::vector<at::Tensor> exported = export_state(*actual.optimizer, actual.variables);
    ASSERT_EQ(exported.size(), state.size()) << name;
    for (size_t i = 0; i < state.size(); ++i) {
      expect_near(exported[i], state[i], str_cat("variable ", i, " of ", name));
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      expect_near(actual.variables[i].value().detach(), weights[i], name);
    }

    // Keras's, taken over.
    Trained taken(strategy, config, weights);
    ASSERT_TRUE(import_state(*taken.optimizer, taken.variables, state)) << name;
    EXPECT_EQ(taken.optimizer->iterations(), 3);
    const std::vector<at::Tensor> again = export_state(*taken.optimizer, taken.variables);
    ASSERT_EQ(again.size(), state.size());
    for (size_t i = 0; i < state.size(); ++i) {
      EXPECT_EQ(again[i].scalar_type(), state[i].scalar_type()) << i << " of " << name;
      EXPECT_TRUE(again[i].equal(state[i])) << i << " of " << name;
    }
    taken.step(3);
    for (size_t i = 0; i < next.size(); ++i) {
      expect_near(taken.variables[i].value().detach(), next[i], "next step of " + name);
    }
  }
}

TEST(OptimizerStateTest, IsKerasAndTheNextStepToo) { expect_keras(default_strategy()); }

TEST(OptimizerStateTest, IsKerasOnThreeReplicas) {
  set_logical_devices("cpu", 3);
  MirroredStrategy strategy(
      {.devices = cpus(3), .replicas = {.threads_per_replica = 1, .share_storage = false}});
  expect_keras(strategy);
}

TEST(OptimizerStateTest, OfACompiledModelThatWasNeverTrained) {
  const std::vector<Variable> variables = {Variable(at::ones({2}))};
  optimizers::Adam fresh({.learning_rate = 0.5});
  const std::vector<at::Tensor> two = export_state(fresh, {});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[1].item<double>(), 0.5);
  optimizers::Adam built(variables, {.learning_rate = 0.1});
  EXPECT_TRUE(import_state(built, variables, two));
  EXPECT_EQ(built.learning_rate(), 0.5);
  EXPECT_EQ(export_state(built, variables).size(), 4U);
}

TEST(OptimizerStateTest, AnotherOptimizersIsLeft) {
  const std::vector<Variable> variables = {Variable(at::ones({2}))};
  const optimizers::Adam adam(variables);
  const Variable other(at::ones({2}));
  optimizers::SGD sgd(std::vector<Variable>{other}, {.learning_rate = 0.5, .momentum = 0.9});
  EXPECT_FALSE(import_state(sgd, {&other, 1}, export_state(adam, variables)));
  EXPECT_EQ(sgd.learning_rate(), 0.5);
}

TEST(OptimizerStateTest, ErrorsNameWhatDoesNotFit) {
  const std::vector<Variable> variables = {Variable(at::ones({2}))};
  optimizers::Adam adam(variables);
  std::vector<at::Tensor> state = export_state(adam, variables);
  state[2] = at::ones({3});
  expect_error([&] { import_state(adam, variables, state); }, ErrorCode::kInvalidArgument,
               "[keras] state of adam: variable 2 (momentum) has shape [3]; expected [2]");
  expect_error([&] { export_state(adam, {}); }, ErrorCode::kInvalidArgument,
               "[keras] state of adam: got 0 trainable variables; expected the optimizer's 1");
  const std::vector<Variable> others = {Variable(at::ones({2}), {.name = "w"})};
  expect_error([&] { export_state(adam, others); }, ErrorCode::kInvalidArgument,
               "[keras] state of adam: got 'w', which the optimizer does not train");
}

}  // namespace
}  // namespace strata::keras
