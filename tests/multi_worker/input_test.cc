// Workers that share a dataset: who reads and makes what, and that together it is what one process
// reads. Here the processes are threads on a network in memory.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "multi_worker/spread.h"
#include "runtime/replica_group.h"
#include "strata/data/random_numbers.h"

namespace strata {
namespace {

using data::Dataset;
using data::Example;
using test::run;
using test::run_well;
using test::Spread;

constexpr int64_t kRows = 70, kBatch = 20;  // a last batch of 10

/// Calls of a map by each worker.
using Calls = std::vector<std::shared_ptr<std::atomic<int>>>;

Calls no_calls(const Spread& spread) {
  Calls calls;
  for (size_t i = 0; i < spread.size(); ++i) calls.push_back(std::make_shared<std::atomic<int>>(0));
  return calls;
}

/// Shuffled rows, and a random map before the batch.
Dataset input(const std::shared_ptr<std::atomic<int>>& calls, int64_t parallel_calls) {
  return Dataset::range(kRows)
      .shuffle(30, {.seed = 4})
      .map(
          [calls](const Example& row, const data::ElementKey& key) {
            ++*calls;
            return Example{row[0] * 1000 +
                           static_cast<int64_t>(data::RandomNumbers(key).below(1000))};
          },
          {.num_parallel_calls = parallel_calls})
      .batch(kBatch);
}

/// What each replica reads, in turn: rows, and -1 behind each batch.
using Seen = std::map<int, std::vector<int64_t>>;

void see(Strategy& strategy, const PerReplica<Example>& batch, Seen& seen) {
  const std::vector<int> ids = strategy.group().communicator()
                                   ? strategy.group().communicator()->replicas()
                                   : std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7};
  for (int r = 0; r < batch.size(); ++r) {
    std::vector<int64_t>& rows = seen[ids[static_cast<size_t>(r)]];
    const at::Tensor values = batch.get(r).x().contiguous();
    rows.insert(rows.end(), values.const_data_ptr<int64_t>(),
                values.const_data_ptr<int64_t>() + values.numel());
    rows.push_back(-1);
  }
}

/// A pass over the rest of the input behind `from`. @param until  Where to stop and say where that
/// is; 0: the end.
Seen read(const Spread& spread, const Calls& calls, int64_t parallel_calls,
          const std::string& from = {}, int until = 0, std::string* position = nullptr) {
  std::vector<Seen> seen(spread.size());
  run_well(spread, [&](Strategy& strategy, int worker) {
    const auto w = static_cast<size_t>(worker);
    DistributedDataset::Iterator batches =
        strategy.distribute(input(calls[w], parallel_calls)).iterator(3);
    if (!from.empty()) batches.restore(data::Position::from_string(from));
    int steps = 0;
    while (until == 0 || steps < until) {
      const auto batch = batches.next();
      if (!batch) break;
      see(strategy, *batch, seen[w]);
      ++steps;
    }
    const data::Position here = batches.position();
    if (position != nullptr && worker == 0) *position = here.to_string();
  });
  Seen all;
  for (Seen& each : seen) all.merge(each);
  return all;
}

std::vector<int> counts(const Calls& calls) {
  std::vector<int> all;
  for (const auto& each : calls) all.push_back(each->load());
  return all;
}

TEST(InputTest, EachWorkerMakesItsOwnRows) {
  for (const int64_t parallel_calls : {0, 2}) {
    const Calls alone = no_calls({8});
    const Seen expected = read({8}, alone, parallel_calls);
    EXPECT_EQ(counts(alone), std::vector<int>{70});
    ASSERT_EQ(expected.size(), 8u);

    // Batches of 20 have parts of 3, 3, 3, 3, 2, 2, 2, 2 rows; the last, of 10, is read first as
    // what it seems to be, and has parts of 2, 2, 1, 1, 1, 1, 1, 1.
    const Calls two = no_calls({4, 4});
    EXPECT_EQ(read({4, 4}, two, parallel_calls), expected);
    EXPECT_EQ(counts(two), (std::vector<int>{3 * 12 + 10 + 6, 3 * 8 + 0 + 4}));

    const Calls three = no_calls({3, 3, 2});
    EXPECT_EQ(read({3, 3, 2}, three, parallel_calls), expected);
    EXPECT_EQ(counts(three), (std::vector<int>{3 * 9 + 9 + 5, 3 * 7 + 1 + 3, 3 * 4 + 0 + 2}));
  }
}

TEST(InputTest, OtherWorkersGoOnInTheMiddle) {
  for (const int64_t parallel_calls : {0, 2}) {
    const Calls uncounted = no_calls({8});
    std::string position;
    const Seen first = read({8}, uncounted, parallel_calls, {}, 2, &position);
    const Seen rest = read({8}, uncounted, parallel_calls, position);
    for (const Spread& before : {Spread{8}, Spread{3, 3, 2}}) {
      std::string here;
      EXPECT_EQ(read(before, no_calls(before), parallel_calls, {}, 2, &here), first);
      EXPECT_EQ(here, position);
      const Calls calls = no_calls({4, 4});
      EXPECT_EQ(read({4, 4}, calls, parallel_calls, here), rest);
      EXPECT_EQ(counts(calls), (std::vector<int>{12 + 10 + 6, 8 + 0 + 4}));
    }
  }
}

TEST(InputTest, SaysWhoReadsWhat) {
  const Spread spread = {3, 3, 2};
  std::vector<std::string> mapped_first(3), batched_first(3), from_function(3);
  run_well(spread, [&](Strategy& strategy, int worker) {
    const auto w = static_cast<size_t>(worker);
    const Dataset before = input(no_calls({1})[0], 2);
    mapped_first[w] = strategy.distribute(before).describe();
    batched_first[w] = strategy.distribute(before.map([](Example e) { return e; })).describe();
    from_function[w] =
        strategy.distribute_from_function([&](const InputContext&) { return before; }).describe();
  });
  EXPECT_EQ(mapped_first, (std::vector<std::string>{
                              "replicas 0, 1, 2 of 8: 9 of the 20 rows of each batch; the others "
                              "are passed over",
                              "replicas 3, 4, 5 of 8: 7 of the 20 rows of each batch; the others "
                              "are passed over",
                              "replicas 6, 7 of 8: 4 of the 20 rows of each batch; the others "
                              "are passed over"}));
  EXPECT_EQ(batched_first[2],
            "replicas 6, 7 of 8: some rows of each batch; whole batches are made");
  EXPECT_EQ(from_function[1], "batches that a function gives this process");
  run_well({2}, [&](Strategy& strategy, int) {
    EXPECT_EQ(strategy.distribute(Dataset::range(9).batch(4)).describe(),
              "all rows, for 2 replicas");
  });
}

// The others do not see the row: they hear of the worker that it ended.
TEST(InputTest, ARowThatCannotBeMadeEndsItsWorkerAndTheOthersHearOfIt) {
  const std::vector<Status> outcomes = run({2, 2}, [](Strategy& strategy, int) {
    const Dataset dataset = Dataset::range(24)
                                .map([](Example row) {
                                  if (row[0].item<int64_t>() == 15)
                                    throw std::runtime_error("row 15 is broken");
                                  return row;
                                })
                                .batch(8);
    for (const PerReplica<Example>& batch : strategy.distribute(dataset)) {
      strategy.run(
          [&](const Example& part) {
            (void)get_replica_context()->all_reduce(ReduceOp::kSum, part.x().sum());
          },
          batch);
    }
  });
  EXPECT_NE(outcomes[1].message().find("row 15 is broken"), std::string::npos)
      << outcomes[1].message();
  EXPECT_FALSE(outcomes[0].ok());
  EXPECT_NE(outcomes[0].message().find("/job:worker/task:1"), std::string::npos)
      << outcomes[0].message();
}

}  // namespace
}  // namespace strata
