// Metric objects against tests/golden/keras_metric_objects.json, on one device and on replicas that
// share the batches unevenly.

#include <gtest/gtest.h>

#include <algorithm>

#include "optim/golden.h"
#include "strata/keras/metrics.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/replicas.h"

namespace strata::metrics {
namespace {

using at::Tensor;
using nlohmann::json;

std::string describe(const json& record) { return record["config"].dump(); }

Tensor float_tensor(const json& array) { return golden_tensor(array).to(at::kFloat); }
Tensor weight_of(const json& step) {
  return step.contains("sample_weight") ? float_tensor(step["sample_weight"]) : Tensor();
}

bool is_plain(const json& record) { return record["class"] == "Mean" || record["class"] == "Sum"; }

void expect_result(const Metric& metric, const json& step, const std::string& what) {
  const Tensor got = metric.results(), wanted = float_tensor(step["result"]);
  EXPECT_TRUE(close_to_golden(got, wanted, 0.02)) << what << got << wanted;
  if (wanted.numel() == 1) {
    EXPECT_EQ(metric.result(), got.item<double>());
  }
}

TEST(MetricGoldenTest, ResultsNamesAndConfigsEqualKeras) {
  const json golden = read_golden("keras_metric_objects.json");
  ASSERT_GE(golden["cases"].size(), 140U);
  for (const json& record : golden["cases"]) {
    if (is_plain(record)) continue;
    Metric metric = metric_from_config(Json::parse(record["config"].dump()));
    EXPECT_EQ(json::parse(to_config(metric).dump()), record["config"]);
    EXPECT_EQ(metric.name(), record["name"]);
    for (int round = 0; round < 2; ++round) {
      for (const json& step : record["steps"]) {
        metric.update_state(golden_tensor(step["y_true"]), float_tensor(step["y_pred"]),
                            weight_of(step));
        expect_result(metric, step, describe(record));
      }
      metric.reset_state();  // the second round must not know the first
    }
    std::vector<std::string> names;
    for (const Variable& each : metric.variables()) {
      names.push_back(each.name().substr(each.name().rfind('/') + 1));
    }
    EXPECT_EQ(names, record["variables"].get<std::vector<std::string>>());
  }
}

TEST(MetricGoldenTest, MeanAndSumEqualKeras) {
  int cases = 0;
  const json golden = read_golden("keras_metric_objects.json");
  for (const json& record : golden["cases"]) {
    if (!is_plain(record)) continue;
    ++cases;
    Mean mean;
    Sum sum;
    const bool is_mean = record["class"] == "Mean";
    const Metric metric = is_mean ? Metric(mean) : Metric(sum);
    EXPECT_EQ(json::parse(to_config(metric).dump()), record["config"]);
    Metric(metric).build();
    for (const json& step : record["steps"]) {
      const Tensor values = float_tensor(step["values"]);
      is_mean ? mean.update(values, weight_of(step)) : sum.update(values, weight_of(step));
      expect_result(metric, step, describe(record));
    }
  }
  EXPECT_EQ(cases, 14);
}

TEST(MetricGoldenTest, EveryNameOfKerasIsKnown) {
  const json golden = read_golden("keras_metric_objects.json");
  ASSERT_GE(golden["names"].size(), 90U);
  // Classes that need a number, which a name alone does not give.
  const auto needs_options = [](const std::string& name) {
    return (name.find("IoU") != std::string::npos || name.find("io_u") != std::string::npos ||
            name.find("At") != std::string::npos || name.find("_at_") != std::string::npos) &&
           name.find("inary") == std::string::npos;
  };
  for (const std::string name : golden["names"]) {
    if (needs_options(name)) continue;
    const Metric metric = name;
    EXPECT_EQ(metric.name(), name);
    EXPECT_EQ(to_config(metric), Json(name));
  }
}

/// Rows [begin, end) of each replica: all but the first get as good as nothing.
Tensor share(const Tensor& x, int replica, int replicas) {
  if (!x.defined()) return x;
  const int64_t rows = x.size(0), cut = std::min<int64_t>(rows, 2 * rows / 3 + 1);
  if (replicas == 1) return x;
  if (replica == 0) return x.narrow(0, 0, cut);
  if (replica == 1) return x.narrow(0, cut, rows - cut);
  return x.narrow(0, 0, 0);
}

class ReplicasTest : public ::testing::TestWithParam<int> {};

TEST_P(ReplicasTest, UnevenSharesEqualOneDevice) {
  const int replicas = GetParam();
  set_logical_devices("cpu", 3);
  MirroredStrategy strategy({.devices = cpus(replicas)});
  const json golden = read_golden("keras_metric_objects.json");
  ASSERT_GE(golden["cases"].size(), 140U);
  for (const json& record : golden["cases"]) {
    if (is_plain(record)) continue;
    Metric alone = metric_from_config(Json::parse(record["config"].dump()));
    Metric metric = metric_from_config(Json::parse(record["config"].dump()));
    for (const json& step : record["steps"]) {
      const Tensor y_true = golden_tensor(step["y_true"]), y_pred = float_tensor(step["y_pred"]),
                   weight = weight_of(step);
      alone.update_state(y_true, y_pred, weight);
      strategy.scope([&] { metric.build(y_true.sizes().vec(), y_pred.sizes().vec()); });
      strategy.run([&] {
        const int id = get_replica_context()->replica_id_in_sync_group();
        metric.update_state(share(y_true, id, replicas), share(y_pred, id, replicas),
                            share(weight, id, replicas));
      });
    }
    const Tensor got = metric.results(), wanted = alone.results();
    // Sums in another order, but in float64.
    EXPECT_TRUE(got.sizes() == wanted.sizes() && got.allclose(wanted, 1e-6, 1e-9))
        << describe(record) << got << wanted;
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, ReplicasTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace strata::metrics
