// The optimizers as a whole, clipping, weight decay and schedules included, against
// tests/golden/keras_optimizers.json: on one device, and with each gradient cut into three.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "optim/golden.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/default_strategy.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/replicas.h"

namespace strata::optimizers {
namespace {

using nlohmann::json;

template <typename O, typename Options>
std::unique_ptr<Optimizer> make(const json& given, Options options) {
  options.weight_decay = given.value("weight_decay", options.weight_decay);
  options.clipnorm = given.value("clipnorm", 0.0);
  options.clipvalue = given.value("clipvalue", 0.0);
  options.global_clipnorm = given.value("global_clipnorm", 0.0);
  if (given.contains("learning_rate")) {
    const json& rate = given["learning_rate"];
    if (rate.is_number()) {
      options.learning_rate = rate.get<double>();
    } else {
      EXPECT_EQ(rate["schedule"], "ExponentialDecay");
      const json& decay = rate["options"];
      options.learning_rate =
          schedules::ExponentialDecay{.initial_learning_rate = decay["initial_learning_rate"],
                                      .decay_steps = decay["decay_steps"],
                                      .decay_rate = decay["decay_rate"],
                                      .staircase = decay["staircase"]};
    }
  }
  return std::make_unique<O>(options);
}

template <typename O, typename Options>
std::unique_ptr<Optimizer> make_adam_like(const json& given, Options options) {
  options.beta_1 = given.value("beta_1", options.beta_1);
  options.beta_2 = given.value("beta_2", options.beta_2);
  options.epsilon = given.value("epsilon", options.epsilon);
  options.amsgrad = given.value("amsgrad", false);
  return make<O>(given, options);
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const json& given) {
  const auto take = [&](const char* key, double& option) { option = given.value(key, option); };
  if (name == "SGD") {
    SgdOptions options;
    take("momentum", options.momentum);
    options.nesterov = given.value("nesterov", false);
    return make<Sgd>(given, options);
  }
  if (name == "Adam") return make_adam_like<Adam>(given, AdamOptions{});
  if (name == "AdamW") return make_adam_like<AdamW>(given, AdamWOptions{});
  if (name == "Adagrad") {
    AdagradOptions options;
    take("initial_accumulator_value", options.initial_accumulator_value);
    take("epsilon", options.epsilon);
    return make<Adagrad>(given, options);
  }
  if (name == "RMSprop") {
    RmspropOptions options;
    take("rho", options.rho);
    take("momentum", options.momentum);
    take("epsilon", options.epsilon);
    options.centered = given.value("centered", false);
    return make<Rmsprop>(given, options);
  }
  if (name == "Adadelta") {
    AdadeltaOptions options;
    take("rho", options.rho);
    take("epsilon", options.epsilon);
    return make<Adadelta>(given, options);
  }
  EXPECT_EQ(name, "Ftrl");
  FtrlOptions options;
  take("learning_rate_power", options.learning_rate_power);
  take("initial_accumulator_value", options.initial_accumulator_value);
  take("l1_regularization_strength", options.l1_regularization_strength);
  take("l2_regularization_strength", options.l2_regularization_strength);
  take("l2_shrinkage_regularization_strength", options.l2_shrinkage_regularization_strength);
  take("beta", options.beta);
  return make<Ftrl>(given, options);
}

/// Largest |got - wanted| / max(|wanted|, 0.02).
double error_of(const at::Tensor& got, const json& wanted) {
  const at::Tensor expected = at::tensor(wanted.get<std::vector<double>>(), at::kDouble);
  const at::Tensor error = (got.detach().to(at::kDouble) - expected).abs();
  return (error / expected.abs().clamp_min(0.02)).max().item<double>();
}

struct Errors {
  double weights = 0, slots = 0;
};

Errors run_case(Strategy& strategy, const json& golden, const json& test) {
  const at::ScalarType dtype = test["dtype"] == "float32" ? at::kFloat : at::kDouble;
  const auto tensor = [&](const json& values) {
    return at::tensor(values.get<std::vector<double>>(), at::kDouble).to(dtype);
  };
  const std::vector<std::string> names = {"kernel", "bias"};
  std::vector<Variable> variables;
  strategy.scope([&] {
    for (const std::string& name : names) {
      variables.emplace_back(tensor(golden["start"][name]), VariableOptions{.name = name});
    }
  });
  const auto optimizer = make_optimizer(test["optimizer"], test["options"]);
  optimizer->build(variables);

  Errors errors;
  const size_t steps = golden["steps"];
  const int replicas = strategy.num_replicas_in_sync();
  for (size_t step = 0; step < steps; ++step) {
    strategy.run([&] {
      const int id = get_replica_context()->replica_id_in_sync_group();
      std::vector<at::Tensor> gradients;
      for (const std::string& name : names) {
        const at::Tensor whole = tensor(golden["gradients"][step][name]);
        // Of three replicas, a half and two quarters: the sum is exact.
        gradients.push_back(replicas == 1 ? whole : whole * (id == 0 ? 0.5 : 0.25));
      }
      optimizer->apply_gradients(std::move(gradients));
    });
    const json& expected = test["weights"];
    if (expected.size() != steps && step + 1 != steps) continue;
    const json& now = expected.size() == steps ? expected[step] : expected[0];
    for (size_t i = 0; i < names.size(); ++i) {
      errors.weights = std::max(errors.weights, error_of(variables[i].value(), now[names[i]]));
    }
  }
  size_t compared = 0;
  for (const auto& [full_name, slot] : optimizer->slots()) {
    const size_t slash = full_name.find('/');
    const std::string variable = full_name.substr(0, slash), name = full_name.substr(slash + 1);
    EXPECT_TRUE(test["slots"].contains(name)) << full_name;
    if (!test["slots"].contains(name)) continue;
    errors.slots = std::max(errors.slots, error_of(slot, test["slots"][name][variable]));
    ++compared;
  }
  EXPECT_EQ(compared, test["slots"].size() * names.size()) << test["optimizer"];
  return errors;
}

void expect_keras(Strategy& strategy) {
  const json golden = read_golden("keras_optimizers.json");
  ASSERT_GE(golden["cases"].size(), 100u);
  std::map<std::string, Errors> largest;
  for (const json& test : golden["cases"]) {
    const bool single = test["dtype"] == "float32";
    const Errors errors = run_case(strategy, golden, test);
    const double tolerance = single ? 1e-5 : 1e-10;
    EXPECT_LE(errors.weights, tolerance) << test["optimizer"] << test["options"] << test["dtype"];
    EXPECT_LE(errors.slots, tolerance) << test["optimizer"] << test["options"] << test["dtype"];
    Errors& most = largest[str_cat(test["optimizer"].get<std::string>(), " ",
                                   test["dtype"].get<std::string>())];
    most.weights = std::max(most.weights, errors.weights);
    most.slots = std::max(most.slots, errors.slots);
  }
  for (const auto& [name, errors] : largest) {
    std::printf("keras %d replicas  %-18s relative error of weights %.1e, of slots %.1e\n",
                strategy.num_replicas_in_sync(), name.c_str(), errors.weights, errors.slots);
  }
}

TEST(OptimizerGoldenTest, OneDeviceEqualsKeras) { expect_keras(default_strategy()); }

TEST(OptimizerGoldenTest, ThreeReplicasEqualKeras) {
  set_logical_devices("cpu", 3);
  MirroredStrategy strategy({.devices = cpus(3), .threads_per_replica = 1});
  expect_keras(strategy);
}

}  // namespace
}  // namespace strata::optimizers
