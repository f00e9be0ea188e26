// fit, evaluate and predict against real Keras (tests/golden/keras_fit.py), on 1, 2 and 3 replicas.
#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "strata/keras/layer_registry.h"
#include "strata/keras/saving.h"
#include "strata/keras/sequential.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/source_path.h"
#include "support/test_devices.h"

namespace strata::keras {
namespace {

using nlohmann::json;

json cases() {
  std::ifstream file(test::source_path("tests/golden/keras_fit.json"));
  return json::parse(file)["cases"];
}

at::Tensor tensor(const json& value) {
  const auto shape = value["shape"].get<std::vector<int64_t>>();
  if (value["dtype"] == "int64") {
    auto data = value["data"].get<std::vector<int64_t>>();
    return at::from_blob(data.data(), shape, at::kLong).clone();
  }
  auto data = value["data"].get<std::vector<float>>();
  return at::from_blob(data.data(), shape, at::kFloat).clone();
}

Json actual(const json& value) { return Json::parse(value.dump()); }

Model make_model(const json& test) {
  Shape shape = test["input_shape"].get<Shape>();
  std::vector<Layer> layers;
  for (const json& layer : test["layers"]) layers.push_back(layer_from_config(actual(layer)));
  const Sequential model(Input(shape), layers);
  size_t i = 0;
  for (const Weight& weight : model->weights()) {
    Variable variable = weight.variable;
    variable.assign(tensor(test["weights"][i++]));
  }
  EXPECT_EQ(i, test["weights"].size());
  return model;
}

void expect_near(double actual, double expected, double relative, const std::string& what) {
  EXPECT_NEAR(actual, expected, relative * std::max(1e-2, std::abs(expected))) << what;
}

/// The dtype policy of the process while something is made.
class Policy {
 public:
  explicit Policy(const std::string& name) { set_dtype_policy(name); }
  ~Policy() { set_dtype_policy("float32"); }
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
};

/// The scale of the loss and what counts towards the next.
void expect_scale(const optimizers::Optimizer& optimizer, const json& scale) {
  ASSERT_NE(dynamic_cast<const optimizers::LossScaleOptimizer*>(&optimizer), nullptr);
  for (const auto& [name, value] : optimizer.slots()) {
    if (!scale.contains(name)) continue;
    EXPECT_EQ(value.item().toDouble(), scale[name]) << name;
  }
}

class FitGoldenTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!test::has_test_devices()) GTEST_SKIP() << "no GPU: " << strata::detail::why_no_gpu();
  }
};

TEST_P(FitGoldenTest, HasTheHistoryOfKerasOnOneDevice) {
  MirroredStrategy strategy({.devices = test::test_devices(GetParam())});
  const json all = cases();
  ASSERT_GE(all.size(), 14u);
  for (const json& test : all) {
    const std::string name = test["name"];
    SCOPED_TRACE(name);
    // Sums of replicas are in float32 and overflow later than one device's in 16 bits.
    if (name == "loss scale that is too large" && GetParam() > 1) continue;
    const int64_t rows = test["rows"];
    const double tolerance = test.value("tolerance", 1e-4);
    const Policy policy(test.value("policy", "float32"));
    const Model model = strategy.scope([&] { return make_model(test); });
    losses::Loss loss;
    from_config(actual(test["loss"]), loss);
    MetricList metrics;
    MetricList weighted;
    for (const json& each : test["metrics"])
      metrics.push_back(metrics::metric_from_config(actual(each)));
    for (const json& each : test["weighted_metrics"]) {
      weighted.push_back(metrics::metric_from_config(actual(each)));
    }
    json optimizer = test["optimizer"];
    // That `compile` puts it into a LossScaleOptimizer is part of the test.
    if (name == "mixed float16") optimizer = optimizer["config"]["inner_optimizer"];
    model.compile({.optimizer = optimizer_from_config(actual(optimizer)),
                   .loss = loss,
                   .metrics = metrics,
                   .weighted_metrics = weighted,
                   .steps_per_execution = name == "several steps an execution" ? 3 : 1});
    std::vector<at::Tensor> fields = {tensor(test["x"]), tensor(test["y"])};
    if (test.contains("sample_weight")) fields.push_back(tensor(test["sample_weight"]));
    const auto all_rows = data::Dataset::from_tensor_slices(data::Example(fields));
    FitOptions options{.epochs = test["epochs"],
                       .validation_data = all_rows.skip(rows).batch(test["batch"]),
                       .verbose = 0};
    if (test.contains("class_weight")) {
      for (const auto& [label, weight] : test["class_weight"].items()) {
        options.class_weight[std::stoll(label)] = weight;
      }
    }
    const History history = model.fit(all_rows.take(rows).batch(test["batch"]), options);
    ASSERT_EQ(history.history.size(), test["history"].size());
    for (const auto& [key, values] : test["history"].items()) {
      const std::vector<double>& got = history[key];
      ASSERT_EQ(got.size(), values.size()) << key;
      for (size_t i = 0; i < got.size(); ++i) {
        expect_near(got[i], values[i], tolerance, str_cat(key, ", epoch ", i));
      }
    }
    size_t i = 0;
    for (const Weight& weight : model->weights()) {
      const at::Tensor expected = tensor(test["final_weights"][i++]);
      const double error =
          (weight.variable.value().detach().cpu() - expected).abs().max().item().toDouble();
      EXPECT_LE(error, tolerance * std::max(1.0, expected.abs().max().item().toDouble()))
          << weight.variable.name();
    }
    if (test.contains("iterations")) {
      EXPECT_EQ(model.optimizer().iterations(), test["iterations"]);
    }
    if (test.contains("scale")) expect_scale(model.optimizer(), test["scale"]);
    const at::Tensor predictions =
        model.predict(fields[0].slice(0, rows), {.verbose = 0, .batch_size = 5});
    const double error =
        (predictions.cpu() - tensor(test["predictions"])).abs().max().item().toDouble();
    EXPECT_LE(error, 10 * tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas, FitGoldenTest, testing::Values(1, 2, 3));

}  // namespace
}  // namespace strata::keras
