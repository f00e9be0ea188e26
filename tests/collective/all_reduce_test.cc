#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "collective/algorithms/tree_op.h"
#include "collective/in_process/in_process.h"
#include "support/replicas.h"

namespace strata::collective {
namespace {

constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax};

/// `size` numbers of many magnitudes, so that another order of adding shows in the bits.
at::Tensor numbers(int64_t size, int seed, at::ScalarType dtype) {
  at::set_num_threads(1);  // each replica thread would start a team of its own
  const at::Tensor i = at::arange(size, at::kDouble) + 1000.0 * seed;
  const at::Tensor wild = (i * 12.9898).sin() * (1 + (i * 0.7).cos() * 1000);
  return wild.to(dtype);
}

at::Tensor expected_result(const std::vector<at::Tensor>& values, ReduceOp op) {
  // 16-bit floats are added in float and rounded once.
  const at::ScalarType dtype = values[0].scalar_type();
  std::vector<at::Tensor> wide;
  for (const at::Tensor& value : values) {
    wide.push_back(dtype == at::kBFloat16 ? value.to(at::kFloat) : value);
  }
  const at::Tensor sum = tensor::reduce_in_tree_order(tree_op(op), wide);
  const bool mean = op == ReduceOp::kMean;
  return (mean ? sum.div(static_cast<double>(values.size())) : sum).to(dtype);
}

class AllReduceTest : public ::testing::TestWithParam<int> {};

// Float and double take the schedule (alone below 16 KiB, shared above), others one pass by the
// last.
TEST_P(AllReduceTest, BitsAreThoseOfTheTreeInPlace) {
  const int n = GetParam();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kInt, at::kBFloat16}) {
    Rendezvous rendezvous(n, {});
    for (const int64_t size : {0, 1, 7, 64, 4096, 100003}) {
      for (const ReduceOp op : kAllOps) {
        if (op == ReduceOp::kMean && dtype == at::kInt) continue;
        constexpr int64_t kMargin = 8;  // must stay as it is
        std::vector<at::Tensor> whole, parts, inputs;
        for (int i = 0; i < n; ++i) {
          whole.push_back(at::full({size + 2 * kMargin}, -77, dtype));
          parts.push_back(whole.back().narrow(0, kMargin, size));
          parts.back().copy_(numbers(size, i, dtype));
          inputs.push_back(parts.back().clone());
        }
        rendezvous.begin_round();
        on_threads(n, [&](int id) {
          all_reduce_(rendezvous, id, parts[static_cast<size_t>(id)], op);
          rendezvous.leave(id);
        });
        ASSERT_TRUE(rendezvous.status().ok()) << rendezvous.status().message();
        const at::Tensor expected = expected_result(inputs, op);
        for (int i = 0; i < n; ++i) {
          const auto r = static_cast<size_t>(i);
          ASSERT_TRUE(parts[r].equal(expected)) << n << " replicas, " << size << " " << dtype << " "
                                                << reduce_op_name(op) << ", replica " << i;
          ASSERT_EQ(parts[r].data_ptr(), whole[r].narrow(0, kMargin, size).data_ptr());
          ASSERT_TRUE((whole[r].narrow(0, 0, kMargin) == -77).all().item<bool>());
          ASSERT_TRUE((whole[r].narrow(0, kMargin + size, kMargin) == -77).all().item<bool>());
        }
      }
    }
  }
}

TEST_P(AllReduceTest, StridedTensorsAreReducedInPlaceToo) {
  const int n = GetParam();
  std::vector<at::Tensor> values, inputs;
  for (int i = 0; i < n; ++i) {
    values.push_back(numbers(300, i, at::kFloat).reshape({20, 15}).t());
    inputs.push_back(values.back().clone());
  }
  Rendezvous rendezvous(n, {});
  rendezvous.begin_round();
  on_threads(n, [&](int id) {
    all_reduce_(rendezvous, id, values[static_cast<size_t>(id)], ReduceOp::kSum);
  });
  for (const at::Tensor& value : values) {
    EXPECT_TRUE(value.equal(expected_result(inputs, ReduceOp::kSum)));
    EXPECT_FALSE(value.is_contiguous());
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas, AllReduceTest, ::testing::Values(1, 2, 3, 5, 8),
                         ::testing::PrintToStringParamName());

// The order shows: another order gives other bits, so equality above is no accident.
TEST(AllReduceOrderTest, NumbersOfTheTestTellOrdersApart) {
  std::vector<at::Tensor> values;
  for (int i = 0; i < 5; ++i) values.push_back(numbers(100003, i, at::kFloat));
  at::Tensor in_sequence = values[0];
  for (size_t i = 1; i < values.size(); ++i) in_sequence = in_sequence + values[i];
  EXPECT_FALSE(in_sequence.equal(expected_result(values, ReduceOp::kSum)));
}

TEST(AllReduceErrorTest, ShapesThatDifferAreNamed) {
  for (const int64_t size : {3, 100003}) {
    Rendezvous rendezvous(2, {});
    rendezvous.begin_round();
    on_threads(2, [&](int id) {
      at::Tensor value = at::ones({size + id});
      EXPECT_ANY_THROW(all_reduce_(rendezvous, id, value, ReduceOp::kSum));
    });
    EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                       {"replica 0 calls all_reduce(SUM) of Float", str_cat("[", size, "]"),
                        str_cat("[", size + 1, "]"), "equal shapes and dtypes"},
                       [&] { rendezvous.status().throw_if_error(); }));
  }
}

TEST(AllReduceErrorTest, OperationsAndDtypesMustAgree) {
  for (const bool dtypes : {true, false}) {
    Rendezvous rendezvous(2, {});
    rendezvous.begin_round();
    on_threads(2, [&](int id) {
      at::Tensor value = at::ones({4}, dtypes && id == 1 ? at::kDouble : at::kFloat);
      const ReduceOp op = !dtypes && id == 1 ? ReduceOp::kMax : ReduceOp::kSum;
      EXPECT_ANY_THROW(all_reduce_(rendezvous, id, value, op));
    });
    EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                       {dtypes ? "of Double [4]" : "all_reduce(MAX)"},
                       [&] { rendezvous.status().throw_if_error(); }));
  }
}

TEST(AllReduceErrorTest, WhatCannotBeReducedInPlaceIsRefused) {
  Rendezvous rendezvous(1, {});
  at::Tensor integers = at::ones({2}, at::kInt);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[collective] all_reduce: got MEAN of Int", "expected a floating dtype"},
                     [&] { all_reduce_(rendezvous, 0, integers, ReduceOp::kMean); }));
  at::Tensor flags = at::ones({2}, at::kBool);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got bool", "cast it to int32 first"},
                     [&] { all_reduce_(rendezvous, 0, flags, ReduceOp::kSum); }));
}

TEST(ReduceInOrderTest, ReducesIntoANewTensor) {
  const std::vector<at::Tensor> values = {at::tensor({1.0, 5.0}), at::tensor({3.0, 2.0})};
  EXPECT_TRUE(reduce_in_order(values, ReduceOp::kSum).equal(at::tensor({4.0, 7.0})));
  EXPECT_TRUE(reduce_in_order(values, ReduceOp::kMean).equal(at::tensor({2.0, 3.5})));
  EXPECT_TRUE(reduce_in_order(values, ReduceOp::kMin).equal(at::tensor({1.0, 2.0})));
  EXPECT_TRUE(reduce_in_order(values, ReduceOp::kMax).equal(at::tensor({3.0, 5.0})));
  const at::Tensor one = at::ones({2});
  EXPECT_NE(reduce_in_order({one}, ReduceOp::kSum).data_ptr(), one.data_ptr());
}

TEST(ReduceInOrderTest, AbsentValuesCountAsZero) {
  const std::vector<at::Tensor> values = {{}, at::tensor({3.0}), {}};
  EXPECT_TRUE(reduce_in_order(values, ReduceOp::kSum).equal(at::tensor({3.0})));
  EXPECT_TRUE(reduce_in_order(values, ReduceOp::kMean).equal(at::tensor({1.0})));
  EXPECT_NE(reduce_in_order(values, ReduceOp::kSum).data_ptr(), values[1].data_ptr());
}

TEST(ReduceInOrderTest, MeanOfIntegersIsAFloat) {
  const at::Tensor mean = reduce_in_order(
      {at::tensor({0, 1}, at::kLong), at::tensor({1, 2}, at::kLong)}, ReduceOp::kMean);
  EXPECT_TRUE(mean.is_floating_point());
  EXPECT_TRUE(mean.to(at::kDouble).equal(at::tensor({0.5, 1.5}, at::kDouble)));
}

TEST(ReduceInOrderTest, ErrorsNameWhatCame) {
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[collective] reduce: got shapes [2] and [3] (replica 1)", "with an axis"},
                     [] {
                       reduce_in_order({at::ones({2}), at::ones({3})}, ReduceOp::kSum);
                     }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got dtypes Float and Int (replica 1)"}, [] {
    reduce_in_order({at::ones({2}), at::ones({2}, at::kInt)}, ReduceOp::kSum);
  }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got no value"},
                     [] { reduce_in_order({at::Tensor()}, ReduceOp::kSum); }));
}

TEST(ReduceOpTest, NamesAreParsedInAnyCase) {
  for (const ReduceOp op : kAllOps) EXPECT_EQ(parse_reduce_op(reduce_op_name(op)), op);
  EXPECT_EQ(parse_reduce_op("mean"), ReduceOp::kMean);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[reduce_op] parse: got 'average'", "expected SUM, MEAN, MIN or MAX"},
                     [] { parse_reduce_op("average"); }));
}

}  // namespace
}  // namespace strata::collective
