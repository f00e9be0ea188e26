#include <gtest/gtest.h>
#include <torch/torch.h>

#include "strata/strategies/mirrored_strategy.h"
#include "support/replicas.h"

namespace strata {
namespace {

using at::Tensor;
using data::Dataset;
using data::Example;
using Rows = std::vector<int64_t>;
using Steps = std::vector<std::vector<Rows>>;  // [step][replica] = the rows it got

Rows rows_of(const Tensor& tensor) {
  const Tensor flat = tensor.contiguous();
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

Steps steps_of(const DistributedDataset& distributed) {
  Steps steps;
  for (const PerReplica<Example>& batch : distributed) {
    steps.emplace_back();
    for (const Example& part : batch) steps.back().push_back(rows_of(part[0]));
  }
  return steps;
}

class DistributeTest : public ::testing::Test {
 protected:
  DistributeTest() { set_logical_devices("cpu", 8); }

  static std::unique_ptr<MirroredStrategy> mirrored(int n) {
    return std::make_unique<MirroredStrategy>(MirroredOptions{.devices = cpus(n)});
  }
  static Steps split(int64_t rows, int64_t batch, int n, bool drop_remainder = false) {
    const auto strategy = mirrored(n);
    return steps_of(strategy->distribute(
        Dataset::range(rows).batch(batch, {.drop_remainder = drop_remainder})));
  }
};

TEST_F(DistributeTest, BatchesAreSplitInOrder) {
  EXPECT_EQ(split(8, 4, 2), (Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}));
  EXPECT_EQ(split(3, 4, 1), (Steps{{{0, 1, 2}}}));
}

// Rule 40: balanced, where TensorFlow cuts by ceil and may leave a replica empty.
TEST_F(DistributeTest, PartsDifferByAtMostOneRowLargerFirst) {
  EXPECT_EQ(split(4, 4, 3), (Steps{{{0, 1}, {2}, {3}}}));
  EXPECT_EQ(split(10, 10, 4), (Steps{{{0, 1, 2}, {3, 4, 5}, {6, 7}, {8, 9}}}));
  EXPECT_EQ(split(6, 4, 2), (Steps{{{0, 1}, {2, 3}}, {{4}, {5}}}));
  for (int64_t rows = 1; rows <= 20; ++rows) {
    for (const int n : {1, 2, 3, 8}) {
      const Steps steps = split(rows, rows, n);
      ASSERT_EQ(steps.size(), 1u);
      Rows all;
      size_t before = steps[0][0].size();
      for (const Rows& part : steps[0]) {
        EXPECT_LE(part.size(), before);
        EXPECT_LE(steps[0][0].size() - part.size(), 1u);
        before = part.size();
        all.insert(all.end(), part.begin(), part.end());
      }
      EXPECT_EQ(static_cast<int64_t>(all.size()), rows);
      EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
    }
  }
}

TEST_F(DistributeTest, ReplicasWithoutRowsGetEmptyPartsOfTheRightKind) {
  const auto strategy = mirrored(3);
  const Dataset dataset =
      Dataset::from_tensor_slices({torch::rand({2, 4, 5}), torch::tensor({1, 0}, torch::kByte)})
          .batch(8);
  int steps = 0;
  for (const PerReplica<Example>& batch : strategy->distribute(dataset)) {
    ++steps;
    EXPECT_EQ(batch.get(2).x().sizes(), (std::vector<int64_t>{0, 4, 5}));
    EXPECT_EQ(batch.get(2).x().scalar_type(), torch::kFloat);
    EXPECT_EQ(batch.get(2).y().sizes(), std::vector<int64_t>{0});
    EXPECT_EQ(batch.get(2).y().scalar_type(), torch::kByte);
    EXPECT_EQ(strategy->run([](const Example& part) { return part.num_rows(); }, batch).values(),
              (std::vector<int64_t>{1, 1, 0}));
  }
  EXPECT_EQ(steps, 1);
}

TEST_F(DistributeTest, DropRemainderDropsTheStepEverywhere) {
  EXPECT_EQ(split(9, 2, 2, true), (Steps{{{0}, {1}}, {{2}, {3}}, {{4}, {5}}, {{6}, {7}}}));
  EXPECT_EQ(split(9, 2, 2, false).back(), (std::vector<Rows>{{8}, {}}));
}

TEST_F(DistributeTest, EmptyDatasetHasNoSteps) {
  EXPECT_EQ(split(0, 4, 2), Steps{});
  const auto strategy = mirrored(2);
  EXPECT_EQ(strategy->distribute(Dataset::range(0).batch(4)).cardinality(), 0);
  EXPECT_EQ(steps_of(strategy->distribute_from_function(
                [](const InputContext&) { return Dataset::range(0).batch(2); })),
            Steps{});
}

TEST_F(DistributeTest, EachLoopIsAnEpoch) {
  const auto strategy = mirrored(2);
  const Dataset dataset = Dataset::range(64).shuffle(64, {.seed = 3}).batch(8);
  const DistributedDataset distributed = strategy->distribute(dataset);
  EXPECT_EQ(distributed.cardinality(), 8);
  const Steps first = steps_of(distributed);
  const Steps second = steps_of(distributed);
  EXPECT_NE(first, second) << "shuffled anew";
  EXPECT_EQ(steps_of(strategy->distribute(Dataset::range(64).shuffle(64, {.seed = 3}).batch(8))),
            first);
}

TEST_F(DistributeTest, RowsDependOnTheReplicaIdAlone) {
  const Steps reference = split(20, 6, 4);
  MirroredStrategy strategy(
      {.devices = {"cpu:7", "cpu:2", "cpu:0", "cpu:5"}, .replicas = {.permits = 1}});
  EXPECT_EQ(steps_of(strategy.distribute(Dataset::range(20).batch(6))), reference);
  EXPECT_EQ(steps_of(strategy.distribute(Dataset::range(20).batch(6), {.prefetch = 2})), reference);
}

TEST_F(DistributeTest, PositionsRestoreTheRestOfTheEpoch) {
  const auto strategy = mirrored(2);
  for (const int64_t prefetch : {0, 2}) {
    const auto make = [&] {
      return strategy->distribute(Dataset::range(40).shuffle(40, {.seed = 1}).batch(5),
                                  {.prefetch = prefetch});
    };
    DistributedDataset::Iterator whole = make().iterator(0);
    for (int i = 0; i < 3; ++i) (void)whole.next();
    DistributedDataset::Iterator rest = make().iterator(0);
    rest.restore(whole.position());
    for (auto element = whole.next(); element; element = whole.next()) {
      const auto same = rest.next();
      ASSERT_TRUE(same);
      EXPECT_EQ(rows_of(same->get(1)[0]), rows_of(element->get(1)[0]));
    }
    EXPECT_FALSE(rest.next());
  }
}

TEST_F(DistributeTest, FromFunctionGivesEachReplicaWholeBatchesInTurn) {
  const auto strategy = mirrored(2);
  int calls = 0;
  const DistributedDataset distributed =
      strategy->distribute_from_function([&](const InputContext& context) {
        ++calls;
        EXPECT_EQ(context.num_input_pipelines, 1);
        EXPECT_EQ(context.input_pipeline_id, 0);
        EXPECT_EQ(context.num_replicas_in_sync, 2);
        return Dataset::range(9).batch(context.get_per_replica_batch_size(4));
      });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(distributed.cardinality(), 3);
  EXPECT_EQ(steps_of(distributed), (Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8}, {}}}));
}

TEST_F(DistributeTest, FromFunctionFillsUpWithEmptyParts) {
  const auto strategy = mirrored(3);
  const DistributedDataset distributed =
      strategy->distribute_from_function([](const InputContext&) {
        return Dataset::from_tensor_slices({torch::ones({4, 2, 3})}).batch(4);
      });
  for (const PerReplica<Example>& batch : distributed) {
    EXPECT_EQ(batch.get(0).num_rows(), 4);
    EXPECT_EQ(batch.get(2).x().sizes(), (std::vector<int64_t>{0, 2, 3}));
  }
}

// Rule 36.
TEST_F(DistributeTest, PerReplicaBatchSizeMustDivide) {
  const InputContext context{.num_replicas_in_sync = 3};
  EXPECT_EQ(context.get_per_replica_batch_size(9), 3);
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument,
             {"[input_context] get_per_replica_batch_size: got a global batch of 7 for 3 replicas",
              "expected a multiple of 3"},
             [&] { context.get_per_replica_batch_size(7); }));
}

// Rule 42.
TEST_F(DistributeTest, UnbatchedDatasetsAreRefused) {
  const auto strategy = mirrored(2);
  for (const bool from_function : {false, true}) {
    const DistributedDataset distributed =
        from_function ? strategy->distribute_from_function(
                            [](const InputContext&) { return Dataset::range(4); })
                      : strategy->distribute(Dataset::range(4));
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                       {"[distributed_dataset] got an element whose fields have shapes []",
                        "call dataset.batch(global_batch_size) first"},
                       [&] { steps_of(distributed); }));
  }
  const Dataset ragged = Dataset::from_tensors({torch::ones({4, 2}), torch::ones({3})});
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"shapes [4, 2] and [3]", "the same number of rows"}, [&] {
                       for (const auto& batch : strategy->distribute(ragged)) (void)batch;
                     }));
}

// Also where the dataset is distributed anew for each epoch, with or without a thread that reads
// ahead.
TEST_F(DistributeTest, EpochsAreThoseOfTheDatasetThatWasGiven) {
  set_logical_devices("cpu", 2);
  MirroredStrategy strategy({.devices = {"cpu:0", "cpu:1"}});
  for (const int64_t prefetch : {0, 2}) {
    const data::Dataset dataset = data::Dataset::range(32).shuffle(32, {.seed = 1}).batch(32);
    std::vector<at::Tensor> first_rows;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const auto& batch : strategy.distribute(dataset, {.prefetch = prefetch})) {
        first_rows.push_back(batch.get(0).x());
      }
    }
    ASSERT_EQ(first_rows.size(), 2u);
    EXPECT_FALSE(first_rows[0].equal(first_rows[1]));
  }
}

}  // namespace
}  // namespace strata
