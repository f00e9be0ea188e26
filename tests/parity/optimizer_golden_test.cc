// The optimizers as a whole, clipping, weight decay and schedules included, against
// tests/golden/keras_optimizers.json: on one device, and with each gradient cut into three.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "optim/golden.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/strategy.h"
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
  options.use_ema = given.value("use_ema", false);
  options.ema_momentum = given.value("ema_momentum", 0.99);
  options.ema_overwrite_frequency = given.value("ema_overwrite_frequency", int64_t{0});
  options.loss_scale_factor = given.value("loss_scale_factor", 0.0);
  options.gradient_accumulation_steps = given.value("gradient_accumulation_steps", int64_t{0});
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
  if constexpr (requires { options.epsilon; }) {
    options.epsilon = given.value("epsilon", options.epsilon);
  }
  if constexpr (requires { options.amsgrad; }) options.amsgrad = given.value("amsgrad", false);
  return make<O>(given, options);
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const json& given) {
  const auto take = [&](const char* key, double& option) { option = given.value(key, option); };
  if (name == "SGD") {
    SGDOptions options;
    take("momentum", options.momentum);
    options.nesterov = given.value("nesterov", false);
    return make<SGD>(given, options);
  }
  if (name == "Adam") return make_adam_like<Adam>(given, AdamOptions{});
  if (name == "AdamW") return make_adam_like<AdamW>(given, AdamWOptions{});
  if (name == "Adamax") return make_adam_like<Adamax>(given, AdamaxOptions{});
  if (name == "Nadam") return make_adam_like<Nadam>(given, NadamOptions{});
  if (name == "Lion") return make_adam_like<Lion>(given, LionOptions{});
  if (name == "Lamb") return make_adam_like<Lamb>(given, LambOptions{});
  if (name == "ScheduleFreeAdamW") {
    ScheduleFreeAdamWOptions options;
    options.warmup_steps = given.value("warmup_steps", int64_t{0});
    return make_adam_like<ScheduleFreeAdamW>(given, options);
  }
  if (name == "Muon") {
    MuonOptions options;
    for (const auto& [key, option] :
         std::map<const char*, double*>{{"adam_beta_1", &options.adam_beta_1},
                                        {"adam_beta_2", &options.adam_beta_2},
                                        {"epsilon", &options.epsilon},
                                        {"adam_lr_ratio", &options.adam_lr_ratio},
                                        {"muon_a", &options.muon_a},
                                        {"muon_b", &options.muon_b},
                                        {"muon_c", &options.muon_c},
                                        {"momentum", &options.momentum},
                                        {"adam_weight_decay", &options.adam_weight_decay}}) {
      take(key, *option);
    }
    options.ns_steps = given.value("ns_steps", options.ns_steps);
    options.nesterov = given.value("nesterov", options.nesterov);
    const bool is_none = given.contains("rms_rate") && given["rms_rate"].is_null();
    options.rms_rate = is_none ? 0 : given.value("rms_rate", options.rms_rate);
    options.exclude_layers = given.value("exclude_layers", options.exclude_layers);
    return make<Muon>(given, options);
  }
  if (name == "Adafactor") {
    AdafactorOptions options;
    take("beta_2_decay", options.beta_2_decay);
    take("epsilon_1", options.epsilon_1);
    take("epsilon_2", options.epsilon_2);
    take("clip_threshold", options.clip_threshold);
    return make<Adafactor>(given, options);
  }
  if (name == "Adagrad") {
    AdagradOptions options;
    take("initial_accumulator_value", options.initial_accumulator_value);
    take("epsilon", options.epsilon);
    return make<Adagrad>(given, options);
  }
  if (name == "RMSprop") {
    RMSpropOptions options;
    take("rho", options.rho);
    take("momentum", options.momentum);
    take("epsilon", options.epsilon);
    options.centered = given.value("centered", false);
    return make<RMSprop>(given, options);
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

std::vector<int64_t> shape_of(const std::string& variable) {
  return variable == "kernel" ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{4};
}

struct Errors {
  double weights = 0, slots = 0;
};

/// How a kernel lies in memory: Keras layers keep some as libtorch wants them.
enum class Order { kRows, kColumns };

/// The values after all steps are added to `final_weights`.
Errors run_case(Strategy& strategy, const json& golden, const json& test,
                Order order = Order::kRows, std::vector<at::Tensor>* final_weights = nullptr) {
  const at::ScalarType dtype = test["dtype"] == "float32" ? at::kFloat : at::kDouble;
  const auto tensor = [&](const json& values) {
    return at::tensor(values.get<std::vector<double>>(), at::kDouble).to(dtype);
  };
  const std::vector<std::string> names = {"kernel", "bias"};
  std::vector<Variable> variables;
  strategy.scope([&] {
    for (const std::string& name : names) {
      at::Tensor start = tensor(golden["start"][name]).view(shape_of(name));
      if (order == Order::kColumns) start = start.t().contiguous().t();
      variables.emplace_back(start, VariableOptions{.name = name});
      EXPECT_EQ(variables.back().on_replica(0).is_contiguous(),
                order == Order::kRows || start.dim() == 1);
    }
  });
  auto optimizer = make_optimizer(test["optimizer"], test["options"]);
  std::vector<int64_t> infinite;
  if (test.contains("loss_scale")) {
    const json& scale = test["loss_scale"];
    optimizer = std::make_unique<LossScaleOptimizer>(
        std::move(optimizer),
        LossScaleOptions{.initial_scale = scale["initial_scale"],
                         .dynamic_growth_steps = scale["dynamic_growth_steps"]});
    infinite = test["infinite"].get<std::vector<int64_t>>();
  }
  optimizer->build(variables);

  Errors errors;
  const size_t steps = golden["steps"];
  const int replicas = strategy.num_replicas_in_sync();
  for (size_t step = 0; step < steps; ++step) {
    strategy.run([&] {
      const int id = get_replica_context()->replica_id_in_sync_group();
      std::vector<at::Tensor> gradients;
      for (const std::string& name : names) {
        at::Tensor whole = tensor(golden["gradients"][step][name]).view(shape_of(name));
        if (name == "kernel" && std::ranges::count(infinite, static_cast<int64_t>(step)) > 0) {
          whole.fill_(std::numeric_limits<double>::infinity());
        }
        // Of three replicas, a half and two quarters: the sum is exact.
        gradients.push_back(replicas == 1 ? whole : whole * (id == 0 ? 0.5 : 0.25));
      }
      optimizer->apply_gradients(std::move(gradients));
    });
    const json& expected = test["weights"];
    if (expected.size() != steps && step + 1 != steps) continue;
    const json& now = expected.size() == steps ? expected[step] : expected[0];
    for (size_t i = 0; i < names.size(); ++i) {
      errors.weights =
          std::max(errors.weights, error_of(variables[i].value().flatten(), now[names[i]]));
    }
  }
  size_t compared = 0, numbers = 0;
  for (const auto& [full_name, slot] : optimizer->slots()) {
    const size_t slash = full_name.find('/');
    if (slash == std::string::npos) {  // of the whole optimizer
      EXPECT_NEAR(slot.item<double>(), test["numbers"][full_name].get<double>(),
                  dtype == at::kFloat ? 1e-6 : 1e-12);
      ++numbers;
      continue;
    }
    const std::string variable = full_name.substr(0, slash), name = full_name.substr(slash + 1);
    EXPECT_TRUE(test["slots"].contains(name)) << full_name;
    if (!test["slots"].contains(name)) continue;
    errors.slots = std::max(errors.slots, error_of(slot.flatten(), test["slots"][name][variable]));
    ++compared;
  }
  size_t in_golden = 0;
  for (const auto& [name, of_variables] : test["slots"].items()) in_golden += of_variables.size();
  EXPECT_EQ(compared, in_golden) << test["optimizer"];
  EXPECT_EQ(numbers, test["numbers"].size()) << test["optimizer"];
  if (final_weights != nullptr) {
    for (const Variable& variable : variables) final_weights->push_back(variable.value().clone());
  }
  return errors;
}

/// Both files, of TensorFlow and of JAX: steps and gradients are the same.
json golden_cases() {
  json golden = read_golden("keras_optimizers.json");
  const json on_jax = read_golden("keras_optimizers_jax.json");
  EXPECT_EQ(golden["gradients"], on_jax["gradients"]);
  EXPECT_EQ(golden["start"], on_jax["start"]);
  for (const json& test : on_jax["cases"]) golden["cases"].push_back(test);
  return golden;
}

void expect_keras(Strategy& strategy) {
  const json golden = golden_cases();
  ASSERT_GE(golden["cases"].size(), 200u);
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
  MirroredStrategy strategy({.devices = cpus(3), .replicas = {.threads_per_replica = 1}});
  expect_keras(strategy);
}

bool looks_at_whole_variables(const json& test) {
  const std::string name = test["optimizer"];
  return name == "Lamb" || name == "Muon" || name == "Adafactor";
}

/// Every rule takes a kernel however it lies; one that looks at rows, columns and norms gives the
/// same bits.
void expect_no_matter_of_order(Strategy& strategy) {
  const json golden = golden_cases();
  int whole = 0;
  for (const json& test : golden["cases"]) {
    if (test.contains("loss_scale")) continue;  // of all variables together
    SCOPED_TRACE(test["optimizer"].get<std::string>() + test["options"].dump());
    std::vector<at::Tensor> rows, columns;
    run_case(strategy, golden, test, Order::kRows, &rows);
    const Errors errors = run_case(strategy, golden, test, Order::kColumns, &columns);
    const double tolerance = test["dtype"] == "float32" ? 1e-5 : 1e-10;
    EXPECT_LE(errors.weights, tolerance);
    EXPECT_LE(errors.slots, tolerance);
    const json& options = test["options"];
    const bool clips = options.contains("clipnorm") || options.contains("global_clipnorm");
    if (!looks_at_whole_variables(test) || clips) continue;  // norms add up as values lie
    ++whole;
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(rows[i].equal(columns[i])) << i;
  }
  EXPECT_GE(whole, 8);
}

TEST(OptimizerGoldenTest, HowAKernelLiesIsNoMatter) {
  expect_no_matter_of_order(default_strategy());
}

TEST(OptimizerGoldenTest, HowAKernelLiesIsNoMatterToReplicas) {
  set_logical_devices("cpu", 3);
  MirroredStrategy strategy({.devices = cpus(3), .replicas = {.threads_per_replica = 1}});
  expect_no_matter_of_order(strategy);
}

}  // namespace
}  // namespace strata::optimizers
