// What each function computes, against plain loops.
#include <algorithm>

#include "gpu/fake_nccl/test_ranks.h"

namespace strata::test::fake_nccl {
namespace {

constexpr size_t kCounts[] = {0, 1, 5, 1000};
constexpr ncclRedOp_t kOps[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};

// Small numbers, which every type holds, and their sums.
double value_of(int rank, size_t index) {
  return 1 + static_cast<double>((static_cast<size_t>(rank) * 7 + index * 3) % 2);
}

double reduced(ncclDataType_t type, ncclRedOp_t op, int ranks, size_t index) {
  double result = value_of(0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = value_of(rank, index);
    if (op == ncclSum || op == ncclAvg) result += next;
    if (op == ncclProd) result *= next;
    if (op == ncclMax) result = std::max(result, next);
    if (op == ncclMin) result = std::min(result, next);
  }
  if (op == ncclAvg) result = is_integer(type) ? std::floor(result / ranks) : result / ranks;
  return result;
}

void fill(Values& values, size_t count, int rank, size_t first = 0) {
  for (size_t i = 0; i < count; ++i) values.set(first + i, value_of(rank, i));
}

// A mean of floats is rounded at each rank.
double tolerance(ncclDataType_t type, ncclRedOp_t op) {
  if (op != ncclAvg || is_integer(type)) return 0;
  return type == ncclBfloat16 ? 0.05 : type == ncclFloat16 ? 0.005 : 1e-6;
}

class FakeNcclTest : public testing::TestWithParam<int> {
 protected:
  static void each_type(
      const std::function<void(ncclDataType_t, size_t count, bool in_place)>& body) {
    for (const ncclDataType_t type : kTypes) {
      for (const size_t count : kCounts) {
        for (const bool in_place : {false, true}) body(type, count, in_place);
      }
    }
  }
};

TEST_P(FakeNcclTest, AllReduces) {
  with_communicator(GetParam(), [](Rank& self) {
    each_type([&](ncclDataType_t type, size_t count, bool in_place) {
      for (const ncclRedOp_t op : kOps) {
        Values from(type, count);
        Values result(type, count);
        fill(in_place ? result : from, count, self.rank);
        ASSERT_EQ(ncclAllReduce(in_place ? result.data() : from.data(), result.data(), count, type,
                                op, self.comm, self.stream),
                  ncclSuccess);
        expect_done(self.stream);
        for (size_t i = 0; i < count; ++i) {
          ASSERT_NEAR(result.get(i), reduced(type, op, self.ranks, i), tolerance(type, op))
              << "type " << type << " op " << op << " index " << i;
        }
      }
    });
  });
}

TEST_P(FakeNcclTest, ReducesToEachRoot) {
  with_communicator(GetParam(), [](Rank& self) {
    each_type([&](ncclDataType_t type, size_t count, bool in_place) {
      for (int root = 0; root < self.ranks; ++root) {
        const bool is_root = root == self.rank;
        Values from(type, count);
        Values result(type, count);
        fill(in_place ? result : from, count, self.rank);
        ASSERT_EQ(ncclReduce(in_place ? result.data() : from.data(),
                             is_root || in_place ? result.data() : nullptr, count, type, ncclSum,
                             root, self.comm, self.stream),
                  ncclSuccess);
        expect_done(self.stream);
        for (size_t i = 0; i < count; ++i) {
          const double kept = in_place ? value_of(self.rank, i) : 0;
          ASSERT_EQ(result.get(i), is_root ? reduced(type, ncclSum, self.ranks, i) : kept);
        }
      }
    });
  });
}

TEST_P(FakeNcclTest, Broadcasts) {
  with_communicator(GetParam(), [](Rank& self) {
    each_type([&](ncclDataType_t type, size_t count, bool in_place) {
      for (int root = 0; root < self.ranks; ++root) {
        const bool is_root = root == self.rank;
        Values from(type, count);
        Values result(type, count);
        if (is_root) fill(in_place ? result : from, count, self.rank);
        ASSERT_EQ(ncclBroadcast(in_place  ? result.data()
                                : is_root ? from.data()
                                          : nullptr,
                                result.data(), count, type, root, self.comm, self.stream),
                  ncclSuccess);
        expect_done(self.stream);
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(result.get(i), value_of(root, i));
      }
    });
  });
}

TEST_P(FakeNcclTest, ReduceScatters) {
  with_communicator(GetParam(), [](Rank& self) {
    each_type([&](ncclDataType_t type, size_t count, bool in_place) {
      const auto ranks = static_cast<size_t>(self.ranks);
      const auto rank = static_cast<size_t>(self.rank);
      for (const ncclRedOp_t op : kOps) {
        Values from(type, count * ranks);
        Values separate(type, count);
        fill(from, count * ranks, self.rank);
        void* const to = in_place ? from.at(rank * count) : separate.data();
        ASSERT_EQ(ncclReduceScatter(from.data(), to, count, type, op, self.comm, self.stream),
                  ncclSuccess);
        expect_done(self.stream);
        for (size_t i = 0; i < count; ++i) {
          ASSERT_NEAR(in_place ? from.get(rank * count + i) : separate.get(i),
                      reduced(type, op, self.ranks, rank * count + i), tolerance(type, op));
        }
      }
    });
  });
}

TEST_P(FakeNcclTest, AllGathers) {
  with_communicator(GetParam(), [](Rank& self) {
    each_type([&](ncclDataType_t type, size_t count, bool in_place) {
      const auto ranks = static_cast<size_t>(self.ranks);
      const auto own = static_cast<size_t>(self.rank) * count;
      Values from(type, count);
      Values result(type, count * ranks);
      in_place ? fill(result, count, self.rank, own) : fill(from, count, self.rank);
      ASSERT_EQ(ncclAllGather(in_place ? result.at(own) : from.data(), result.data(), count, type,
                              self.comm, self.stream),
                ncclSuccess);
      expect_done(self.stream);
      for (int rank = 0; rank < self.ranks; ++rank) {
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(result.get(static_cast<size_t>(rank) * count + i), value_of(rank, i));
        }
      }
    });
  });
}

TEST_P(FakeNcclTest, SendsRoundARingInGroups) {
  with_communicator(GetParam(), [](Rank& self) {
    each_type([&](ncclDataType_t type, size_t count, bool) {
      const int next = (self.rank + 1) % self.ranks;
      const int previous = (self.rank + self.ranks - 1) % self.ranks;
      Values from(type, count);
      Values result(type, count);
      fill(from, count, self.rank);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      ASSERT_EQ(ncclSend(from.data(), count, type, next, self.comm, self.stream), ncclSuccess);
      ASSERT_EQ(ncclRecv(result.data(), count, type, previous, self.comm, self.stream),
                ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
      expect_done(self.stream);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(result.get(i), value_of(previous, i));
    });
  });
}

TEST_P(FakeNcclTest, AllToAllInOneGroupKeepsTheOrderOfSends) {
  with_communicator(GetParam(), [](Rank& self) {
    const auto ranks = static_cast<size_t>(self.ranks);
    std::vector<int32_t> from(2 * ranks);
    std::vector<int32_t> result(2 * ranks, -1);
    for (size_t i = 0; i < from.size(); ++i) from[i] = self.rank * 100 + static_cast<int32_t>(i);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (size_t round = 0; round < 2; ++round) {
      for (size_t peer = 0; peer < ranks; ++peer) {
        ASSERT_EQ(ncclSend(&from[2 * peer + round], 1, ncclInt32, static_cast<int>(peer), self.comm,
                           self.stream),
                  ncclSuccess);
        ASSERT_EQ(ncclRecv(&result[2 * peer + round], 1, ncclInt32, static_cast<int>(peer),
                           self.comm, self.stream),
                  ncclSuccess);
      }
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    expect_done(self.stream);
    for (size_t i = 0; i < result.size(); ++i) {
      EXPECT_EQ(result[i],
                static_cast<int32_t>(i / 2) * 100 + 2 * self.rank + static_cast<int32_t>(i % 2));
    }
  });
}

TEST_P(FakeNcclTest, SplitsByColorAndOrdersByKey) {
  with_communicator(GetParam(), [](Rank& self) {
    ncclComm_t half = nullptr;
    const int color = self.rank % 2;
    ASSERT_EQ(ncclCommSplit(self.comm, color, -self.rank, &half, nullptr), ncclSuccess);
    int ranks = 0;
    int rank = -1;
    ASSERT_EQ(ncclCommCount(half, &ranks), ncclSuccess);
    ASSERT_EQ(ncclCommUserRank(half, &rank), ncclSuccess);
    EXPECT_EQ(ranks, (self.ranks + 1 - color) / 2);
    EXPECT_EQ(rank, ranks - 1 - self.rank / 2);  // keys fall
    int32_t sum = self.rank;
    ASSERT_EQ(ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, half, self.stream), ncclSuccess);
    expect_done(self.stream);
    int32_t expected = 0;
    for (int each = color; each < self.ranks; each += 2) expected += each;
    EXPECT_EQ(sum, expected);
    EXPECT_EQ(ncclCommDestroy(half), ncclSuccess);

    // The last rank is left out.
    ncclComm_t rest = nullptr;
    const bool is_left_out = self.rank == self.ranks - 1;
    ASSERT_EQ(ncclCommSplit(self.comm, is_left_out ? NCCL_SPLIT_NOCOLOR : 0, 0, &rest, nullptr),
              ncclSuccess);
    EXPECT_EQ(rest == nullptr, is_left_out);
    EXPECT_EQ(ncclCommDestroy(rest), ncclSuccess);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, FakeNcclTest, testing::Values(1, 2, 3, 4, 5));

TEST(FakeNcclRingTest, AddsEachPartFromAnotherRankOn) {
  constexpr int kRanks = 3;
  const float values[kRanks] = {1.0F, 1e8F, -1e8F};
  with_communicator(kRanks, [&](Rank& self) {
    std::vector<float> result(kRanks, values[self.rank]);
    ASSERT_EQ(ncclAllReduce(result.data(), result.data(), kRanks, ncclFloat32, ncclSum, self.comm,
                            self.stream),
              ncclSuccess);
    expect_done(self.stream);
    for (int part = 0; part < kRanks; ++part) {
      float sum = values[part];
      for (int i = 1; i < kRanks; ++i) sum += values[(part + i) % kRanks];
      EXPECT_EQ(result[static_cast<size_t>(part)], sum);
    }
    EXPECT_EQ(result[0], 0.0F);  // (1 + 1e8) - 1e8
    EXPECT_EQ(result[1], 1.0F);  // (1e8 - 1e8) + 1
  });
}

// 2049 is between two floats of 16 bits, 259 between two bfloat16: the even one is taken at each rank.
TEST(FakeNcclRingTest, RoundsShortFloatsToTheNearestEvenAtEachRank) {
  with_communicator(2, [](Rank& self) {
    for (const auto& [type, large, sum] :
         {std::tuple(ncclFloat16, 2048.0, 2048.0), std::tuple(ncclFloat16, 2050.0, 2052.0),
          std::tuple(ncclBfloat16, 256.0, 256.0), std::tuple(ncclBfloat16, 258.0, 260.0)}) {
      Values result(type, 1);
      result.set(0, self.rank == 0 ? large : 1.0);
      ASSERT_EQ(
          ncclAllReduce(result.data(), result.data(), 1, type, ncclSum, self.comm, self.stream),
          ncclSuccess);
      expect_done(self.stream);
      EXPECT_EQ(result.get(0), sum);
    }
  });
}

TEST(FakeNcclGroupTest, OneThreadHasAllRanks) {
  constexpr int kRanks = 3;
  ncclComm_t comms[kRanks] = {};
  ASSERT_EQ(ncclCommInitAll(comms, kRanks, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  std::vector<int64_t> values = {1, 10, 100};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (size_t i = 0; i < kRanks; ++i) {
    int device = -1;
    EXPECT_EQ(ncclCommCuDevice(comms[i], &device), ncclSuccess);
    EXPECT_EQ(device, static_cast<int>(i));
    ASSERT_EQ(ncclAllReduce(&values[i], &values[i], 1, ncclInt64, ncclSum, comms[i],
                            stream_of(&values[i])),
              ncclSuccess);
  }
  EXPECT_EQ(values[0], 1);  // nothing begins before the group's end
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (int64_t& value : values) {
    expect_done(stream_of(&value));
    EXPECT_EQ(value, 111);
  }
  // Splits of all ranks are a group, too.
  ncclComm_t halves[kRanks] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < kRanks; ++i) {
    ASSERT_EQ(ncclCommSplit(comms[i], i == 0 ? NCCL_SPLIT_NOCOLOR : 1, i, &halves[i], nullptr),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(halves[0], nullptr);
  int ranks = 0;
  EXPECT_EQ(ncclCommCount(halves[2], &ranks), ncclSuccess);
  EXPECT_EQ(ranks, 2);
  EXPECT_EQ(fake_nccl_open_communicators(), 5);
  for (ncclComm_t comm : {comms[0], comms[1], comms[2], halves[1], halves[2]}) {
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
  EXPECT_EQ(fake_nccl_open_communicators(), 0);
}

TEST(FakeNcclGroupTest, AWrongCallInAGroupEnqueuesNothing) {
  with_communicator(1, [](Rank& self) {
    fake_nccl_reset_counters();
    float value = 3;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, self.comm, self.stream),
              ncclSuccess);
    EXPECT_EQ(ncclSend(&value, 1, ncclFloat32, 7, self.comm, self.stream), ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(self.comm), "ncclSend: rank 7 of 1");
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    expect_done(self.stream);
    EXPECT_EQ(fake_nccl_operations("AllReduce"), 0U);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  });
}

TEST(FakeNcclGroupTest, CountsOperationsAndBytes) {
  fake_nccl_reset_counters();
  with_communicator(3, [](Rank& self) {
    std::vector<float> values(300);
    const int next = (self.rank + 1) % 3;
    ASSERT_EQ(ncclAllReduce(values.data(), values.data(), 300, ncclFloat32, ncclSum, self.comm,
                            self.stream),
              ncclSuccess);
    expect_done(self.stream);
    EXPECT_EQ(fake_nccl_bytes_sent_by(self.comm, next), 1600U);  // 2 (N - 1) / N of 1200
    EXPECT_EQ(fake_nccl_bytes_sent_by(self.comm, (next + 1) % 3), 0U);
  });
  EXPECT_EQ(fake_nccl_operations("AllReduce"), 3U);
  EXPECT_EQ(fake_nccl_operations("Send"), 0U);
  EXPECT_EQ(fake_nccl_bytes_sent(0), 1600U);
  EXPECT_EQ(fake_nccl_bytes_to_other_hosts(), 0U);
}

TEST(FakeNcclGroupTest, StreamsAreInOrderAndCallsComeBackAtOnce) {
  with_communicator(2, [](Rank& self) {
    std::vector<int32_t> values(64, 1);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(ncclAllReduce(values.data(), values.data(), 64, ncclInt32, ncclSum, self.comm,
                              self.stream),
                ncclSuccess);
    }
    expect_done(self.stream);
    EXPECT_EQ(values[63], 1 << 20);
  });
}

}  // namespace
}  // namespace strata::test::fake_nccl
