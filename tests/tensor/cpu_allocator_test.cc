#include "strata/tensor/cpu_allocator.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/block_cache.h"

namespace strata::tensor {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

/// A tensor made before the installation, freed after it.
const at::Tensor& early_tensor() {
  static const at::Tensor tensor = at::ones({1000});
  return tensor;
}

class CpuAllocatorTest : public testing::Test {
 protected:
  void SetUp() override {
    early_tensor();
    ASSERT_EQ(setenv("STRATA_CPU_ALLOCATOR", "caching", 1), 0);  // also under a sanitizer
    ASSERT_TRUE(install_cpu_allocator());
  }
};

TEST(SizeClassTest, EveryClassHoldsItsBytesAndWastesLittle) {
  int last = -1;
  for (size_t bytes = 1; bytes < (size_t{1} << 40); bytes += bytes / 64 + 1) {
    const int index = size_class(bytes);
    ASSERT_GE(index, last);
    ASSERT_LT(index, kNumClasses);
    ASSERT_GE(class_bytes(index), bytes);
    if (index > 0) {
      ASSERT_LT(class_bytes(index - 1), bytes);
    }
    if (bytes > 256) {
      ASSERT_LE(class_bytes(index), bytes + bytes / 4);
    }
    ASSERT_EQ(class_bytes(index) % 64, 0u);
    last = index;
  }
  for (int index = 0; index < kNumClasses; ++index)
    ASSERT_EQ(size_class(class_bytes(index)), index);
}

TEST_F(CpuAllocatorTest, BlocksAreAlignedAndReused) {
  for (const int64_t bytes : {int64_t{1}, int64_t{64}, int64_t{1000}, int64_t{4096}, int64_t{5000},
                              int64_t{70000}, kMiB, 2 * kMiB - 1, 2 * kMiB, 3 * kMiB, 70 * kMiB}) {
    SCOPED_TRACE(bytes);
    void* first = nullptr;
    {
      const at::Tensor tensor = at::empty({bytes}, at::kByte);
      first = tensor.data_ptr();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
      if (bytes >= 2 * kMiB) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % (2 * kMiB), 0u);
      }
      std::memset(first, 1, bytes);
    }
    const int64_t before = cpu_allocator_stats().system_allocations;
    EXPECT_EQ(at::empty({bytes}, at::kByte).data_ptr(), first);
    EXPECT_EQ(cpu_allocator_stats().system_allocations, before);
  }
}

TEST_F(CpuAllocatorTest, LiveBlocksNeverOverlap) {
  std::mt19937 random(1);
  struct Live {
    at::Tensor tensor;
    uint8_t mark;
  };
  std::vector<Live> live;
  for (int i = 0; i < 4000; ++i) {
    if (live.size() > 100 || (random() % 3 == 0 && !live.empty())) {
      const size_t victim = random() % live.size();
      const auto [low, high] = live[victim].tensor.aminmax();
      ASSERT_EQ(low.item<uint8_t>(), live[victim].mark);
      ASSERT_EQ(high.item<uint8_t>(), live[victim].mark);
      std::swap(live[victim], live.back());
      live.pop_back();
    } else {
      const int64_t bytes = 1 + random() % (int64_t{1} << (random() % 22));
      const auto mark = static_cast<uint8_t>(random());
      live.push_back({at::full({bytes}, mark, at::kByte), mark});
    }
  }
}

TEST_F(CpuAllocatorTest, TensorsOfNoElementsAndOfTheOldAllocatorAreFine) {
  EXPECT_EQ(at::empty({0}).numel(), 0);
  EXPECT_EQ(early_tensor().sum().item<float>(), 1000);
  // oneDNN's way: what one allocator made is given to whatever allocator is set now.
  void* foreign = c10::GetDefaultCPUAllocator()->raw_allocate(1000);
  c10::GetCPUAllocator()->raw_deallocate(foreign);
  void* large = c10::GetDefaultCPUAllocator()->raw_allocate(40 * kMiB);
  c10::GetCPUAllocator()->raw_deallocate(large);
  const auto data = c10::GetCPUAllocator()->clone(early_tensor().data_ptr(), 400);
  EXPECT_EQ(std::memcmp(data.get(), early_tensor().data_ptr(), 400), 0);
}

TEST_F(CpuAllocatorTest, CountsWhatIsInUse) {
  const int64_t before = cpu_allocator_stats().in_use_bytes;
  {
    const at::Tensor small = at::empty({100}, at::kByte);
    const at::Tensor large = at::empty({4 * kMiB}, at::kByte);
    EXPECT_EQ(cpu_allocator_stats().in_use_bytes - before, 128 + 4 * kMiB);
  }
  EXPECT_EQ(cpu_allocator_stats().in_use_bytes, before);
  EXPECT_GE(cpu_allocator_stats().cached_large_bytes, 4 * kMiB);
}

TEST_F(CpuAllocatorTest, TrimGivesLargeBlocksBack) {
  { const at::Tensor large = at::ones({48 * kMiB}, at::kByte); }
  const auto before = cpu_allocator_stats();
  EXPECT_GE(trim_cpu_allocator(), 48 * kMiB);
  EXPECT_LE(cpu_allocator_stats().mapped_bytes, before.mapped_bytes - 48 * kMiB);
  EXPECT_EQ(cpu_allocator_stats().cached_large_bytes, 0);
  // And everything still works, the dropped pages of middle blocks included.
  EXPECT_EQ(at::ones({kMiB / 4}).sum().item<float>(), kMiB / 4);
}

TEST_F(CpuAllocatorTest, KeepsToItsBudget) {
  install_cpu_allocator({.max_cached_bytes = 20 * kMiB});
  for (int64_t size = 2; size <= 64; size += 2) {
    { const at::Tensor tensor = at::empty({size * kMiB}, at::kByte); }
    EXPECT_LE(cpu_allocator_stats().cached_large_bytes, 20 * kMiB);
  }
  install_cpu_allocator();  // a strategy's call leaves the program's choice alone
  { const at::Tensor tensor = at::empty({64 * kMiB}, at::kByte); }
  EXPECT_LE(cpu_allocator_stats().cached_large_bytes, 20 * kMiB);
  install_cpu_allocator({.max_cached_bytes = 1024 * kMiB});
}

TEST_F(CpuAllocatorTest, BlocksCrossThreads) {
  constexpr int kRounds = 3000;
  std::mutex mutex;
  std::condition_variable ready;
  std::deque<at::Tensor> queue;
  std::thread producer([&] {
    for (int i = 0; i < kRounds; ++i) {
      at::Tensor tensor = at::full({1 + i % 7 * 5000}, i, at::kInt);
      std::unique_lock lock(mutex);
      ready.wait(lock, [&] { return queue.size() < 16; });
      queue.push_back(std::move(tensor));
      ready.notify_all();
    }
  });
  const int64_t before = cpu_allocator_stats().mapped_bytes;
  for (int i = 0; i < kRounds; ++i) {
    at::Tensor tensor;
    {
      std::unique_lock lock(mutex);
      ready.wait(lock, [&] { return !queue.empty(); });
      tensor = std::move(queue.front());
      queue.pop_front();
      ready.notify_all();
    }
    ASSERT_EQ(tensor[-1].item<int>(), i);
  }
  producer.join();
  // A thread that only frees hands blocks on; the producer must not need new ones for ever.
  EXPECT_LE(cpu_allocator_stats().mapped_bytes - before, 64 * kMiB);
}

TEST_F(CpuAllocatorTest, ThreadsThatEndLeaveTheirBlocks) {
  const auto churn = [] {
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < 50; ++i) tensors.push_back(at::empty({100000 + i}, at::kByte));
    tensors.push_back(at::empty({6 * kMiB}, at::kByte));
  };
  std::thread(churn).join();
  const int64_t in_use = cpu_allocator_stats().in_use_bytes;
  const int64_t mapped = cpu_allocator_stats().mapped_bytes;
  for (int i = 0; i < 20; ++i) std::thread(churn).join();
  EXPECT_EQ(cpu_allocator_stats().mapped_bytes, mapped);
  EXPECT_EQ(cpu_allocator_stats().in_use_bytes, in_use);
}

TEST_F(CpuAllocatorTest, TensorsFreedByTheLastDestructorsOfAThreadAreFine) {
  std::thread([] {
    // Made before the thread's magazine, so destroyed after it.
    static thread_local std::vector<at::Tensor> keeper;
    keeper.reserve(2);
    keeper.push_back(at::ones({10}));
    keeper.push_back(at::ones({3 * kMiB}, at::kByte));
  }).join();
  EXPECT_EQ(at::ones({10}).sum().item<float>(), 10);
}

TEST_F(CpuAllocatorTest, ThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<bool> wrong{false};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<at::Tensor> live(20);
      for (int i = 0; i < 2000; ++i) {
        at::Tensor& slot = live[random() % live.size()];
        if (slot.defined() && slot[0].item<int>() != slot[-1].item<int>()) wrong = true;
        slot = at::full({1 + static_cast<int64_t>(random() % (1 << (random() % 20)))}, i, at::kInt);
        if (i % 500 == 0) trim_cpu_allocator();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(wrong);
}

TEST_F(CpuAllocatorTest, TooMuchIsAnErrorThatSaysSo) {
  try {
    (void)at::empty({int64_t{1} << 57}, at::kByte);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("[cpu_allocator] allocate: not enough memory for a tensor of"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(CpuAllocatorTest, AChildOfForkCanAllocate) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) (void)at::empty({100000}, at::kByte);
  });
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      bool fine = true;
      for (int k = 0; k < 100; ++k) {
        void* block = BlockCache::instance().allocate(static_cast<size_t>(k) * 50000 + 1);
        fine = fine && block != nullptr;
        std::memset(block, 1, 1);
        fine = BlockCache::instance().deallocate(block) && fine;
      }
      _exit(fine ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace strata::tensor
