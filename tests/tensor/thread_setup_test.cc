#include "tensor/thread_setup.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "core/thread.h"
#include "kernels/kernel_threads.h"
#include "strata/core/error.h"

namespace strata::tensor {
namespace {

using kernels::num_kernel_threads;
using kernels::parallel_for;

int threads_of_a_new_thread() {
  int count = 0;
  std::thread([&] { count = at::get_num_threads(); }).join();
  return count;
}

TEST(ThreadSetupTest, IntraOpThreadsAreTheThreadsOwn) {
  const int local = at::get_num_threads();
  const int fresh = threads_of_a_new_thread();
  int inside = 0;
  std::thread([&] {
    apply_thread_setup({.intra_op_threads = 3});
    inside = at::get_num_threads();
  }).join();
  EXPECT_EQ(inside, 3);
  EXPECT_EQ(at::get_num_threads(), local);
  EXPECT_EQ(threads_of_a_new_thread(), fresh);
}

/// Why set_num_threads is not used: if this fails, libtorch has mended it, and the table in the
/// header needs a new line.
TEST(ThreadSetupTest, LibtorchsOwnSettingReachesLaterThreads) {
  const int local = at::get_num_threads();
  const int fresh = threads_of_a_new_thread();
  std::thread([&] { at::set_num_threads(fresh + 5); }).join();
  EXPECT_EQ(at::get_num_threads(), local);
  EXPECT_EQ(threads_of_a_new_thread(), fresh + 5);
  std::thread([&] { at::set_num_threads(fresh); }).join();
  EXPECT_EQ(threads_of_a_new_thread(), fresh);
}

TEST(ThreadSetupTest, FlushingIsTheThreadsOwn) {
  std::thread([] {
    EXPECT_FALSE(denormals_flushed());
    apply_thread_setup({});
    EXPECT_TRUE(denormals_flushed());
    EXPECT_EQ((at::full({4}, std::numeric_limits<float>::min()) * 0.5).sum().item<float>(), 0);
    apply_thread_setup({.flush_denormals = false});
    EXPECT_FALSE(denormals_flushed());
  }).join();
  EXPECT_FALSE(denormals_flushed());
}

TEST(ThreadSetupTest, FlushingReachesTheWorkersOfTheThread) {
  std::thread([] {
    apply_thread_setup({.intra_op_threads = 2});
    // Large enough that libtorch splits it between both.
    const at::Tensor halves = at::full({1 << 20}, std::numeric_limits<float>::min()) * 0.5;
    EXPECT_EQ(halves.count_nonzero().item<int64_t>(), 0);
  }).join();
}

// A replica has one thread for libtorch's operators and more for this library's.
TEST(ThreadSetupTest, KernelsHaveThreadsOfTheirOwn) {
  const int before = num_kernel_threads();
  EXPECT_EQ(before, at::get_num_threads());
  std::thread([] {
    {
      const ThreadSetupGuard guard({.intra_op_threads = 1, .kernel_threads = 3});
      EXPECT_EQ(at::get_num_threads(), 1);
      EXPECT_EQ(num_kernel_threads(), 3);
      std::mutex mutex;
      std::set<int> parts;
      parallel_for(0, 3, 1, [&](int64_t begin, int64_t end) {
        const std::lock_guard lock(mutex);
        EXPECT_EQ(end - begin, 1);
        parts.insert(static_cast<int>(begin));
      });
      EXPECT_EQ(parts, (std::set<int>{0, 1, 2}));
      EXPECT_EQ(at::get_num_threads(), 1);
      // Denormals are flushed on all three.
      std::atomic<int> flushing = 0;
      parallel_for(0, 3, 1, [&](int64_t, int64_t) { flushing += denormals_flushed() ? 1 : 0; });
      EXPECT_EQ(flushing, 3);
    }
    EXPECT_EQ(num_kernel_threads(), at::get_num_threads());
  }).join();
  EXPECT_EQ(num_kernel_threads(), before);
}

TEST(ThreadSetupTest, PinsAndNames) {
  const auto all = allowed_cores();
  ASSERT_FALSE(all.empty());
  std::thread([&] {
    apply_thread_setup({.name = "strata-replica-0-and-more", .cores = {all.back()}});
    EXPECT_EQ(allowed_cores(), std::vector<int>{all.back()});
    EXPECT_EQ(thread_name(), "strata-replica-");
  }).join();
  EXPECT_EQ(allowed_cores(), all);
}

TEST(ThreadSetupTest, GuardPutsEverythingBack) {
  const auto cores = allowed_cores();
  const int threads = at::get_num_threads();
  const std::string name = thread_name();
  {
    const ThreadSetupGuard guard(
        {.name = "guarded", .cores = {cores.front()}, .intra_op_threads = threads + 1});
    EXPECT_EQ(thread_name(), "guarded");
    EXPECT_EQ(at::get_num_threads(), threads + 1);
    EXPECT_TRUE(denormals_flushed());
  }
  EXPECT_EQ(allowed_cores(), cores);
  EXPECT_EQ(at::get_num_threads(), threads);
  EXPECT_EQ(thread_name(), name);
  EXPECT_FALSE(denormals_flushed());
}

TEST(ThreadSetupTest, BadInputIsNamed) {
  try {
    apply_thread_setup({.cores = {100000}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(
        std::string(error.what())
            .starts_with(
                "[thread_setup] apply_thread_setup: got cores 100000; expected some that this "
                "process may use, now 0"))
        << error.what();
  }
  try {
    apply_thread_setup({.intra_op_threads = -1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[thread_setup] apply_thread_setup: got -1 intra-op threads; expected at least 1, "
                 "or 0 for no change");
  }
  try {
    apply_thread_setup({.kernel_threads = -2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[thread_setup] apply_thread_setup: got -2 kernel threads; expected at least 1, 0 "
                 "for no change, or kLibtorchThreads");
  }
}

}  // namespace
}  // namespace strata::tensor
