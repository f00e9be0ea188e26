#include "strata/strategies/strategy.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/one_device_strategy.h"
#include "support/replicas.h"
#include "support/this_replica.h"

namespace strata {
namespace {

using at::Tensor;

PerReplica<Tensor> tensors(std::vector<Tensor> values) {
  return PerReplica<Tensor>(std::move(values));
}

class StrategyTest : public ::testing::Test {
 protected:
  StrategyTest() { set_logical_devices("cpu", 8); }

  static std::unique_ptr<MirroredStrategy> mirrored(int n) {
    return std::make_unique<MirroredStrategy>(MirroredOptions{.devices = cpus(n)});
  }
};

TEST_F(StrategyTest, MirroredStrategyTakesEveryDeviceUnlessTold) {
  set_logical_devices("cpu", 5);
  MirroredStrategy strategy;
  const size_t gpus = list_logical_devices("GPU").size();
  EXPECT_EQ(strategy.num_replicas_in_sync(), static_cast<int>(gpus ? gpus : 5));
  EXPECT_EQ(strategy.name(), "mirrored_strategy");
}

TEST_F(StrategyTest, DevicesGiveTheReplicasTheirOrder) {
  MirroredStrategy strategy({.devices = {"cpu:3", "/device:CPU:1"}});
  EXPECT_EQ(strategy.run([] { return get_replica_context()->device().index; }).values(),
            (std::vector<int>{3, 1}));
}

TEST_F(StrategyTest, OneDeviceStrategyIsTheSameWithOneReplica) {
  OneDeviceStrategy strategy({.device = "cpu:2"});
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
  const Variable variable = strategy.scope([] { return Variable(torch::ones({2})); });
  const PerReplica<Tensor> doubled = strategy.run([&] {
    EXPECT_EQ(get_replica_context()->device().index, 2);
    EXPECT_EQ(&get_strategy(), &strategy);
    return variable.value() * 2;
  });
  EXPECT_TRUE(strategy.reduce(ReduceOp::kSum, doubled).equal(torch::full({2}, 2.0)));
}

TEST_F(StrategyTest, DefaultStrategyIsWhatThereIsOutside) {
  EXPECT_FALSE(has_strategy());
  EXPECT_EQ(&get_strategy(), &default_strategy());
  EXPECT_EQ(get_strategy().num_replicas_in_sync(), 1);
  EXPECT_EQ(get_strategy().run([](int x) { return x + 1; }, 1).values(), std::vector<int>{2});
  EXPECT_EQ(get_strategy().scope([] { return 7; }), 7);
  EXPECT_EQ(get_strategy().run([] { return get_strategy().run([] { return 8; }).get(0); }).get(0),
            8);
  const Tensor value = torch::tensor({1.0, 2.0});
  EXPECT_TRUE(get_strategy().reduce(ReduceOp::kSum, value).equal(value));
}

TEST_F(StrategyTest, ScopeIsLeftHoweverItEnds) {
  const auto strategy = mirrored(2);
  const int result = strategy->scope([&] {
    EXPECT_TRUE(has_strategy());
    EXPECT_EQ(&get_strategy(), strategy.get());
    strategy->scope([&] { EXPECT_EQ(&get_strategy(), strategy.get()); });  // again
    EXPECT_EQ(&get_strategy(), strategy.get());
    return 5;
  });
  EXPECT_EQ(result, 5);
  EXPECT_FALSE(has_strategy());
  EXPECT_THROW(strategy->scope([] { throw std::out_of_range("body"); }), std::out_of_range);
  EXPECT_FALSE(has_strategy());
  strategy->run([&] {
    EXPECT_TRUE(has_strategy());
    EXPECT_EQ(&get_strategy(), strategy.get());
  });
  EXPECT_FALSE(has_strategy());
}

TEST_F(StrategyTest, ScopeReturnsReferencesAsReferences) {
  const auto strategy = mirrored(2);
  int value = 1;
  int& same = strategy->scope([&]() -> int& { return value; });
  EXPECT_EQ(&same, &value);
}

TEST_F(StrategyTest, RunHandsEachReplicaItsPart) {
  const auto strategy = mirrored(3);
  const PerReplica<std::string> words({"a", "b", "c"});
  const std::string shared = "!";
  const PerReplica<std::string> results = strategy->run(
      [&](const std::string& word, const std::string& end, double number) {
        EXPECT_EQ(&end, &shared);  // by reference, not a copy each
        return word + end + std::to_string(static_cast<int>(number));
      },
      words, shared, 4.0);
  EXPECT_EQ(results.values(), (std::vector<std::string>{"a!4", "b!4", "c!4"}));
}

TEST_F(StrategyTest, RunReturnsWhatCannotBeMadeFromNothing) {
  struct NoDefault {
    explicit NoDefault(int value) : value(value) {}
    int value;
  };
  const auto strategy = mirrored(2);
  EXPECT_EQ(strategy->run([] { return NoDefault(id()); }).get(1).value, 1);
  EXPECT_EQ(*strategy->run([] { return std::make_unique<int>(id()); }).get(1), 1);
  const PerReplica<bool> flags = strategy->run([] { return id() == 1; });
  EXPECT_EQ(flags.values(), (std::vector<bool>{false, true}));
  EXPECT_EQ(strategy->run([](bool flag) { return flag ? 1 : 2; }, flags).values(),
            (std::vector<int>{2, 1}));
}

TEST_F(StrategyTest, ReduceOfEveryOperation) {
  const auto strategy = mirrored(3);
  const auto value =
      tensors({torch::tensor({1.0, -4.0}), torch::tensor({2.0, 5.0}), torch::tensor({6.0, 0.0})});
  EXPECT_TRUE(strategy->reduce(ReduceOp::kSum, value).equal(torch::tensor({9.0, 1.0})));
  EXPECT_TRUE(strategy->reduce(ReduceOp::kMean, value).allclose(torch::tensor({3.0, 1.0 / 3})));
  EXPECT_TRUE(strategy->reduce(ReduceOp::kMin, value).equal(torch::tensor({1.0, -4.0})));
  EXPECT_TRUE(strategy->reduce(ReduceOp::kMax, value).equal(torch::tensor({6.0, 5.0})));
}

TEST_F(StrategyTest, ReduceWithAnAxisCountsElements) {
  const auto strategy = mirrored(2);
  const auto value = tensors({torch::tensor({1.0, 2.0, 3.0, 4.0}), torch::tensor({10.0, 20.0})});
  EXPECT_EQ(strategy->reduce(ReduceOp::kSum, value, 0).item<double>(), 40);
  EXPECT_FLOAT_EQ(strategy->reduce(ReduceOp::kMean, value, 0).item<float>(), 40.0f / 6);
  EXPECT_EQ(strategy->reduce(ReduceOp::kMin, value, -1).item<double>(), 1);
  EXPECT_EQ(strategy->reduce(ReduceOp::kMax, value, 0).item<double>(), 20);
  const auto matrices = tensors({torch::ones({2, 3}), torch::ones({4, 3})});
  EXPECT_TRUE(strategy->reduce(ReduceOp::kSum, matrices, -2).equal(torch::full({3}, 6.0)));
  const auto integers = tensors({torch::tensor({1, 2}), torch::tensor({4})});
  EXPECT_FLOAT_EQ(strategy->reduce(ReduceOp::kMean, integers, 0).item<float>(), 7.0f / 3);
}

TEST_F(StrategyTest, ReduceOfEmptyParts) {
  const auto strategy = mirrored(3);
  const auto value = tensors({torch::tensor({5.0}), torch::empty({0}), torch::empty({0})});
  EXPECT_EQ(strategy->reduce(ReduceOp::kSum, value, 0).item<double>(), 5);
  EXPECT_EQ(strategy->reduce(ReduceOp::kMean, value, 0).item<double>(), 5);
  EXPECT_EQ(strategy->reduce(ReduceOp::kMax, value, 0).item<double>(), 5);
  const auto nothing = tensors({torch::empty({0}), torch::empty({0}), torch::empty({0})});
  EXPECT_EQ(strategy->reduce(ReduceOp::kSum, nothing, 0).item<double>(), 0);
  EXPECT_TRUE(std::isnan(strategy->reduce(ReduceOp::kMean, nothing, 0).item<double>()));
}

TEST_F(StrategyTest, ReduceFollowsTheFixedTree) {
  const auto strategy = mirrored(3);
  const double big = std::ldexp(1.0, 53);
  // (1 + 2^53) rounds to 2^53, then - 2^53 leaves 0; any other order leaves 1.
  EXPECT_EQ(strategy->reduce(ReduceOp::kSum, PerReplica<double>({1.0, big, -big})), 0);
  EXPECT_EQ(strategy->reduce(ReduceOp::kSum, PerReplica<double>({big, -big, 1.0})), 1);
}

TEST_F(StrategyTest, ReduceOfNumbers) {
  const auto strategy = mirrored(2);
  EXPECT_EQ(strategy->reduce(ReduceOp::kMean, PerReplica<double>({1.0, 4.0})), 2.5);
  EXPECT_EQ(strategy->reduce(ReduceOp::kSum, PerReplica<int64_t>({int64_t{1} << 60, 1})),
            (int64_t{1} << 60) + 1);
  EXPECT_EQ(strategy->reduce(ReduceOp::kMax, PerReplica<int64_t>({3, 9})), 9);
  EXPECT_TRUE(throws(
      ErrorCode::kInvalidArgument,
      {"[mirrored_strategy] reduce: got MEAN of integers, which is a float", "PerReplica<double>"},
      [&] {
        strategy->reduce(ReduceOp::kMean, PerReplica<int64_t>({3, 9}));
      }));
}

TEST_F(StrategyTest, ReduceOfVariables) {
  const auto strategy = mirrored(2);
  const Variable variable = strategy->scope([] {
    return Variable(torch::tensor({1.0, 2.0}), {.name = "w"});
  });
  const Tensor mean = strategy->reduce(ReduceOp::kMean, variable);
  EXPECT_TRUE(mean.equal(torch::tensor({1.0, 2.0})));
  EXPECT_FALSE(mean.requires_grad());
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"got SUM of variable 'w'", "use MEAN, or value()"},
                     [&] { strategy->reduce(ReduceOp::kSum, variable); }));
}

TEST_F(StrategyTest, ReduceErrorsNameWhatCame) {
  const auto strategy = mirrored(4);
  const Tensor one = torch::ones({2});
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[mirrored_strategy] reduce: got 3 values for 4 replicas; pass one per "
                      "replica (PerReplica)"},
                     [&] {
                       strategy->reduce(ReduceOp::kSum, tensors({one, one, one}));
                     }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"got shapes [2] and [3] (replica 2)", "with an axis"}, [&] {
                       strategy->reduce(ReduceOp::kSum, tensors({one, one, torch::ones({3}), one}));
                     }));
  for (const int64_t axis : {1, -2}) {
    EXPECT_TRUE(
        throws(ErrorCode::kInvalidArgument,
               {str_cat("[mirrored_strategy] reduce: got axis ", axis, " for a value of rank 1"),
                "expected -rank <= axis < rank"},
               [&] {
                 strategy->reduce(ReduceOp::kSum, tensors({one, one, one, one}), axis);
               }));
  }
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"rank 0", "scalars have no axis"}, [&] {
    const Tensor scalar = torch::tensor(1.0);
    strategy->reduce(ReduceOp::kMean, tensors({scalar, scalar, scalar, scalar}), 0);
  }));
  for (const Tensor& same : {one, torch::tensor(0.0)}) {  // a 0 too (rule 13)
    EXPECT_TRUE(
        throws(ErrorCode::kInvalidArgument,
               {"all 4 replicas cannot be reduced with the given reduce op SUM", "or use MEAN"},
               [&] { strategy->reduce(ReduceOp::kSum, same); }));
    EXPECT_TRUE(strategy->reduce(ReduceOp::kMean, same).equal(same));
  }
  EXPECT_EQ(strategy->reduce(ReduceOp::kSum, one, 0).item<double>(), 8);
  EXPECT_EQ(strategy->reduce(ReduceOp::kMean, one, 0).item<double>(), 1);
}

TEST_F(StrategyTest, GatherConcatenatesInReplicaOrder) {
  const auto strategy = mirrored(3);
  EXPECT_TRUE(
      strategy
          ->gather(tensors({torch::tensor({1.0}), torch::empty({0}), torch::tensor({2.0, 3.0})}), 0)
          .equal(torch::tensor({1.0, 2.0, 3.0})));
  EXPECT_TRUE(
      strategy
          ->gather(tensors({torch::zeros({1, 1}), torch::ones({1, 2}), torch::zeros({1, 1})}), 1)
          .equal(torch::tensor({{0.0, 1.0, 1.0, 0.0}})));
  const Tensor sparse = torch::sparse_coo_tensor(torch::tensor({{1}}), torch::tensor({5.0}), {2});
  const Tensor gathered = strategy->gather(tensors({sparse, sparse, sparse}), 0);
  EXPECT_FALSE(gathered.is_sparse());
  EXPECT_TRUE(gathered.equal(torch::tensor({0.0, 5.0, 0.0, 5.0, 0.0, 5.0})));
}

TEST_F(StrategyTest, GatherErrorsNameWhatCame) {
  const auto strategy = mirrored(2);
  const Tensor row = torch::ones({1, 2});
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"gather: got axis 0 for a value of rank 0", "reshape to [1]"}, [&] {
                       strategy->gather(tensors({torch::tensor(1.0), torch::tensor(1.0)}), 0);
                     }));
  for (const int64_t axis : {-1, 2}) {
    EXPECT_TRUE(throws(
        ErrorCode::kInvalidArgument,
        {str_cat("gather: got axis ", axis, " for a value of rank 2; expected 0 <= axis < rank")},
        [&] {
          strategy->gather(tensors({row, row}), axis);
        }));
  }
  EXPECT_TRUE(throws(
      ErrorCode::kInvalidArgument,
      {"gather: got Float [1, 2] and Float [1, 3]", "shapes that differ only along axis 0"}, [&] {
        strategy->gather(tensors({row, torch::ones({1, 3})}), 0);
      }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"gather: got 1 values for 2 replicas"},
                     [&] { strategy->gather(tensors({row}), 0); }));
}

TEST_F(StrategyTest, LocalResultsAreTheReplicasValues) {
  const auto strategy = mirrored(3);
  EXPECT_EQ(strategy->local_results(strategy->run([] { return id(); })),
            (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(strategy->local_results(torch::ones({1})).size(), 1u);
}

TEST_F(StrategyTest, ValuesFromFunctionIsCalledForEachReplica) {
  const auto strategy = mirrored(3);
  const PerReplica<int> values = strategy->values_from_function([](const ValueContext& context) {
    return 10 * context.num_replicas_in_sync + context.replica_id_in_sync_group;
  });
  EXPECT_EQ(values.values(), (std::vector<int>{30, 31, 32}));
  EXPECT_EQ(strategy->run([](int value) { return value + id(); }, values).values(),
            (std::vector<int>{30, 32, 34}));
}

TEST_F(StrategyTest, StrategiesOfDifferentSizesLiveSideBySide) {
  const auto two = mirrored(2);
  const auto three = mirrored(3);
  for (int i = 0; i < 5; ++i) {
    for (const auto* strategy : {&two, &three}) {
      const auto sums = (*strategy)->run([] {
        return get_replica_context()->all_reduce(ReduceOp::kSum, torch::ones({})).item<double>();
      });
      EXPECT_EQ(sums.get(1), (*strategy)->num_replicas_in_sync());
    }
  }
}

}  // namespace
}  // namespace strata
