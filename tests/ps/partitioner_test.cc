#include "strata/ps/placement.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace strata::ps {
namespace {

VariableSpec floats(std::vector<int64_t> shape) { return {.name = "v", .shape = std::move(shape)}; }

TEST(PartitionerTest, FixedShardsAreNotMoreThanRows) {
  EXPECT_EQ(FixedShardsPartitioner(5)(floats({13})), 5);
  EXPECT_EQ(FixedShardsPartitioner(5)(floats({3, 100})), 3);
}

TEST(PartitionerTest, MinSizeCountsTheLastPartBegun) {
  const MinSizePartitioner defaults({.max_shards = 100});
  EXPECT_EQ(defaults(floats({65536})), 1);
  EXPECT_EQ(defaults(floats({65537})), 2);
  EXPECT_EQ(MinSizePartitioner({.min_shard_bytes = 6, .max_shards = 100})(floats({3})), 2);
  EXPECT_EQ(MinSizePartitioner()(floats({1000000})), 1);
}

TEST(PartitionerTest, MaxSizeKeepsRowsWhole) {
  EXPECT_EQ(MaxSizePartitioner({.max_shard_bytes = 20})(floats({4, 3})), 4);
  EXPECT_EQ(MaxSizePartitioner({.max_shard_bytes = 24})(floats({4, 3})), 2);
  EXPECT_EQ(MaxSizePartitioner({.max_shard_bytes = 1})(floats({4, 3})), 4);
  EXPECT_EQ(MaxSizePartitioner({.max_shard_bytes = 1, .max_shards = 3})(floats({4, 3})), 3);
}

TEST(PartitionerTest, ScalarsAndEmptyVariablesAreOnePart) {
  for (const VariableSpec& variable : {floats({}), floats({0}), floats({0, 4}), floats({4, 0})}) {
    EXPECT_EQ(FixedShardsPartitioner(5)(variable), 1);
    EXPECT_EQ(MinSizePartitioner({.min_shard_bytes = 1, .max_shards = 9})(variable), 1);
    EXPECT_EQ(MaxSizePartitioner({.max_shard_bytes = 1})(variable), 1);
  }
}

TEST(PartitionerTest, LargerPartsComeFirst) {
  EXPECT_EQ(split_rows(13, 5), (std::vector<int64_t>{0, 3, 6, 9, 11, 13}));
  EXPECT_EQ(split_rows(10, 4), (std::vector<int64_t>{0, 3, 6, 8, 10}));
  EXPECT_EQ(split_rows(1, 1), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(split_rows(2, 3), (std::vector<int64_t>{0, 1, 2, 2}));
  EXPECT_EQ(split_rows(0, 2), (std::vector<int64_t>{0, 0, 0}));
}

TEST(PartitionerTest, PartsAreNumbered) {
  EXPECT_EQ(part_name("dense/kernel", 0), "dense/kernel/part_0");
}

TEST(PartitionerTest, BadArgumentsSaySo) {
  expect_error([] { FixedShardsPartitioner partitioner(0); },
               "[ps] FixedShardsPartitioner: got num_shards = 0; expected a positive number");
  expect_error([] { MinSizePartitioner partitioner({.min_shard_bytes = -1}); },
               "[ps] MinSizePartitioner: got min_shard_bytes = -1; expected a positive number");
  expect_error([] { MinSizePartitioner partitioner({.max_shards = 0}); },
               "[ps] MinSizePartitioner: got max_shards = 0; expected a positive number");
  expect_error([] { MaxSizePartitioner partitioner({.max_shard_bytes = 0}); },
               "[ps] MaxSizePartitioner: got max_shard_bytes = 0; expected a positive number");
  expect_error([] { MaxSizePartitioner partitioner({.max_shard_bytes = 1, .max_shards = 0}); },
               "[ps] MaxSizePartitioner: got max_shards = 0; expected a positive number");
  expect_error([] { (void)split_rows(4, 0); },
               "[ps] split_rows: got parts = 0; expected a positive number");
}

}  // namespace
}  // namespace strata::ps
