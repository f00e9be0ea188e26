// Every layer that Keras's golden files know, as a training step of TPUStrategy: the numbers of one process.
#include <gtest/gtest.h>

#include <string>

#include "strata/strategies/one_device_strategy.h"
#include "support/layer_steps.h"
#include "tpu/cores.h"

namespace strata {
namespace {

using test::Tensors;

/// The largest difference, relative to the typical number of its tensor.
double distance(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor a = found.detach().to(at::kDouble), b = expected.detach().to(at::kDouble);
  if (b.numel() == 0) return 0;
  const double typical = std::max(b.square().mean().sqrt().item<double>(), 1e-3);
  return ((a - b).abs() / b.abs().clamp_min(typical)).max().item<double>();
}

class TpuLayersTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TpuLayersTest, HaveTheNumbersOfOneProcess) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const bool narrow = GetParam().starts_with("mixed_");
  const Json golden = test::read_layer_family(GetParam());
  for (const Json& test : golden.at("cases").as_array()) {
    if (!test::runs_elsewhere(test)) continue;
    SCOPED_TRACE(test.at("layer").at("class_name").as_string() + " " + test.at("name").as_string());
    try {
      OneDeviceStrategy here({.device = "cpu:0", .seed = 1});
      const Tensors expected = test::train_layer(here, test, false);
      TPUStrategy there(test::cores(), {.num_replicas = 1, .seed = 1});
      const Tensors found = test::train_layer(there, test, true);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << i;
        EXPECT_LE(distance(found[i], expected[i]), narrow ? 0.05 : 1e-4) << i;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TpuLayersTest, ::testing::ValuesIn(test::layer_families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace strata
