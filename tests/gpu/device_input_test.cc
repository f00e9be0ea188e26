// Batches that are on the devices before the steps that read them.

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "gpu/emulated/device.h"
#include "gpu/emulated/order.h"
#include "strata/core/error.h"
#include "strata/data/dataset.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"
#include "tensor/stream_event.h"

namespace strata {
namespace {

using data::Dataset;
using data::Example;
using Element = DistributedDataset::Element;

/// 23 rows in batches of 4.
Dataset batches() {
  return Dataset::from_tensor_slices({at::arange(23, at::kFloat).view({23, 1}).expand({23, 3})})
      .batch(4);
}

std::vector<std::string> two_gpus() { return {"gpu:0", "gpu:1"}; }

std::vector<at::Tensor> on_cpu(const Element& element) {
  std::vector<at::Tensor> all;
  for (int r = 0; r < element.size(); ++r) all.push_back(element.get(r)[0].cpu());
  return all;
}

void expect_equal(const std::optional<Element>& a, const std::optional<Element>& b) {
  ASSERT_EQ(a.has_value(), b.has_value());
  if (!a) return;
  const auto x = on_cpu(*a), y = on_cpu(*b);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(at::equal(x[i], y[i]));
}

void skip(DistributedDataset::Iterator& iterator, int steps) {
  for (int step = 0; step < steps; ++step) static_cast<void>(iterator.next());
}

class DeviceInputTest : public testing::Test {
 protected:
  void TearDown() override { test::emulated_gpu::forget_order_errors(); }
};

TEST_F(DeviceInputTest, IsTheInputThatIsReadInTheStepsWay) {
  MirroredStrategy cpus({.devices = {"cpu:0", "cpu:1"}});
  MirroredStrategy gpus({.devices = two_gpus()});
  for (const int64_t ahead : {0, 1, 2, 7}) {
    SCOPED_TRACE(ahead);
    auto expected = cpus.distribute(batches()).iterator(0);
    auto actual = gpus.distribute(batches(), {.prefetch_to_device = ahead}).iterator(0);
    for (int step = 0; step < 8; ++step) {  // two behind the end
      const auto element = actual.next();
      EXPECT_TRUE(!element || element->get(1)[0].is_cuda());
      expect_equal(expected.next(), element);
      EXPECT_EQ(actual.position().to_string(), expected.position().to_string());
    }
  }
}

TEST_F(DeviceInputTest, GoesOnWhereItsConsumerWas) {
  MirroredStrategy gpus({.devices = two_gpus()});
  const auto input = gpus.distribute(batches().shuffle(5, {.seed = 3}));
  auto whole = input.iterator(1);
  skip(whole, 3);
  auto rest = input.iterator(0);
  skip(rest, 1);
  rest.restore(whole.position());
  for (int step = 0; step < 4; ++step) expect_equal(whole.next(), rest.next());
}

TEST_F(DeviceInputTest, ErrorsComeInTheirPlace) {
  MirroredStrategy gpus({.devices = two_gpus()});
  const Dataset broken = batches().map([](const Example& batch) {
    STRATA_CHECK(batch[0][0][0].item<float>() < 12, kDataLoss, "row 12 is damaged");
    return batch;
  });
  auto iterator = gpus.distribute(broken).iterator(0);
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(iterator.next().has_value());
  expect_error([&] { skip(iterator, 1); }, ErrorCode::kDataLoss, "row 12 is damaged");
}

TEST_F(DeviceInputTest, NobodyWaits) {
  MirroredStrategy gpus({.devices = two_gpus()});
  auto iterator = gpus.distribute(batches().repeat()).iterator(0);
  skip(iterator, 5);
  const auto before = test::emulated_gpu::counts();
  skip(iterator, 50);
  EXPECT_EQ(test::emulated_gpu::counts().host_waits, before.host_waits);
}

TEST_F(DeviceInputTest, CopiesBesideTheSteps) {
  using test::emulated_gpu::Cost;
  MirroredStrategy gpu({.devices = std::vector<std::string>{"gpu:0"}});
  constexpr int kSteps = 20;
  for (const int64_t ahead : {0, 2}) {
    SCOPED_TRACE(ahead);
    auto iterator = gpu.distribute(batches().repeat(), {.prefetch_to_device = ahead}).iterator(0);
    test::emulated_gpu::set_costs([](const Cost& cost) {
      if (cost.name == "copy to the device") return 0.8;
      return cost.name.starts_with("aten::sum") ? 1.0 : 0.0;
    });
    const double begin = test::emulated_gpu::now();
    for (int step = 0; step < kSteps; ++step) {
      const auto element = iterator.next();
      gpu.run([&] { element->get(0)[0].sum(); });
    }
    double end = begin;
    for (const auto& span : test::emulated_gpu::spans()) {
      if (span.name.starts_with("aten::sum")) end = span.end;
    }
    test::emulated_gpu::set_costs(nullptr);
    const double expected = ahead == 0 ? kSteps * 1.8 : 0.8 + kSteps;
    EXPECT_NEAR(end - begin, expected, 0.9);
  }
}

TEST_F(DeviceInputTest, RefusesANegativeNumber) {
  MirroredStrategy gpus({.devices = two_gpus()});
  expect_error([&] { gpus.distribute(batches(), {.prefetch_to_device = -1}); },
               "[distributed_dataset] prefetch_to_device: got -1; expected 0 (a batch is copied in "
               "its step's way) or more");
}

}  // namespace
}  // namespace strata
