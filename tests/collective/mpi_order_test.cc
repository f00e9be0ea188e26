// What MPI's own sums give up, and what they keep. Run as the contract is, each process a rank.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "collective/communicator_checks.h"
#include "collective/contract_ranks.h"
#include "support/expect_error.h"

namespace strata::collective {
namespace {

TEST(MpiOrderTest, AnyOrderAddsTheSameNumbers) {
  const Placement placement = Placement::blocks({2, 0, 3, 1, 1});
  ContractRanks ranks("mpi_any", placement);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kInt, at::kLong,
                                     at::kShort, at::kChar, at::kByte}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax}) {
      if (op == ReduceOp::kMean && !c10::isFloatingType(dtype)) continue;
      const auto values = values_of(placement, 70'001, dtype);
      const at::Tensor expected = reduce_in_order(values, op);
      const bool exact = op == ReduceOp::kMax || dtype == at::kHalf || !c10::isFloatingType(dtype);
      ranks.run([&](Communicator& c) {
        std::vector<at::Tensor> local;
        for (const int id : c.replicas()) local.push_back(values[static_cast<size_t>(id)]);
        at::Tensor result = at::empty_like(expected);
        c.all_reduce(local, result, op);
        EXPECT_TRUE(exact ? same_bits(result, expected)
                          : at::allclose(result, expected, 1e-4, 1e-3))
            << reduce_op_name(op) << " of " << dtype;
      });
    }
  }
}

TEST(MpiOrderTest, IdsAreTags) {
  ContractRanks ranks("mpi", Placement::blocks({1, 1}));
  ranks.run([&](Communicator& c) {
    at::Tensor x = at::ones({4});
    expect_error_containing(
        [&] { c.all_reduce_(x, ReduceOp::kSum, {.id = 0xffffffff}); }, ErrorCode::kInvalidArgument,
        "[collective] got id 4294967295; expected one below half of MPI's largest tag, ");
    c.barrier();  // nothing has happened
  });
}

}  // namespace
}  // namespace strata::collective
