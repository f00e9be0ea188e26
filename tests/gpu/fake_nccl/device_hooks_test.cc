// What the library tells emulated GPUs: this executable has hooks of its own.
#include "gpu/fake_nccl/device_hooks.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "gpu/fake_nccl/test_ranks.h"

namespace strata::test::fake_nccl {
namespace {

// Device addresses are the host's and this.
constexpr uintptr_t kOffset = uintptr_t{1} << 56;

const void* on_device(const void* host) {
  return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(host) + kOffset);
}
void* on_device(void* host) { return const_cast<void*>(on_device(static_cast<const void*>(host))); }

struct Enqueued {
  void* stream = nullptr;
  std::string name;
  std::vector<Range> reads;
  std::vector<Range> writes;
  std::thread::id thread;
  bool cancelled = false;
};

// One stream's operations are ready when the test says so.
struct Device {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  std::vector<Enqueued*> enqueued;
  std::map<const Enqueued*, int> completed;  // 0 well, 1 failed

  void reset() {
    const std::lock_guard lock(mutex);
    for (Enqueued* each : enqueued) delete each;
    enqueued.clear();
    completed.clear();
    open = false;
  }
  void let_go() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  bool await_completed(size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::milliseconds(kPatienceMs),
                            [&] { return completed.size() == count; });
  }
};

Device& device() {
  static Device one;
  return one;
}

thread_local int current_device = 0;

const DeviceHooks kHooks = {
    .size = sizeof(DeviceHooks),
    .current_device = [] { return current_device; },
    .host_address =
        [](const void* address) {
          return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) - kOffset);
        },
    .enqueue = [](void* stream, const char* name, const Range* reads, size_t n_reads,
                  const Range* writes, size_t n_writes) -> void* {
      auto* const token = new Enqueued{.stream = stream,
                                       .name = name,
                                       .reads = {reads, reads + n_reads},
                                       .writes = {writes, writes + n_writes},
                                       .thread = std::this_thread::get_id()};
      const std::lock_guard lock(device().mutex);
      device().enqueued.push_back(token);
      return token;
    },
    .wait_ready =
        [](void* given) {
          auto* const token = static_cast<Enqueued*>(given);
          std::unique_lock lock(device().mutex);
          device().changed.wait(lock, [&] { return token->cancelled || device().open; });
          return token->cancelled ? 0 : 1;
        },
    .cancel =
        [](void* given) {
          const std::lock_guard lock(device().mutex);
          static_cast<Enqueued*>(given)->cancelled = true;
          device().changed.notify_all();
        },
    .complete =
        [](void* given, int failed) {
          const std::lock_guard lock(device().mutex);
          const bool is_first =
              device().completed.emplace(static_cast<Enqueued*>(given), failed).second;
          EXPECT_TRUE(is_first);
          device().changed.notify_all();
        },
};

// Two communicators of this thread, on two devices.
class DeviceHooksTest : public testing::Test {
 protected:
  DeviceHooksTest() {
    device().reset();
    const ncclResult_t made = ncclCommInitAll(comms_, 2, nullptr);
    EXPECT_EQ(made, ncclSuccess) << ncclGetLastError(nullptr);
  }
  ~DeviceHooksTest() override {
    device().let_go();
    for (ncclComm_t comm : comms_) ncclCommDestroy(comm);
  }

  static cudaStream_t stream(size_t number) { return reinterpret_cast<cudaStream_t>(number); }

  ncclComm_t comms_[2] = {};
};

TEST_F(DeviceHooksTest, AnOperationIsEnqueuedByItsCallAndWaitsForItsStream) {
  float values[2][3] = {{1, 2, 3}, {10, 20, 30}};
  float results[2][3] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ncclAllReduce(on_device(values[i]), on_device(results[i]), 3, ncclFloat32, ncclSum,
                            comms_[i], stream(7)),
              ncclSuccess);
  }
  EXPECT_TRUE(device().enqueued.empty());
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  {
    const std::lock_guard lock(device().mutex);
    ASSERT_EQ(device().enqueued.size(), 2U);
    EXPECT_TRUE(device().completed.empty());
    const Enqueued& second = *device().enqueued[1];
    EXPECT_EQ(second.name, "ncclAllReduce");
    EXPECT_EQ(second.stream, stream(7));
    EXPECT_EQ(second.thread, std::this_thread::get_id());
    ASSERT_EQ(second.reads.size(), 1U);
    EXPECT_EQ(second.reads[0].begin, on_device(values[1]));
    EXPECT_EQ(second.reads[0].bytes, 12U);
    ASSERT_EQ(second.writes.size(), 1U);
    EXPECT_EQ(second.writes[0].begin, on_device(results[1]));
    EXPECT_EQ(second.writes[0].bytes, 12U);
  }
  EXPECT_EQ(results[0][0], 0);
  device().let_go();
  ASSERT_TRUE(device().await_completed(2));
  EXPECT_EQ(results[0][2], 33);
  EXPECT_EQ(results[1][0], 11);
  for (const auto& [token, failed] : device().completed) EXPECT_EQ(failed, 0);
}

TEST_F(DeviceHooksTest, AGroupIsOneOperationOnEachOfItsStreams) {
  float from[2] = {1, 2};
  float to[2] = {};
  float sum[2] = {5, 6};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < 2; ++i) {
    const int peer = 1 - i;
    ASSERT_EQ(ncclSend(on_device(&from[i]), 1, ncclFloat32, peer, comms_[i], stream(1)),
              ncclSuccess);
    ASSERT_EQ(ncclRecv(on_device(&to[i]), 1, ncclFloat32, peer, comms_[i], stream(1)), ncclSuccess);
    ASSERT_EQ(ncclBroadcast(on_device(&sum[i]), on_device(&sum[i]), 1, ncclFloat32, 1, comms_[i],
                            stream(2)),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  std::vector<std::string> names;
  for (const Enqueued* each : device().enqueued) names.push_back(each->name);
  EXPECT_EQ(names, (std::vector<std::string>{"ncclSend+Recv", "ncclBroadcast", "ncclSend+Recv",
                                             "ncclBroadcast"}));
  EXPECT_EQ(device().enqueued[0]->reads.size(), 1U);
  EXPECT_EQ(device().enqueued[0]->writes.size(), 1U);
  EXPECT_TRUE(device().enqueued[1]->reads.empty());  // rank 0 is not the root
  device().let_go();
  ASSERT_TRUE(device().await_completed(4));
  EXPECT_EQ(to[0], 2);
  EXPECT_EQ(to[1], 1);
  EXPECT_EQ(sum[0], 6);
}

TEST_F(DeviceHooksTest, AnAbortCompletesWhatTheStreamHasNotReached) {
  float value = 1;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ncclAllReduce(on_device(&value), on_device(&value), 1, ncclFloat32, ncclSum,
                            comms_[0], stream(1)),
              ncclSuccess);
  }
  EXPECT_EQ(ncclCommAbort(std::exchange(comms_[0], nullptr)), ncclSuccess);
  ASSERT_EQ(device().completed.size(), 2U);
  for (const auto& [token, failed] : device().completed) EXPECT_EQ(failed, 1);
  EXPECT_EQ(await_error(comms_[1]), ncclRemoteError);
}

TEST_F(DeviceHooksTest, ACommunicatorHasTheDeviceOfItsThread) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  in_threads(2, [&](int rank) {
    current_device = 5 + rank;
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess);
    int its = 0;
    EXPECT_EQ(ncclCommCuDevice(comm, &its), ncclSuccess);
    EXPECT_EQ(its, 5 + rank);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  in_threads(2, [&](int rank) {
    current_device = 3;
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclInvalidUsage);
  });
}

}  // namespace
}  // namespace strata::test::fake_nccl

extern "C" __attribute__((visibility("default"))) const strata::test::fake_nccl::DeviceHooks*
strata_emulated_device_hooks() {
  return &strata::test::fake_nccl::kHooks;
}
