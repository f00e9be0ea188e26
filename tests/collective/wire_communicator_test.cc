#include "collective/wire/wire_communicator.h"

#include <gtest/gtest.h>

#include "collective/communicator_ranks.h"

namespace strata::collective {
namespace {

TEST(WireCommunicatorTest, EveryAlgorithmDtypeAndOperation) {
  const Placement placement = Placement::blocks({2, 1, 3, 1, 1}, 2);
  for (const char* const algorithm :
       {"direct", "exchange", "halving_doubling", "recursive_doubling", "tree", "hierarchical"}) {
    Ranks ranks("shuffled", placement, {.implementation = algorithm});
    ASSERT_EQ(dynamic_cast<WireCommunicator&>(ranks.communicator(0))
                  .planner()
                  .choose({.elements = 9})
                  .algorithm,
              algorithm);
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt,
                                       at::kLong, at::kShort, at::kChar, at::kByte}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax}) {
        if (op == ReduceOp::kMean && !c10::isFloatingType(dtype)) continue;
        expect_all_reduce(ranks, placement, values_of(placement, 3001, dtype), op, 0);
      }
    }
  }
}

}  // namespace
}  // namespace strata::collective
