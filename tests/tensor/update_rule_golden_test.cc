// Against tests/golden/keras_optimizers.json. Clip factors are computed here; the optimizer's own
// are tested with it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "support/source_path.h"
#include "tensor/update_rule.h"

namespace strata::tensor {
namespace {

using nlohmann::json;

std::unique_ptr<UpdateRule> make_rule(const std::string& name, const json& o) {
  const auto number = [&](const char* key, double otherwise) { return o.value(key, otherwise); };
  const auto flag = [&](const char* key) { return o.value(key, false); };
  if (name == "SGD") return SGDRule{number("momentum", 0), flag("nesterov")}.make();
  if (name == "Adam" || name == "AdamW") {
    const AdamRule d;
    return AdamRule{number("beta_1", d.beta_1), number("beta_2", d.beta_2),
                    number("epsilon", d.epsilon), flag("amsgrad")}
        .make();
  }
  if (name == "Adagrad") {
    const AdagradRule d;
    return AdagradRule{number("initial_accumulator_value", d.initial_accumulator_value),
                       number("epsilon", d.epsilon)}
        .make();
  }
  if (name == "RMSprop") {
    const RMSpropRule d;
    return RMSpropRule{number("rho", d.rho), number("momentum", d.momentum),
                       number("epsilon", d.epsilon), flag("centered")}
        .make();
  }
  if (name == "Adadelta") {
    const AdadeltaRule d;
    return AdadeltaRule{number("rho", d.rho), number("epsilon", d.epsilon)}.make();
  }
  if (name == "Adamax") {
    const AdamaxRule d;
    return AdamaxRule{number("beta_1", d.beta_1), number("beta_2", d.beta_2),
                      number("epsilon", d.epsilon)}
        .make();
  }
  if (name == "Nadam") {
    const NadamRule d;
    return NadamRule{number("beta_1", d.beta_1), number("beta_2", d.beta_2),
                     number("epsilon", d.epsilon)}
        .make();
  }
  if (name == "Lion") {
    const LionRule d;
    return LionRule{number("beta_1", d.beta_1), number("beta_2", d.beta_2)}.make();
  }
  if (name == "Lamb") {
    const LambRule d;
    return LambRule{number("beta_1", d.beta_1), number("beta_2", d.beta_2),
                    number("epsilon", d.epsilon)}
        .make();
  }
  if (name == "ScheduleFreeAdamW") {
    const ScheduleFreeAdamWRule d;
    return ScheduleFreeAdamWRule{number("beta_1", d.beta_1), number("beta_2", d.beta_2),
                                 number("epsilon", d.epsilon),
                                 o.value("warmup_steps", d.warmup_steps)}
        .make();
  }
  if (name == "Adafactor") {
    const AdafactorRule d;
    return AdafactorRule{number("beta_2_decay", d.beta_2_decay), number("epsilon_1", d.epsilon_1),
                         number("epsilon_2", d.epsilon_2),
                         number("clip_threshold", d.clip_threshold)}
        .make();
  }
  EXPECT_EQ(name, "Ftrl");
  const FtrlRule d;
  return FtrlRule{number("learning_rate_power", d.learning_rate_power),
                  number("initial_accumulator_value", d.initial_accumulator_value),
                  number("l1_regularization_strength", 0),
                  number("l2_regularization_strength", 0),
                  number("l2_shrinkage_regularization_strength", 0),
                  number("beta", 0)}
      .make();
}

double learning_rate(const std::string& name, const json& options, int64_t iteration) {
  if (!options.contains("learning_rate")) {
    return name == "SGD" ? 0.01 : name == "ScheduleFreeAdamW" ? 0.0025 : 0.001;
  }
  const json& rate = options["learning_rate"];
  if (rate.is_number()) return rate;
  EXPECT_EQ(rate["schedule"],
            "ExponentialDecay");  // with staircase; the schedules have their own test
  const json& o = rate["options"];
  return o["initial_learning_rate"].get<double>() *
         std::pow(o["decay_rate"].get<double>(),
                  std::floor(double(iteration) / o["decay_steps"].get<double>()));
}

template <typename T>
void run(const json& golden, const json& test, double tolerance) {
  const std::string name = test["optimizer"];
  const json& options = test["options"];
  const auto rule = make_rule(name, options);
  std::map<std::string, std::vector<T>> weights;
  std::map<std::string, std::vector<std::vector<T>>> slots;
  std::map<std::string, std::vector<int64_t>> shapes = {{"kernel", {3, 4}}, {"bias", {4}}};
  double scalar_state = 1;
  for (const auto& [variable, start] : golden["start"].items()) {
    weights[variable] = start.template get<std::vector<T>>();
    for (int s = 0; s < rule->num_slots(); ++s) {
      size_t size = 1;
      for (const int64_t n : rule->slot_shape(s, shapes[variable])) size *= static_cast<size_t>(n);
      slots[variable].emplace_back(size, static_cast<T>(rule->slot_initial_value(s)));
      if (rule->slot_starts_as_variable(s)) slots[variable].back() = weights[variable];
    }
  }
  const auto compare = [&](const json& expected, const std::vector<T>& got,
                           const std::string& what) {
    ASSERT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const double wanted = expected[i];
      EXPECT_NEAR(got[i], wanted, tolerance * std::max(std::abs(wanted), 0.02))
          << test["optimizer"] << options << what << i;
    }
  };
  const size_t steps = golden["steps"];
  for (size_t step = 0; step < steps; ++step) {
    scalar_state = rule->next_scalar_state(scalar_state, int64_t(step));
    const StepScalars scalars{learning_rate(name, options, int64_t(step)), int64_t(step),
                              scalar_state};
    std::map<std::string, std::vector<T>> gradients;
    std::map<std::string, double> squares;
    double square = 0;
    for (const auto& [variable, values] : golden["gradients"][step].items()) {
      gradients[variable] = values.template get<std::vector<T>>();
      for (const T g : gradients[variable]) squares[variable] += double(g) * g;
      square += squares[variable];
    }
    for (auto& [variable, weight] : weights) {
      UpdateSpan<T> span;
      span.parameter = weight.data();
      span.gradient = gradients[variable].data();
      for (size_t s = 0; s < slots[variable].size(); ++s) span.slots[s] = slots[variable][s].data();
      span.size = static_cast<int64_t>(weight.size());
      span.sizes = shapes[variable];
      span.weight_decay = options.value("weight_decay", name == "AdamW" ? 0.004 : 0.0);
      span.clip_value = options.value("clipvalue", 0.0);
      if (const double clip = options.value("clipnorm", 0.0); clip > 0) {
        span.gradient_scale = clip / std::max(std::sqrt(squares[variable]), clip);
      }
      if (const double clip = options.value("global_clipnorm", 0.0); clip > 0) {
        span.gradient_scale = clip * std::min(1 / std::sqrt(square), 1 / clip);
      }
      rule->apply(span, scalars);
    }
    const json& expected = test["weights"];
    if (expected.size() == steps || step + 1 == steps) {
      const json& now = expected.size() == steps ? expected[step] : expected[0];
      for (const auto& [variable, weight] : weights) compare(now[variable], weight, variable);
    }
  }
  EXPECT_EQ(test["slots"].size(), size_t(rule->num_slots()));
  for (const auto& [variable, values] : slots) {
    for (size_t s = 0; s < values.size(); ++s) {
      const std::string slot(rule->slot_name(int(s)));
      ASSERT_TRUE(test["slots"].contains(slot)) << slot;
      compare(test["slots"][slot][variable], values[s], slot);
    }
  }
}

TEST(UpdateRuleGoldenTest, EqualsKeras) {
  std::ifstream file(test::source_path("tests/golden/keras_optimizers.json"));
  std::ifstream file_of_jax(test::source_path("tests/golden/keras_optimizers_jax.json"));
  json golden = json::parse(file);
  for (const json& test : json::parse(file_of_jax)["cases"]) golden["cases"].push_back(test);
  ASSERT_GE(golden["cases"].size(), 100u);
  int compared = 0;
  for (const json& test : golden["cases"]) {
    // What the optimizer does around the rule is tested with it.
    const json& options = test["options"];
    if (test["optimizer"] == "Muon") continue;  // some variables have another rule
    if (options.contains("use_ema") || options.contains("gradient_accumulation_steps") ||
        options.contains("loss_scale_factor") || test.contains("loss_scale")) {
      continue;
    }
    ++compared;
    if (test["dtype"] == "float32") {
      run<float>(golden, test, 1e-5);
    } else {
      run<double>(golden, test, 1e-10);
    }
  }
  EXPECT_GE(compared, 140);
}

}  // namespace
}  // namespace strata::tensor
