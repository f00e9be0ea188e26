#include "collective/shared_memory/shared_memory_communicator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <latch>

#include "collective/communicator_ranks.h"
#include "support/expect_error.h"

namespace strata::collective {
namespace {

using namespace std::chrono_literals;

constexpr const char* kKind = "shared_memory";

/// Mappings of this process whose file has that name.
int mappings(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(name) != std::string::npos;
  return count;
}

at::Tensor in_buffer(Communicator& c, const at::Tensor& value) {
  at::Tensor buffer = c.buffer(value.numel(), value.scalar_type());
  buffer.copy_(value);
  return buffer;
}

// The bits are those of other tensors, whichever ranks use buffers.
TEST(SharedMemoryCommunicatorTest, BuffersAreReducedInPlace) {
  std::vector<Placement> placements = {Placement::blocks({1, 1}),
                                       Placement::blocks({1, 1, 1, 1, 1}),
                                       Placement::blocks({3, 3, 2}), Placement::blocks({4, 0, 4})};
  placements.push_back({.rank_of_replica = {0, 1, 2, 2, 1, 0, 0, 2}, .host_of_rank = {0, 0, 0}});
  enum Who { kAll, kFirstOnly, kResultElsewhere };
  for (const Placement& placement : placements) {
    Ranks ranks(kKind, placement);
    uint32_t id = 0;
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kChar}) {
      for (const int64_t size : {100, 40'000, 2'100'001}) {
        const auto values = values_of(placement, size, dtype);
        const at::Tensor expected = reduce_in_order(values, ReduceOp::kSum);
        for (const Who who : {kAll, kFirstOnly, kResultElsewhere}) {
          if (size > 100'000 && (dtype != at::kFloat || who == kFirstOnly)) continue;
          ++id;
          ranks.run([&](Communicator& c) {
            std::vector<at::Tensor> local;
            for (const int replica : c.replicas()) {
              local.push_back(values[static_cast<size_t>(replica)].clone());
            }
            // The same buffers on all ranks, whoever uses them.
            for (int i = 0; i < 4; ++i) {
              at::Tensor buffer = c.buffer(size, dtype);
              EXPECT_TRUE(at::equal(buffer, at::zeros_like(buffer)));
              const auto place = static_cast<size_t>(i);
              if (place >= local.size() || (who == kFirstOnly && c.rank() != 0)) continue;
              local[place] = buffer.copy_(local[place]);
            }
            at::Tensor apart = c.buffer(size, dtype);
            at::Tensor result = who == kResultElsewhere ? at::empty({size}, dtype)
                                : local.empty()         ? apart
                                                        : local[0];
            c.all_reduce(local, result, ReduceOp::kSum, {.id = id});
            EXPECT_TRUE(same_bits(result, expected)) << c.rank() << " of " << c.num_ranks() << ", "
                                                     << size << " " << dtype << ", " << who;
            for (size_t i = who == kResultElsewhere ? 0 : 1; i < local.size(); ++i) {
              EXPECT_TRUE(same_bits(local[i], values[static_cast<size_t>(c.replicas()[i])]));
            }
          });
        }
      }
    }
  }
}

TEST(SharedMemoryCommunicatorTest, OtherCollectivesOfBuffers) {
  for (const int n : {2, 3}) {
    const Placement placement = Placement::blocks(std::vector<int>(static_cast<size_t>(n), 1));
    Ranks ranks(kKind, placement);
    for (const int64_t part : {50, 20'000, 1'100'000}) {
      const auto values = values_of(placement, part * n, at::kFloat);
      const at::Tensor sum = reduce_in_order(values, ReduceOp::kMean);
      ranks.run([&](Communicator& c) {
        const int64_t begin = part * c.rank();
        const at::Tensor& own = values[static_cast<size_t>(c.rank())];
        const at::Tensor given = in_buffer(c, own);
        at::Tensor local = at::empty({part});
        c.reduce_scatter({given}, local, ReduceOp::kMean);
        EXPECT_TRUE(same_bits(local, sum.slice(0, begin, begin + part)));
        EXPECT_TRUE(same_bits(given, own));
        at::Tensor all = c.buffer(part * n, at::kFloat);
        c.all_gather(local, all);
        EXPECT_TRUE(same_bits(all, sum));
        for (const bool only_root : {true, false}) {
          at::Tensor everywhere = c.buffer(part * n, at::kFloat);
          if (only_root && c.rank() != 1) everywhere = at::empty({part * n});
          if (c.rank() == 1) everywhere.copy_(sum);
          c.broadcast_(everywhere, 1);
          EXPECT_TRUE(same_bits(everywhere, sum));
        }
      });
    }
  }
}

TEST(SharedMemoryCommunicatorTest, ABuffersMemoryGoesWithItsLastUser) {
  ASSERT_EQ(mappings("strata buffer"), 0);
  at::Tensor kept;
  {
    Ranks ranks(kKind, Placement::blocks({1, 1}));
    ranks.run([&](Communicator& c) {
      for (int i = 0; i < 5; ++i) {
        at::Tensor buffer = c.buffer(100'000, at::kFloat);
        c.all_reduce_(buffer, ReduceOp::kSum);
      }
      c.barrier();
      // Every rank looks when it searches for a tensor.
      at::Tensor plain = at::ones({100'000});
      c.all_reduce_(plain, ReduceOp::kSum);
    });
    EXPECT_EQ(mappings("strata buffer"), 0);
    ranks.run([&](Communicator& c) {
      at::Tensor buffer = c.buffer(1000, at::kInt);
      if (c.rank() == 0) kept = buffer;
    });
    EXPECT_EQ(mappings("strata buffer"), 2);
  }
  EXPECT_EQ(mappings("strata collectives"), 0);
  EXPECT_EQ(mappings("strata buffer"), 1);
  kept.fill_(3);
  EXPECT_EQ(kept.sum().item<int64_t>(), 3000);
  kept = at::Tensor();
  EXPECT_EQ(mappings("strata buffer"), 0);
}

TEST(SharedMemoryCommunicatorTest, WhatARankWritesIntoItsBufferOrTheCommonOneTheOthersSee) {
  constexpr int kRanks = 3;
  Ranks ranks(kKind, Placement::blocks({1, 1, 1}));
  ranks.run([&](Communicator& c) {
    ASSERT_TRUE(c.shares_memory());
    const std::vector<at::Tensor> each = c.buffers(5000, at::kInt);
    ASSERT_EQ(each.size(), size_t{kRanks});
    // No multiple of a page for each rank: it must be one piece all the same.
    const at::Tensor common = c.common_buffer(10'000, at::kDouble);
    EXPECT_TRUE(common.is_contiguous());
    EXPECT_EQ(common.count_nonzero().item<int64_t>(), 0);
    c.barrier();
    each[static_cast<size_t>(c.rank())].fill_(c.rank() + 1);
    for (int64_t i = c.rank(); i < common.numel(); i += kRanks) {
      common.mutable_data_ptr<double>()[i] = static_cast<double>(i);
    }
    c.barrier();
    for (int other = 0; other < kRanks; ++other) {
      EXPECT_TRUE(
          at::equal(each[static_cast<size_t>(other)], at::full({5000}, other + 1, at::kInt)));
    }
    EXPECT_TRUE(at::equal(common, at::arange(10'000, at::kDouble)));
  });
}

TEST(SharedMemoryCommunicatorTest, OthersHaveNoMemoryInCommon) {
  Ranks ranks("memory", Placement::blocks({1, 1}));
  ranks.run([&](Communicator& c) {
    EXPECT_FALSE(c.shares_memory());
    const std::string why =
        str_cat(": got ", c.describe(),
                "; expected ranks that share memory: ask shares_memory() first, or use buffer()");
    expect_error([&] { c.buffers(1, at::kInt); }, ErrorCode::kFailedPrecondition,
                 "[collective] buffers" + why);
    expect_error([&] { c.common_buffer(1, at::kInt); }, ErrorCode::kFailedPrecondition,
                 "[collective] common_buffer" + why);
  });
}

TEST(SharedMemoryCommunicatorTest, DifferentBuffersAreAnErrorThatNamesBoth) {
  Ranks ranks(kKind, Placement::blocks({1, 1}));
  const auto messages = errors_of(
      ranks, 2, [](Communicator& c) { static_cast<void>(c.buffer(10 + c.rank(), at::kFloat)); },
      ErrorCode::kFailedPrecondition);
  for (const std::string& message : messages) {
    EXPECT_NE(message.find("(/job:worker/task:0) for 10 Float"), std::string::npos) << message;
    EXPECT_NE(message.find("(/job:worker/task:1) for 11 Float"), std::string::npos) << message;
  }
}

TEST(SharedMemoryCommunicatorTest, ARankThatHasEndedIsNamed) {
  Ranks ranks(kKind, Placement::blocks({1, 1}));
  const auto messages = errors_of(
      ranks, 2,
      [&](Communicator& c) {
        at::Tensor x = at::ones({70'000});
        c.all_reduce_(x, ReduceOp::kSum);  // whoever has come may end
        if (c.rank() == 1) return ranks.end(1);
        c.barrier({.timeout = 20s});
      },
      ErrorCode::kUnavailable);
  EXPECT_NE(messages[0].find("rank 1 (/job:worker/task:1) has ended"), std::string::npos)
      << messages[0];
}

TEST(SharedMemoryCommunicatorTest, WhenTheGenerationHasFailedNobodyWaits) {
  std::stop_source failed;
  Ranks ranks(kKind, Placement::blocks({1, 1, 1}), {},
              {.failed = failed.get_token(), .reason = [] {
                 return Status(ErrorCode::kUnavailable, "/job:worker/task:2 is silent");
               }});
  std::latch waiting(2);
  const auto messages = errors_of(
      ranks, 3,
      [&](Communicator& c) {
        if (c.rank() == 2) {  // stopped
          waiting.wait();
          failed.request_stop();
          return;
        }
        at::Tensor x = at::ones({5});
        waiting.count_down();
        c.all_reduce_(x, ReduceOp::kSum, {.timeout = 60s});
      },
      ErrorCode::kUnavailable);
  for (const int rank : {0, 1}) {
    const std::string& message = messages[static_cast<size_t>(rank)];
    EXPECT_NE(message.find("/job:worker/task:2 is silent"), std::string::npos) << message;
  }
}

// Who was cut off says that it has lost another.
TEST(SharedMemoryCommunicatorTest, WhomTheOthersHaveLostIsExplained) {
  std::string seen;
  Ranks ranks(kKind, Placement::blocks({1, 1}), {}, {.root_cause = [&](const Status& status) {
                seen = status.message();
                return Status(ErrorCode::kUnavailable, "/job:worker/task:1 is lost");
              }});
  const auto messages = errors_of(
      ranks, 2,
      [&](Communicator& c) {
        if (c.rank() == 1) return c.fail({ErrorCode::kUnavailable, "/job:worker/task:0 is lost"});
        c.barrier({.timeout = 60s});
      },
      ErrorCode::kUnavailable);
  EXPECT_EQ(messages[0], "/job:worker/task:1 is lost");
  EXPECT_NE(seen.find("/job:worker/task:0 is lost"), std::string::npos) << seen;
}

TEST(SharedMemoryCommunicatorTest, WhereNothingCanBeSharedAllAreToldAndTheWireStillWorks) {
  Ranks ranks("memory", Placement::blocks({1, 1, 1}));
  // A system that allows only tiny files.
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tiny = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tiny), 0);
  const auto messages = errors_of(
      ranks, 3,
      [&](Communicator& c) {
        const std::shared_ptr<Communicator> wire(std::shared_ptr<void>(), &c);
        SharedMemoryCommunicator shared(wire, {.name = wire::task_name(c.rank())});
      },
      ErrorCode::kUnavailable);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  for (const std::string& message : messages) {
    EXPECT_TRUE(
        message.starts_with("[collective] SharedMemoryCommunicator: rank 0 "
                            "(/job:worker/task:0) cannot share memory: a memory file of "))
        << message;
    EXPECT_TRUE(message.ends_with(" bytes: File too large; use the wire")) << message;
  }
  ranks.run([](Communicator& c) { c.barrier({.timeout = 20s}); });
}

TEST(SharedMemoryCommunicatorTest, APeerThatDoesNotComeToTheSetUpEndsIt) {
  Ranks ranks("memory", Placement::blocks({1, 1}));
  const auto messages = errors_of(
      ranks, 2,
      [&](Communicator& c) {
        if (c.rank() == 1) return;
        const std::shared_ptr<Communicator> wire(std::shared_ptr<void>(), &c);
        SharedMemoryCommunicator shared(wire, {.start_timeout = 50ms});
      },
      ErrorCode::kDeadlineExceeded);
  EXPECT_NE(messages[0].find("setting up shared memory"), std::string::npos) << messages[0];
}

}  // namespace
}  // namespace strata::collective
