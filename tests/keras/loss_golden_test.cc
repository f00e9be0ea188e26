// Loss objects against tests/golden/keras_loss_objects.json.

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "optim/golden.h"
#include "strata/keras/losses.h"

namespace strata::losses {
namespace {

using at::Tensor;
using nlohmann::json;

json without(json record, std::initializer_list<const char*> keys) {
  for (const char* key : keys) record.erase(key);
  return record;
}
std::string describe(const json& record) {
  return without(record, {"value", "gradient", "sample_weight", "truth", "mask"}).dump();
}

Json actual(const json& expected) { return Json::parse(expected.dump()); }
json expected(const Json& actual) { return json::parse(actual.dump()); }

/// Keras leaves some options out of its config, and so out of its files.
json full_config(const json& record) {
  json config = record["config"];
  const std::string name = record["class"];
  if (name == "Huber" || name == "CosineSimilarity") config["config"].update(record["options"]);
  return config;
}

Tensor float_tensor(const json& array) { return golden_tensor(array).to(at::kFloat); }

TEST(LossGoldenTest, ValuesGradientsAndConfigsEqualKeras) {
  const json golden = read_golden("keras_loss_objects.json");
  ASSERT_GE(golden["cases"].size(), 300U);
  for (const json& record : golden["cases"]) {
    Loss loss;
    from_config(actual(full_config(record)), loss);
    EXPECT_EQ(expected(to_config(loss)), full_config(record)) << describe(record);
    EXPECT_EQ(loss.name(), record["config"]["config"]["name"]);

    const json& inputs = golden["inputs"];
    const Tensor y_true = record.contains("truth")
                              ? float_tensor(record["truth"])
                              : golden_tensor(inputs[std::string(record["y_true"])]);
    const Tensor y_pred =
        float_tensor(inputs[std::string(record["y_pred"])]).set_requires_grad(true);
    const auto optional = [&](const char* key) {
      return record.contains(key) ? golden_tensor(record[key]) : Tensor();
    };
    const Tensor weight = optional("sample_weight"), mask = optional("mask");
    const Tensor value = loss(y_true, y_pred, weight, mask);
    EXPECT_TRUE(close_to_golden(value.detach(), float_tensor(record["value"]), 0.02))
        << describe(record) << value << record["value"];
    const Tensor gradient = torch::autograd::grad({value.sum()}, {y_pred})[0];
    const Tensor wanted = float_tensor(record["gradient"]);
    EXPECT_TRUE(close_to_golden(gradient, wanted, 0.02)) << describe(record) << gradient << wanted;

    // The parts that replicas add up are the same value.
    const LossTerms terms = loss.terms(y_true, y_pred, weight, mask);
    const double sum = terms.sum.item<double>();
    EXPECT_EQ(loss.divides(), terms.count > 0) << describe(record);
    const double divisor = terms.weight_sum.defined() ? terms.weight_sum.item<double>()
                           : loss.divides()           ? terms.count
                                                      : 1;
    EXPECT_NEAR(sum / divisor, float_tensor(record["value"]).sum().item<double>(),
                1e-5 * std::max(1.0, std::abs(sum)))
        << describe(record);
  }
}

TEST(LossGoldenTest, EveryNameOfKerasIsKnown) {
  const json golden = read_golden("keras_loss_objects.json");
  ASSERT_GE(golden["names"].size(), 50U);
  for (const std::string name : golden["names"]) {
    const Loss loss = name;
    EXPECT_TRUE(loss) << name;
    EXPECT_EQ(to_config(loss), Json(name));
  }
}

}  // namespace
}  // namespace strata::losses
