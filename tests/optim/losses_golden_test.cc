// Against tests/golden/keras_losses.json and keras_metrics.json.

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <map>

#include "optim/golden.h"
#include "strata/optim/losses.h"
#include "strata/optim/metrics.h"

namespace strata {
namespace {

using at::Tensor;
using nlohmann::json;

Tensor call_loss(const std::string& name, const Tensor& y_true, const Tensor& y_pred,
                 const json& o) {
  using namespace losses;
  const bool from_logits = o.value("from_logits", false);
  const double smoothing = o.value("label_smoothing", 0.0);
  if (name == "sparse_categorical_crossentropy") {
    SparseCrossentropyOptions options{.from_logits = from_logits};
    if (o.contains("ignore_class")) options.ignore_class = o["ignore_class"].get<int64_t>();
    return sparse_categorical_crossentropy(y_true, y_pred, options);
  }
  const CrossentropyOptions plain{from_logits, smoothing};
  const FocalOptions focal{o.value("alpha", 0.25), o.value("gamma", 2.0), from_logits, smoothing,
                           o.value("apply_class_balancing", false)};
  const std::map<std::string, std::function<Tensor()>> calls = {
      {"categorical_crossentropy", [&] { return categorical_crossentropy(y_true, y_pred, plain); }},
      {"binary_crossentropy", [&] { return binary_crossentropy(y_true, y_pred, plain); }},
      {"categorical_focal_crossentropy",
       [&] { return categorical_focal_crossentropy(y_true, y_pred, focal); }},
      {"binary_focal_crossentropy",
       [&] { return binary_focal_crossentropy(y_true, y_pred, focal); }},
      {"mean_squared_error", [&] { return mean_squared_error(y_true, y_pred); }},
      {"mean_absolute_error", [&] { return mean_absolute_error(y_true, y_pred); }},
      {"mean_absolute_percentage_error",
       [&] { return mean_absolute_percentage_error(y_true, y_pred); }},
      {"mean_squared_logarithmic_error",
       [&] { return mean_squared_logarithmic_error(y_true, y_pred); }},
      {"huber", [&] { return huber(y_true, y_pred, o.value("delta", 1.0)); }},
      {"log_cosh", [&] { return log_cosh(y_true, y_pred); }},
      {"kl_divergence", [&] { return kl_divergence(y_true, y_pred); }},
      {"poisson", [&] { return poisson(y_true, y_pred); }},
      {"hinge", [&] { return hinge(y_true, y_pred); }},
      {"squared_hinge", [&] { return squared_hinge(y_true, y_pred); }},
      {"categorical_hinge", [&] { return categorical_hinge(y_true, y_pred); }},
      {"cosine_similarity", [&] { return losses::cosine_similarity(y_true, y_pred); }},
  };
  return calls.at(name)();
}

losses::Reduction reduction_of(const std::string& name) {
  if (name == "sum") return losses::Reduction::kSum;
  if (name == "none") return losses::Reduction::kNone;
  return name == "sum_over_batch_size" ? losses::Reduction::kSumOverBatchSize
                                       : losses::Reduction::kMeanWithSampleWeight;
}

std::string describe(const json& test) {
  json rest = test;
  for (const char* key : {"y_true", "y_pred", "values", "gradient"}) rest.erase(key);
  return rest.dump();
}

TEST(LossesGoldenTest, ValuesAndGradientsEqualKeras) {
  const json golden = read_golden("keras_losses.json");
  ASSERT_GE(golden["cases"].size(), 50U);
  for (const json& test : golden["cases"]) {
    const Tensor y_true = golden_tensor(test["y_true"]);
    const Tensor y_pred = golden_tensor(test["y_pred"]).to(at::kFloat).set_requires_grad(true);
    const Tensor expected = golden_tensor(test["values"]).to(at::kFloat);
    Tensor values = call_loss(test["loss"], y_true, y_pred, test.value("options", json::object()));
    if (test.contains("reduction")) {
      const Tensor weight =
          test.contains("sample_weight") ? golden_tensor(test["sample_weight"]) : Tensor();
      values = losses::reduce(values, weight, reduction_of(test["reduction"]));
    }
    // Float32 on both sides: near 0, differences of larger numbers leave 1e-7 or so.
    EXPECT_TRUE(close_to_golden(values.detach(), expected, 0.02))
        << describe(test) << values << expected;
    if (!test.contains("gradient")) continue;
    const Tensor gradient = torch::autograd::grad({values.sum()}, {y_pred})[0];
    const Tensor wanted = golden_tensor(test["gradient"]).to(at::kFloat);
    EXPECT_TRUE(close_to_golden(gradient, wanted, 0.02)) << describe(test) << gradient << wanted;
  }
}

TEST(MetricsGoldenTest, EqualKeras) {
  using namespace metrics;
  const json golden = read_golden("keras_metrics.json");
  for (const json& test : golden["cases"]) {
    const Tensor t = golden_tensor(test["y_true"]),
                 p = golden_tensor(test["y_pred"]).to(at::kFloat);
    const json& o = test["options"];
    const std::map<std::string, std::function<Tensor()>> calls = {
        {"accuracy", [&] { return accuracy(t, p); }},
        {"binary_accuracy", [&] { return binary_accuracy(t, p, o.value("threshold", 0.5)); }},
        {"categorical_accuracy", [&] { return categorical_accuracy(t, p); }},
        {"sparse_categorical_accuracy", [&] { return sparse_categorical_accuracy(t, p); }},
        {"top_k_categorical_accuracy",
         [&] { return top_k_categorical_accuracy(t, p, o.value("k", 5)); }},
        {"sparse_top_k_categorical_accuracy",
         [&] { return sparse_top_k_categorical_accuracy(t, p, o.value("k", 5)); }},
    };
    const Tensor values = calls.at(test["metric"])();
    EXPECT_EQ(values.scalar_type(), at::kFloat);
    Tensor expected = golden_tensor(test["values"]).to(at::kFloat);
    // Keras gives sparse_categorical_accuracy of [batch, 1] labels as [batch], as we do.
    EXPECT_TRUE(at::equal(values, expected)) << describe(test) << values << expected;
  }
}

}  // namespace
}  // namespace strata
