// The emulated GPUs see what no wait orders, at the first run.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gpu/emulated/device.h"
#include "gpu/emulated/memory.h"
#include "gpu/emulated/order.h"

namespace strata::test {
namespace {

using namespace emulated_gpu;  // NOLINT(google-build-using-namespace)

const c10::Device kGpu(c10::kCUDA, 0);

c10::Stream new_stream(c10::Device device = kGpu) {
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getNewStream(device);
}

const c10::Stream kMain(c10::Stream::DEFAULT, kGpu);

c10::Event event_on(const c10::Stream& stream) {
  c10::Event event(c10::kCUDA);
  event.record(stream);
  return event;
}

/// Fails unless `run` is refused with an error that has all of these.
void expect_refusal(const std::function<void()>& run, const std::vector<std::string>& parts) {
  try {
    run();
    ADD_FAILURE() << "no error; expected: " << parts[0];
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    }
  }
}

class OrderTest : public testing::Test {
 protected:
  void TearDown() override { forget_order_errors(); }

  at::Tensor values_ = at::ones({64}, kGpu);
  const c10::Stream side_ = new_stream();
};

TEST_F(OrderTest, AReadBehindAWriteOnAnotherStream) {
  {
    const c10::StreamGuard guard(side_);
    // The write on the default stream was before the tensor reached this one.
    expect_refusal([&] { values_.add_(1); }, {"nothing orders", "aten::add_",
                                              "the default stream of gpu:0", "order_test.cc"});
  }
  event_on(kMain).block(side_);
  c10::Event done(c10::kCUDA);
  {
    const c10::StreamGuard guard(side_);
    values_.add_(1);
    done.record(side_);
  }
  expect_refusal([&] { values_.sum(); }, {"aten::sum", "aten::add_.Tensor on stream",
                                          "that reads memory behind", "order_test.cc"});
  done.block(kMain);
  EXPECT_EQ(values_.sum().item<float>(), 128);
}

TEST_F(OrderTest, AWriteBehindARead) {
  event_on(kMain).block(side_);
  at::Tensor sum;
  {
    const c10::StreamGuard guard(side_);
    sum = values_.sum();
  }
  expect_refusal([&] { values_.zero_(); }, {"that writes memory behind", "that reads it"});
  event_on(side_).block(kMain);
}

TEST_F(OrderTest, PartsOfATensorAreApart) {
  event_on(kMain).block(side_);
  at::Tensor left = values_.narrow(0, 0, 32);
  at::Tensor right = values_.narrow(0, 32, 32);
  {
    const c10::StreamGuard guard(side_);
    left.add_(1);
  }
  EXPECT_NO_THROW(right.add_(1));
  expect_refusal([&] { left.add_(1); }, {"nothing orders"});
  event_on(side_).block(kMain);
}

TEST_F(OrderTest, WhatTheHostHasWaitedForIsDone) {
  event_on(kMain).block(side_);
  const c10::Event unrelated = event_on(side_);
  {
    const c10::StreamGuard guard(side_);
    values_.add_(1);
  }
  unrelated.synchronize();
  expect_refusal([&] { values_.sum(); }, {"nothing orders"});
  const int64_t waits = counts().host_waits;
  event_on(side_).synchronize();
  EXPECT_EQ(counts().host_waits, waits + 1);
  EXPECT_EQ(values_.sum().item<float>(), 128);
}

TEST_F(OrderTest, DevicesWaitForOneAnotherInACopy) {
  if (num_devices() < 2) GTEST_SKIP() << "one emulated GPU";
  const at::Tensor there = values_.to(c10::Device(c10::kCUDA, 1), /*non_blocking=*/true);
  values_.zero_();
  EXPECT_EQ(there.sum().item<float>(), 64);
}

TEST_F(OrderTest, MemoryThatIsFreedUnderAnotherStream) {
  event_on(kMain).block(side_);
  at::Tensor sum;
  {
    const c10::StreamGuard guard(side_);
    sum = values_.sum();
  }
  values_.reset();
  expect_refusal(
      [&] { at::empty({3}, kGpu); },
      {"512 bytes were freed", "aten::sum.dim_IntList on stream", "record_stream", "TestBody"});
}

TEST_F(OrderTest, MemoryThatTheAllocatorKnowsToBeUsed) {
  event_on(kMain).block(side_);
  at::Tensor sum;
  {
    const c10::StreamGuard guard(side_);
    sum = values_.sum();
  }
  values_.record_stream(side_);
  values_.reset();
  EXPECT_NO_THROW(at::empty({3}, kGpu));
  // Waited for before memory is handed out.
  values_ = at::ones({64}, kGpu);
  event_on(kMain).block(side_);
  {
    const c10::StreamGuard guard(side_);
    sum = values_.sum();
  }
  event_on(side_).block(kMain);
  values_.reset();
  EXPECT_NO_THROW(at::empty({3}, kGpu));
}

TEST_F(OrderTest, FreshAndFreedMemoryIsNoNumber) {
  EXPECT_TRUE(std::isnan(at::empty({3}, kGpu).sum().item<float>()));
  const void* address = values_.const_data_ptr();
  values_.reset();
  const at::Tensor again = at::empty({64}, kGpu);
  ASSERT_EQ(again.const_data_ptr(), address);
  EXPECT_TRUE(std::isnan(again.sum().item<float>()));
}

TEST_F(OrderTest, PinnedMemoryIsReadUntilTheCopyIsDone) {
  at::Tensor host = at::full({64}, 3.0f, at::TensorOptions().pinned_memory(true));
  ASSERT_TRUE(host.is_pinned());
  const int64_t waits = counts().host_waits;
  const at::Tensor there = host.to(kGpu, /*non_blocking=*/true);
  EXPECT_EQ(counts().host_waits, waits);
  host.zero_();
  expect_refusal([&] { there.sum().item(); },
                 {"the host has written pinned memory", "order_test.cc"});
  const at::Tensor twice = host.to(kGpu, /*non_blocking=*/true);
  event_on(kMain).synchronize();
  host.fill_(1);
  EXPECT_EQ(twice.sum().item<float>(), 0);
}

TEST_F(OrderTest, PinnedMemoryIsWrittenWhenTheHostHasWaited) {
  at::Tensor host = at::zeros({64}, at::TensorOptions().pinned_memory(true));
  host.copy_(values_, /*non_blocking=*/true);
  EXPECT_TRUE(std::isnan(host[3].item<float>()));
  event_on(kMain).synchronize();
  EXPECT_EQ(host[3].item<float>(), 1);
}

TEST_F(OrderTest, PinnedMemoryThatNobodyWaitedFor) {
  at::Tensor host = at::zeros({64}, at::TensorOptions().pinned_memory(true));
  host.copy_(values_, /*non_blocking=*/true);
  EXPECT_TRUE(order_errors().empty());
  host.reset();
  ASSERT_EQ(order_errors().size(), 1U);
  EXPECT_NE(order_errors()[0].find("the host has not waited for that"), std::string::npos);
}

TEST_F(OrderTest, AHostThatWaitsForTheLastLetsTheCardRunDry) {
  const Counts before = counts();
  const c10::Event event = event_on(kMain);
  values_.add_(1);
  event.synchronize();
  EXPECT_EQ(counts().stalls, before.stalls);
  event_on(kMain).synchronize();
  EXPECT_EQ(counts().stalls, before.stalls + 1);
  EXPECT_EQ(counts().host_waits, before.host_waits + 2);
}

TEST_F(OrderTest, PageableMemoryMakesACopySynchronous) {
  const at::Tensor host = at::full({64}, 3.0f);
  const Counts before = counts();
  const at::Tensor there = host.to(kGpu, /*non_blocking=*/true);
  EXPECT_EQ(counts().synchronous_copies, before.synchronous_copies + 1);
  EXPECT_EQ(counts().host_waits, before.host_waits + 1);
}

TEST_F(OrderTest, WorkTakesModelledTime) {
  set_costs([](const Cost& cost) { return cost.name == "aten::add_.Tensor" ? 2.0 : 0.0; });
  const double begin = now();
  event_on(kMain).block(side_);
  at::Tensor left = values_.narrow(0, 0, 32);
  at::Tensor right = values_.narrow(0, 32, 32);
  left.add_(1);
  {
    const c10::StreamGuard guard(side_);
    right.add_(1);
  }
  EXPECT_EQ(now(), begin + 2);  // at the same time
  event_on(side_).block(kMain);
  values_.add_(1);
  EXPECT_EQ(now(), begin + 4);
  ASSERT_EQ(spans().size(), 3U);
  EXPECT_EQ(spans()[2].begin, begin + 2);
  set_costs(nullptr);
}

}  // namespace
}  // namespace strata::test
