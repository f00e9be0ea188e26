// Sums between cards over NCCL, whose interface the fake NCCL has: in one process here.

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "collective/cards/card_communicator.h"
#include "collective/nccl/nccl_transport.h"
#include "gpu/emulated/device.h"
#include "gpu/emulated/order.h"
#include "gpu/fake_nccl/fake_nccl.h"
#include "strata/core/error.h"
#include "strata/runtime/devices.h"
#include "strategies/measure_cards.h"
#include "tensor/stream_event.h"

namespace strata::collective::nccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class NcclTransportTest : public testing::Test {
 protected:
  void TearDown() override {
    fake_nccl_set_faults("");
    EXPECT_TRUE(test::emulated_gpu::order_errors().empty());
    test::emulated_gpu::forget_order_errors();
  }

  static CardCommunicator make(Order order, milliseconds timeout = seconds(60)) {
    const int cards = test::emulated_gpu::num_devices();
    CardCommunicator::Options options{.communication = {.order = order}};
    for (int i = 0; i < cards; ++i) {
      options.devices.emplace_back(c10::kCUDA, static_cast<c10::DeviceIndex>(i));
      options.replicas.push_back(i);
      options.hosts.push_back(i / 2);
    }
    options.transport =
        std::make_shared<NcclTransport>(NcclTransport::Options{.num_ranks = cards,
                                                               .ranks = options.replicas,
                                                               .devices = options.devices,
                                                               .id = NcclTransport::new_id(),
                                                               .timeout = timeout});
    return CardCommunicator(std::move(options));
  }

  /// Values of all replicas, added on their cards. @return the sums, read by the host.
  static std::vector<at::Tensor> sum(CardCommunicator& cards, const std::vector<at::Tensor>& here) {
    std::vector<at::Tensor> values;
    for (size_t i = 0; i < here.size(); ++i) {
      values.push_back(
          here[i].to(cards.devices()[i]));  // which waits, so that it is ready anywhere
    }
    const auto wait_for_sums = [&] {
      for (size_t i = 0; i < values.size(); ++i) {
        c10::Event done(c10::kCUDA);
        done.record(cards.streams()[i]);
        done.block(tensor::current_stream(cards.devices()[i]));
      }
    };
    try {
      cards.all_reduce(values, ReduceOp::kSum, "a test");
    } catch (...) {
      wait_for_sums();  // of what was enqueued, before the memory is free
      throw;
    }
    wait_for_sums();
    std::vector<at::Tensor> sums;
    for (const at::Tensor& value : values) sums.push_back(value.cpu());
    return sums;
  }

  static std::vector<at::Tensor> random_values(int64_t size) {
    std::vector<at::Tensor> values;
    for (int i = 0; i < test::emulated_gpu::num_devices(); ++i) values.push_back(at::randn({size}));
    return values;
  }
};

TEST_F(NcclTransportTest, FixedOrderHasItsBits) {
  CardCommunicator cards = make(Order::kFixed);
  fake_nccl_reset_counters();
  for (const int64_t size : {1, 100, 50001}) {
    const auto values = random_values(size);
    const at::Tensor expected = reduce_in_order(values, ReduceOp::kSum);
    for (const at::Tensor& each : sum(cards, values)) EXPECT_TRUE(at::equal(each, expected));
  }
  EXPECT_GT(fake_nccl_operations("Send"), 0U);
  EXPECT_EQ(fake_nccl_operations("AllReduce"), 0U);
}

TEST_F(NcclTransportTest, AnyOrderIsNcclsAllReduce) {
  CardCommunicator cards = make(Order::kAny);
  fake_nccl_reset_counters();
  const auto values = random_values(5001);
  const at::Tensor expected = reduce_in_order(values, ReduceOp::kSum);
  for (const at::Tensor& each : sum(cards, values))
    EXPECT_TRUE(at::allclose(each, expected, 1e-5, 1e-5));
  EXPECT_EQ(fake_nccl_operations("AllReduce"),
            static_cast<unsigned long long>(test::emulated_gpu::num_devices()));
}

TEST_F(NcclTransportTest, AnErrorOfNcclEndsAllAndIsTold) {
  fake_nccl_set_faults("error:rank=1,call=1");
  CardCommunicator broken = make(Order::kFixed);
  try {
    sum(broken, random_values(1000));
  } catch (const Error&) {  // where NCCL has told at once
  }
  const auto deadline = std::chrono::steady_clock::now() + seconds(10);
  while (broken.status().ok() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  const Status status = broken.status();
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
  EXPECT_NE(status.message().find("a test"), std::string::npos) << status.message();
  EXPECT_THROW(sum(broken, random_values(10)), Error);
}

TEST_F(NcclTransportTest, AStalledCallEndsAtItsDeadline) {
  fake_nccl_set_faults("stall:rank=0,call=1");
  CardCommunicator cards = make(Order::kFixed, milliseconds(500));
  sum(cards, random_values(1000));  // its read waits until the call is ended
  const Status status = cards.status();
  EXPECT_EQ(status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "a test: has not ended on the cards after 500 ms");
}

TEST_F(NcclTransportTest, ValuesAreGatheredByNccl) {
  CardCommunicator cards = make(Order::kFixed);
  fake_nccl_reset_counters();
  const auto here = random_values(7);
  std::vector<at::Tensor> values, results;
  for (size_t i = 0; i < here.size(); ++i) {
    values.push_back(here[i].to(cards.devices()[i]));
    results.push_back(at::zeros({static_cast<int64_t>(here.size()), 7}, values.back().options()));
    c10::Event ready(c10::kCUDA);
    ready.record(tensor::current_stream(cards.devices()[i]));
    ready.block(cards.for_values().streams()[i]);
  }
  cards.for_values().all_gather(values, results, "a test");
  for (size_t i = 0; i < here.size(); ++i) {
    cards.for_values().streams()[i].synchronize();
    EXPECT_TRUE(at::equal(results[i].cpu(), at::stack(here)));
  }
  EXPECT_EQ(fake_nccl_operations("AllGather"), here.size());
}

TEST_F(NcclTransportTest, WhatEndsTheSumsOfGradientsEndsThoseOfValues) {
  for (const bool values_fail : {false, true}) {
    CardCommunicator cards = make(Order::kFixed);
    CardCommunicator& values = cards.for_values();
    (values_fail ? values : cards).fail(Status(ErrorCode::kUnavailable, "a test's end"));
    const auto deadline = std::chrono::steady_clock::now() + seconds(10);
    const auto other = [&] { return values_fail ? cards.status() : values.status(); };
    while (other().ok() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(other().message(), "a test's end");
    EXPECT_THROW(sum(values_fail ? cards : values, random_values(10)), Error);
  }
}

TEST_F(NcclTransportTest, EveryWayOfSummingIsMeasured) {
  std::vector<LogicalDevice> devices;
  for (const char* name : {"gpu:0", "gpu:1", "gpu:2"}) devices.push_back(find_device(name));
  const strata::detail::MeasureCardsOptions options{
      .bytes = {1 << 12, 1 << 16}, .samples = 3, .sample_time = seconds(0)};
  fake_nccl_reset_counters();
  const auto timings = strata::detail::measure_cards(devices, options);
  EXPECT_GT(fake_nccl_operations("AllReduce"), 0U);
  ASSERT_EQ(timings.size(), 3U);
  for (const SumTiming& timing : timings) {
    EXPECT_EQ(timing.why_not, "");
    ASSERT_EQ(timing.sizes.size(), 2U) << timing.way;
    for (size_t i = 0; i < 2; ++i) {
      const SumTiming::Size& size = timing.sizes[i];
      EXPECT_EQ(size.bytes, options.bytes[i]);
      EXPECT_GT(size.low, 0) << timing.way;
      EXPECT_LE(size.low, size.median);
      EXPECT_LE(size.median, size.high);
    }
  }
}

TEST_F(NcclTransportTest, OnOneCardThereAreOnlyCopiesToMeasure) {
  set_logical_devices("gpu:0", 2);
  const auto timings = strata::detail::measure_cards({find_device("gpu:0"), find_device("gpu:1")},
                                                     {.bytes = {1 << 12}, .samples = 1});
  set_logical_devices("gpu:0", 1);
  ASSERT_EQ(timings.size(), 3U);
  EXPECT_EQ(timings[0].sizes.size(), 1U);
  for (const size_t nccl : {1, 2}) {
    EXPECT_TRUE(timings[nccl].sizes.empty());
    EXPECT_NE(timings[nccl].why_not.find("several replicas share a card"), std::string::npos);
  }
}

TEST_F(NcclTransportTest, AProcessThatDoesNotComeIsADeadline) {
  NcclTransport::Options options{.num_ranks = 2,
                                 .ranks = {0},
                                 .devices = {c10::Device(c10::kCUDA, 0)},
                                 .id = NcclTransport::new_id(),
                                 .timeout = milliseconds(300)};
  try {
    const NcclTransport alone(options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_STREQ(error.what(),
                 "[nccl] making the communicators of 2 cards: has not ended after 300 ms; are all "
                 "processes running?");
  }
}

}  // namespace
}  // namespace strata::collective::nccl
