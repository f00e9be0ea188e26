// What every back end of Communicator does.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "collective/communicator_checks.h"
#include "collective/contract_ranks.h"
#include "core/thread.h"
#include "support/expect_error.h"

namespace strata::collective {
namespace {

using namespace std::chrono_literals;

class CommunicatorContractTest : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(BackEnds, CommunicatorContractTest,
                         testing::ValuesIn(ContractRanks::back_ends()),
                         [](const auto& info) { return info.param; });

TEST_P(CommunicatorContractTest, AllReduceHasTheBitsOfOneProcessForUpTo8Ranks) {
  for (int n = 1; n <= 8; ++n) {
    const Placement placement = Placement::blocks(std::vector<int>(static_cast<size_t>(n), 1));
    ContractRanks ranks(GetParam(), placement);
    for (const int64_t size : {0, 1, 65, 1000, 30'011, 200'003}) {
      expect_all_reduce(ranks, placement, values_of(placement, size, at::kFloat), ReduceOp::kSum,
                        7);
    }
  }
}

TEST_P(CommunicatorContractTest, WhereReplicasLiveIsNobodysBusiness) {
  std::vector<Placement> placements = {
      Placement::blocks({8}),       Placement::blocks({4, 4}),
      Placement::blocks({3, 3, 2}), Placement::blocks({2, 2, 2, 2}, 2),
      Placement::blocks({1, 6, 1}), Placement::blocks({5, 0, 3})};
  placements.push_back({.rank_of_replica = {0, 1, 2, 2, 1, 0, 0, 2}, .host_of_rank = {0, 1, 0}});
  for (const Placement& placement : placements) {
    ContractRanks ranks(GetParam(), placement);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
      at::manual_seed(5);  // the same values for all
      expect_all_reduce(ranks, placement, values_of(placement, 10'000, at::kFloat), op, 1);
    }
  }
}

TEST_P(CommunicatorContractTest, EveryDtypeAndOperation) {
  const Placement placement = Placement::blocks({2, 1, 3, 1, 1}, 2);
  ContractRanks ranks(GetParam(), placement);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt,
                                     at::kLong, at::kShort, at::kChar, at::kByte}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax}) {
      if (op == ReduceOp::kMean && !c10::isFloatingType(dtype)) continue;
      for (const int64_t size : {33, 3001, 50'021}) {
        expect_all_reduce(ranks, placement, values_of(placement, size, dtype), op, 0);
      }
    }
  }
}

TEST_P(CommunicatorContractTest, AbsentValuesAreLeftOut) {
  const Placement placement = Placement::blocks({2, 1, 3});
  ContractRanks ranks(GetParam(), placement);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
      std::vector<at::Tensor> values = values_of(placement, 500, dtype);
      values[1] = values[2] = values[3] = at::Tensor();
      if (dtype != at::kLong) values[0].fill_(-0.0);
      expect_all_reduce(ranks, placement, values, op, 0);
    }
  }
}

TEST_P(CommunicatorContractTest, OtherCollectives) {
  for (int n = 1; n <= 8; ++n) {
    const Placement placement = Placement::blocks(std::vector<int>(static_cast<size_t>(n), 2), 2);
    ContractRanks ranks(GetParam(), placement);
    for (const int64_t part : {0, 1, 77, 5000}) {
      const std::vector<at::Tensor> values = values_of(placement, part * n, at::kHalf);
      const at::Tensor sum = reduce_in_order(values, ReduceOp::kMean);
      const at::Tensor parts = random_values(part * n, at::kDouble);
      for (int root = 0; root < n; root += 3) {
        ranks.run([&](Communicator& c) {
          const int64_t begin = part * c.rank();
          at::Tensor local = at::empty({part}, at::kHalf);
          c.reduce_scatter({values[static_cast<size_t>(2 * c.rank())],
                            values[static_cast<size_t>(2 * c.rank() + 1)]},
                           local, ReduceOp::kMean);
          EXPECT_TRUE(same_bits(local, sum.slice(0, begin, begin + part)));
          at::Tensor all = at::zeros({part * n}, at::kDouble);
          c.all_gather(parts.slice(0, begin, begin + part), all);
          EXPECT_TRUE(same_bits(all, parts));
          at::Tensor everywhere = c.rank() == root ? parts.clone() : at::zeros_like(parts);
          c.broadcast_(everywhere, root);
          EXPECT_TRUE(same_bits(everywhere, parts));
          c.barrier();
        });
      }
    }
  }
}

TEST_P(CommunicatorContractTest, NobodyLeavesABarrierBeforeAllHaveCome) {
  ContractRanks ranks(GetParam(), Placement::blocks({1, 1, 1, 1, 1}));
  std::atomic<int>& come = ranks.counter();
  ranks.run([&](Communicator& c) {
    for (int round = 1; round <= 20; ++round) {
      come.fetch_add(1);
      c.barrier();
      EXPECT_GE(come.load(), 5 * round);
      c.barrier();
    }
  });
}

TEST_P(CommunicatorContractTest, BucketsAreMatchedByIdWhateverTheirOrder) {
  const Placement placement = Placement::blocks({1, 1, 1});
  ContractRanks ranks(GetParam(), placement);
  constexpr int kBuckets = 6;
  std::vector<std::vector<at::Tensor>> values;
  std::vector<at::Tensor> expected;
  for (int b = 0; b < kBuckets; ++b) {
    values.push_back(values_of(placement, 100 + 20'000 * b, at::kFloat));
    expected.push_back(reduce_in_order(values.back(), ReduceOp::kSum));
  }
  ranks.run([&](Communicator& c) {
    std::vector<Thread> buckets;  // all at once, each rank beginning with another
    for (int i = 0; i < kBuckets; ++i) {
      const auto b = static_cast<size_t>((i + c.rank() * 2) % kBuckets);
      buckets.emplace_back("bucket", [&, b] {
        at::Tensor local = values[b][static_cast<size_t>(c.rank())].clone();
        c.all_reduce_(local, ReduceOp::kSum, {.id = static_cast<uint32_t>(b)});
        EXPECT_TRUE(same_bits(local, expected[b]));
      });
    }
  });
}

TEST_P(CommunicatorContractTest, RanksThatDisagreeFailWithBothSidesNamed) {
  struct Case {
    std::function<void(Communicator&)> first, others;
    std::string first_text, others_text;
  };
  const auto reduce = [](int64_t size, at::ScalarType dtype, ReduceOp op) {
    return [=](Communicator& c) {
      at::Tensor tensor = at::ones({size}, dtype);
      c.all_reduce_(tensor, op, {.timeout = 20s});
    };
  };
  const std::vector<Case> cases = {
      {reduce(100, at::kFloat, ReduceOp::kSum), reduce(101, at::kFloat, ReduceOp::kSum),
       "all_reduce(SUM) of 100 Float", "all_reduce(SUM) of 101 Float"},
      {reduce(100, at::kFloat, ReduceOp::kSum), reduce(100, at::kInt, ReduceOp::kSum),
       "all_reduce(SUM) of 100 Float", "all_reduce(SUM) of 100 Int"},
      {reduce(100, at::kFloat, ReduceOp::kMax), reduce(100, at::kFloat, ReduceOp::kSum),
       "all_reduce(MAX) of 100 Float", "all_reduce(SUM) of 100 Float"},
      {reduce(0, at::kFloat, ReduceOp::kSum), reduce(100, at::kFloat, ReduceOp::kSum),
       "all_reduce(SUM) of 0 Float", "all_reduce(SUM) of 100 Float"},
      // The same sizes, of different things.
      {[](Communicator& c) {
         at::Tensor tensor = at::ones({100});
         c.all_reduce_(tensor, ReduceOp::kSum, {.name = "gradients", .timeout = 20s});
       },
       [](Communicator& c) {
         at::Tensor tensor = at::ones({100});
         c.all_reduce_(tensor, ReduceOp::kSum, {.name = "values", .timeout = 20s});
       },
       "all_reduce(SUM) of 100 Float", "all_reduce(SUM) of 100 Float"},
      {[](Communicator& c) { c.barrier({.timeout = 20s}); },
       reduce(100, at::kFloat, ReduceOp::kSum), "barrier", "all_reduce(SUM) of 100 Float"},
  };
  for (const Case& c : cases) {
    ContractRanks ranks(GetParam(), Placement::blocks({1, 1, 1}));
    const std::vector<std::string> messages = errors_of(
        ranks, 3, [&](Communicator& r) { r.rank() == 0 ? c.first(r) : c.others(r); },
        GetParam() == "shuffled" ? std::nullopt : std::optional(ErrorCode::kFailedPrecondition));
    // Over a wire that is full a reason cannot be told on without waiting; who saw it says it.
    int told = 0;
    for (const std::string& message : messages) {
      EXPECT_NE(message, "");
      told += message.find("(" + c.first_text) != std::string::npos;
      if (GetParam() == "shuffled") continue;
      EXPECT_NE(message.find("(" + c.first_text), std::string::npos) << message;
      EXPECT_NE(message.find("(" + c.others_text), std::string::npos) << message;
      EXPECT_NE(message.find("/job:worker/task:0"), std::string::npos) << message;
    }
    EXPECT_GE(told, 1);
    // The communicator is of no more use, and says why.
    const auto later = errors_of(
        ranks, 3, [](Communicator& r) { r.barrier({.timeout = 20s}); },
        ErrorCode::kFailedPrecondition);
    for (const std::string& message : later) {
      EXPECT_NE(message.find("an earlier call of this communicator failed ("), std::string::npos)
          << message;
    }
  }
}

TEST_P(CommunicatorContractTest, APeerThatIsGoneIsNamedOnEveryRank) {
  ContractRanks ranks(GetParam(), Placement::blocks({1, 1, 1, 1}));
  const std::vector<std::string> messages = errors_of(
      ranks, 4,
      [&](Communicator& c) {
        at::Tensor tensor = at::ones({50'000});
        c.all_reduce_(tensor, ReduceOp::kSum, {.timeout = 20s});
        if (c.rank() == 2) return ranks.cut_off(2);
        c.all_reduce_(tensor, ReduceOp::kSum,
                      {.id = 3, .name = "gradients of dense", .timeout = 20s});
      },
      ErrorCode::kUnavailable);
  EXPECT_EQ(messages[2], "");
  for (const int rank : {0, 1, 3}) {
    const std::string& message = messages[static_cast<size_t>(rank)];
    if (GetParam() != "shuffled") {  // over a full wire a reason cannot be told on without waiting
      EXPECT_NE(message.find("/job:worker/task:2"), std::string::npos) << message;
    }
    EXPECT_NE(message.find("(id 3, gradients of dense)"), std::string::npos) << message;
  }
}

TEST_P(CommunicatorContractTest, DeadlinesAndStopsEndCalls) {
  {
    ContractRanks ranks(GetParam(), Placement::blocks({1, 1}));
    const auto messages = errors_of(
        ranks, 2,
        [&](Communicator& c) {
          if (c.rank() == 0) c.barrier({.timeout = 30ms});
        },
        ErrorCode::kDeadlineExceeded);
    EXPECT_NE(messages[0].find("/job:worker/task:1"), std::string::npos) << messages[0];
  }
  ContractRanks ranks(GetParam(), Placement::blocks({1, 1}));
  const auto messages = errors_of(
      ranks, 2,
      [&](Communicator& c) {
        if (c.rank() != 0) return;
        std::stop_source stop;
        stop.request_stop();
        at::Tensor tensor = at::ones({5});
        c.all_reduce_(tensor, ReduceOp::kSum, {.stop = stop.get_token()});
      },
      ErrorCode::kCancelled);
  EXPECT_NE(messages[0], "");
}

TEST_P(CommunicatorContractTest, WrongCallsAreRefusedBeforeAnythingIsSent) {
  ContractRanks ranks(GetParam(), Placement::blocks({2, 1}));
  ranks.run([&](Communicator& c) {
    if (c.rank() != 0) return;
    at::Tensor x = at::ones({4});
    at::Tensor y = at::ones({2});
    expect_error([&] { c.all_reduce_(x, ReduceOp::kSum); },
                 "[collective] all_reduce: got 1 values on rank 0; expected one for each of its 2 "
                 "replicas");
    expect_error(
        [&] {
          c.all_reduce({x, y}, x, ReduceOp::kSum);
        },
        "[collective] all_reduce: got Float [2] for value 1 and Float [4] for the result; "
        "expected one shape and dtype");
    expect_error(
        [&] {
          c.reduce_scatter({x, y}, y, ReduceOp::kSum);
        },
        "[collective] reduce_scatter: got 2 Float for value 1; expected 2 times 2 Float");
    expect_error([&] { c.all_gather(x, x); },
                 "[collective] all_gather: got 4 Float for all parts; expected 2 times 4 Float");
    expect_error([&] { c.broadcast_(x, 2); },
                 "[collective] broadcast: got root 2; expected 0 to 1");
    at::Tensor i = at::ones({4}, at::kInt);
    expect_error(
        [&] {
          c.all_reduce({i, i}, i, ReduceOp::kMean);
        },
        "[collective] all_reduce: got MEAN of Int; expected a floating dtype, because the "
        "result is written in place");
    at::Tensor b = at::ones({4}, at::kBool);
    expect_error(
        [&] {
          c.all_reduce({b, b}, b, ReduceOp::kSum);
        },
        "[collective] all_reduce: got Bool; expected a real number's dtype; cast it first "
        "(bool to int32, complex to its two parts)");
  });
  // Nothing has happened: calls go on.
  ranks.run([&](Communicator& r) { r.barrier(); });
}

TEST_P(CommunicatorContractTest, PartsOfAnyLengthAreGathered) {
  ContractRanks ranks(GetParam(), Placement::blocks({1, 1, 1}));
  ranks.run([&](Communicator& c) {
    const std::vector<std::string> parts = {"", "worker-1", std::string(5000, 'x')};
    EXPECT_EQ(c.all_gather_bytes(parts[static_cast<size_t>(c.rank())]), parts);
  });
}

TEST_P(CommunicatorContractTest, WhoCannotGoOnEndsTheCallsOfAll) {
  ContractRanks ranks(GetParam(), Placement::blocks({1, 1}));
  ranks.run([&](Communicator& c) {
    if (c.rank() == 1) return c.fail(Status(ErrorCode::kAborted, "the data ended in row 7"));
    at::Tensor x = at::ones({4});
    try {
      c.all_reduce_(x, ReduceOp::kSum);
      ADD_FAILURE() << "a sum without the other rank";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the data ended in row 7"), std::string::npos)
          << error.what();
    }
  });
}

TEST_P(CommunicatorContractTest, TensorsThatAreNotContiguousAreCopied) {
  ContractRanks ranks(GetParam(), Placement::blocks({1, 1}));
  ranks.run([&](Communicator& c) {
    at::Tensor matrix = at::arange(12, at::kFloat).view({3, 4}) * (c.rank() + 1);
    at::Tensor column = matrix.select(1, 2);
    c.all_reduce_(column, ReduceOp::kSum);
    EXPECT_TRUE(at::equal(matrix.select(1, 2), at::arange(2, 12, 4, at::kFloat) * 3));
    EXPECT_TRUE(at::equal(matrix.select(1, 1), at::arange(1, 12, 4, at::kFloat) * (c.rank() + 1)));
  });
}

}  // namespace
}  // namespace strata::collective
