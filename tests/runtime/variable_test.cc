#include "strata/runtime/variable.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/replicas.h"
#include "support/this_replica.h"

namespace strata {
namespace {

using at::Tensor;
using Aggregation = VariableAggregation;
using Synchronization = VariableSynchronization;

constexpr Synchronization kSynchronizations[] = {Synchronization::kAuto, Synchronization::kOnWrite,
                                                 Synchronization::kOnRead};
constexpr Aggregation kAggregations[] = {Aggregation::kNone, Aggregation::kSum, Aggregation::kMean,
                                         Aggregation::kOnlyFirstReplica};

Tensor number(double value) { return torch::tensor(value); }

enum class Write { kAssign, kAdd, kSub };
constexpr Write kWrites[] = {Write::kAssign, Write::kAdd, Write::kSub};

void write(Variable& variable, Write kind, const Tensor& value) {
  switch (kind) {
    case Write::kAssign:
      return variable.assign(value);
    case Write::kAdd:
      return variable.assign_add(value);
    case Write::kSub:
      return variable.assign_sub(value);
  }
}

double applied(Write kind, double before, double value) {
  switch (kind) {
    case Write::kAssign:
      return value;
    case Write::kAdd:
      return before + value;
    default:
      return before - value;
  }
}

double aggregated(Aggregation aggregation, const std::vector<double>& values) {
  double sum = 0;
  for (const double each : values) sum += each;
  switch (aggregation) {
    case Aggregation::kSum:
      return sum;
    case Aggregation::kMean:
      return sum / static_cast<double>(values.size());
    default:
      return values[0];
  }
}

/// On 1, 2 and 3 replicas.
class VariableTest : public ::testing::TestWithParam<int> {
 protected:
  VariableTest() {
    set_logical_devices("cpu", 8);
    strategy_ = std::make_unique<MirroredStrategy>(MirroredOptions{.devices = cpus(GetParam())});
  }

  Variable make(const Tensor& value, VariableOptions options) {
    return strategy_->scope([&] { return Variable(value, std::move(options)); });
  }
  int replicas() const { return GetParam(); }
  std::vector<double> copies(const Variable& variable) const {
    std::vector<double> result;
    for (int r = 0; r < replicas(); ++r) result.push_back(variable.on_replica(r).item<double>());
    return result;
  }

  std::unique_ptr<MirroredStrategy> strategy_;
};

INSTANTIATE_TEST_SUITE_P(Replicas, VariableTest, ::testing::Values(1, 2, 3),
                         ::testing::PrintToStringParamName());

// Rules 20 and 21; replicas pass 3, 6, 9. tests/strategies/golden_test.cc has TensorFlow's numbers.
TEST_P(VariableTest, WritesByReplicas) {
  std::vector<double> passed;
  for (int r = 0; r < replicas(); ++r) passed.push_back(3.0 * (r + 1));
  for (const Synchronization synchronization : kSynchronizations) {
    for (const Aggregation aggregation : kAggregations) {
      for (const Write kind : kWrites) {
        SCOPED_TRACE(str_cat("synchronization ", static_cast<int>(synchronization),
                             ", aggregation ", static_cast<int>(aggregation), ", write ",
                             static_cast<int>(kind)));
        const bool on_read = synchronization == Synchronization::kOnRead;
        Variable variable = make(
            number(1),
            {.trainable = false, .synchronization = synchronization, .aggregation = aggregation});
        strategy_->run([&] { write(variable, kind, number(passed[static_cast<size_t>(id())])); });

        std::vector<double> expected;
        for (const double value : passed) {
          const bool local = on_read || aggregation == Aggregation::kNone;
          expected.push_back(applied(kind, 1, local ? value : aggregated(aggregation, passed)));
        }
        EXPECT_EQ(copies(variable), expected);
        EXPECT_EQ(strategy_->run([&] { return variable.value().item<double>(); }).values(),
                  expected);
        if (on_read && aggregation == Aggregation::kNone && replicas() > 1) {
          EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                             {"one value per replica and no aggregation"},
                             [&] { variable.value(); }));
        } else {
          EXPECT_EQ(variable.value().item<double>(),
                    on_read ? aggregated(aggregation, expected) : expected[0]);
        }
      }
    }
  }
}

// Rules 20 and 22.
TEST_P(VariableTest, WritesOutsideRun) {
  for (const Synchronization synchronization : kSynchronizations) {
    for (const Aggregation aggregation : kAggregations) {
      for (const Write kind : kWrites) {
        SCOPED_TRACE(str_cat("synchronization ", static_cast<int>(synchronization),
                             ", aggregation ", static_cast<int>(aggregation), ", write ",
                             static_cast<int>(kind)));
        Variable variable = make(
            number(1),
            {.trainable = false, .synchronization = synchronization, .aggregation = aggregation});
        const bool on_read_sum =
            synchronization == Synchronization::kOnRead && aggregation == Aggregation::kSum;
        if (on_read_sum && kind != Write::kAssign) {
          EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                             {"outside run() only assign is defined"},
                             [&] { write(variable, kind, number(6)); }));
          continue;
        }
        write(variable, kind, number(6));
        const double expected = on_read_sum ? 6.0 / replicas() : applied(kind, 1, 6);
        EXPECT_EQ(copies(variable), std::vector<double>(static_cast<size_t>(replicas()), expected));
        if (on_read_sum) {
          EXPECT_EQ(variable.value().item<double>(), 6);
        }
      }
    }
  }
}

TEST_P(VariableTest, WritesInMergeCallAreCrossReplica) {
  Variable variable = make(number(1), {.trainable = false, .aggregation = Aggregation::kSum});
  strategy_->run([&] {
    get_replica_context()->merge_call([&](Strategy&) { variable.assign_add(number(8)); });
  });
  EXPECT_EQ(copies(variable), std::vector<double>(static_cast<size_t>(replicas()), 9.0));
}

TEST_P(VariableTest, IntegerOnReadSumTruncates) {
  Variable variable = make(torch::tensor(1), {.synchronization = Synchronization::kOnRead,
                                              .aggregation = Aggregation::kSum});
  variable.assign(torch::tensor(7));
  EXPECT_EQ(variable.value().item<int64_t>(), 7 / replicas() * replicas());
}

TEST_P(VariableTest, ScatterAdd) {
  const Tensor indices = torch::tensor({1, 1, 3});
  const auto rows = [](double scale) {
    return scale * torch::tensor({{1.0, 2.0}, {10.0, 20.0}, {5.0, 6.0}});
  };
  const auto expected = [](double scale) {
    return scale * torch::tensor({{0.0, 0.0}, {11.0, 22.0}, {0.0, 0.0}, {5.0, 6.0}});
  };
  for (const Aggregation aggregation : kAggregations) {
    Variable variable =
        make(torch::zeros({4, 2}), {.trainable = false, .aggregation = aggregation});
    strategy_->run([&] { variable.scatter_add(indices, rows(1 + id())); });
    const double n = replicas();
    const double sum = n * (n + 1) / 2;
    for (int r = 0; r < replicas(); ++r) {
      const std::map<Aggregation, double> scale = {{Aggregation::kNone, 1 + r},
                                                   {Aggregation::kSum, sum},
                                                   {Aggregation::kMean, sum / n},
                                                   {Aggregation::kOnlyFirstReplica, 1}};
      EXPECT_TRUE(variable.on_replica(r).allclose(expected(scale.at(aggregation))))
          << "aggregation " << static_cast<int>(aggregation) << " replica " << r;
    }
    variable.assign(torch::zeros({}));
    variable.scatter_add(indices, rows(1));
    EXPECT_TRUE(variable.on_replica(replicas() - 1).equal(expected(1)));
  }
  Variable on_read = make(torch::zeros({4, 2}), {.synchronization = Synchronization::kOnRead,
                                                 .aggregation = Aggregation::kSum});
  EXPECT_TRUE(throws(ErrorCode::kUnimplemented, {"scatter_add: 'Variable' is synchronized on read"},
                     [&] { on_read.scatter_add(indices, rows(1)); }));
}

TEST_P(VariableTest, ScatterAddMayHaveDifferentRowsOnEachReplica) {
  Variable variable =
      make(torch::zeros({4}), {.trainable = false, .aggregation = Aggregation::kSum});
  strategy_->run([&] { variable.scatter_add(torch::arange(id()), torch::ones({id()})); });
  EXPECT_EQ(variable.value().sum().item<double>(), replicas() * (replicas() - 1) / 2);
}

// Rule 20: a number is the same on every replica, so its sum is not what anybody means.
TEST_P(VariableTest, NumbersAreNotSummed) {
  Variable sum =
      make(number(1), {.name = "s", .trainable = false, .aggregation = Aggregation::kSum});
  sum.assign_add(8.0);
  EXPECT_EQ(sum.value().item<double>(), 9);
  const std::pair<std::string, std::function<void()>> writes[] = {
      {"assign", [&] { sum.assign(2.0); }},
      {"assign_add", [&] { sum.assign_add(2.0); }},
      {"assign_sub", [&] { sum.assign_sub(2.0); }}};
  for (const auto& [name, write] : writes) {
    if (replicas() == 1) {
      strategy_->run(write);
      continue;
    }
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                       {"[variable] " + name + ": 's'",
                        "cannot be reduced with the given reduce op", "pass a tensor"},
                       [&] { strategy_->run(write); }));
  }
  Variable mean = make(number(1), {.trainable = false, .aggregation = Aggregation::kMean});
  strategy_->run([&] { mean.assign_add(2.0); });
  EXPECT_EQ(copies(mean), std::vector<double>(static_cast<size_t>(replicas()), 3.0));
}

TEST_P(VariableTest, StartsFromACopyOfTheInitialValueOnEveryReplica) {
  const Tensor initial = torch::arange(6.0).reshape({2, 3});
  Variable variable = make(initial, {.name = "w", .aggregation = Aggregation::kMean});
  initial.zero_();
  for (int r = 0; r < replicas(); ++r) {
    EXPECT_TRUE(variable.on_replica(r).equal(torch::arange(6.0).reshape({2, 3})));
    EXPECT_TRUE(variable.on_replica(r).requires_grad());
    EXPECT_TRUE(variable.on_replica(r).is_leaf());
  }
  EXPECT_EQ(variable.name(), "w");
  EXPECT_TRUE(variable.trainable());
  EXPECT_EQ(variable.synchronization(), Synchronization::kAuto);
  EXPECT_EQ(variable.aggregation(), Aggregation::kMean);
  EXPECT_EQ(variable.sizes(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(variable.numel(), 6);
  EXPECT_EQ(variable.dtype(), torch::kFloat);
  EXPECT_EQ(&variable.group(), &strategy_->group());
}

// Rule 19: every replica holds the initial value of an ON_READ sum, so a new 1 reads N.
TEST_P(VariableTest, NewOnReadSumReadsItsValueTimesReplicas) {
  const Variable variable = make(
      number(1), {.synchronization = Synchronization::kOnRead, .aggregation = Aggregation::kSum});
  EXPECT_EQ(variable.value().item<double>(), replicas());
  EXPECT_FALSE(variable.trainable());
}

TEST_P(VariableTest, StandsWhereATensorDoes) {
  Variable variable = make(torch::ones({2}), {});
  const Variable same = variable;
  EXPECT_TRUE(same.is_same(variable));
  EXPECT_FALSE(same.is_same(make(torch::ones({2}), {})));
  strategy_->run([&] {
    const Tensor loss = (torch::mul(variable, 3.0 + id())).sum();
    loss.backward();
    EXPECT_TRUE(variable.value().grad().equal(torch::full({2}, 3.0 + id())));
    EXPECT_TRUE(variable.value().is_same(variable.on_replica(id())));
  });
  EXPECT_TRUE(static_cast<Tensor>(variable).equal(torch::ones({2})));
}

TEST_P(VariableTest, ValuesAreBroadcastAndCast) {
  Variable variable = make(torch::zeros({2, 2}), {.trainable = false});
  variable.assign(torch::tensor({1, 2}, torch::kLong));
  EXPECT_TRUE(variable.value().equal(torch::tensor({{1.0, 2.0}, {1.0, 2.0}})));
}

TEST_P(VariableTest, AssignMakesWhatAutogradSavedStale) {
  Variable variable = make(torch::ones({2}), {.aggregation = Aggregation::kMean});
  EXPECT_THROW(strategy_->run([&] {
    const Tensor loss = variable.value().square().sum();
    variable.assign(torch::zeros({2}));
    loss.backward();
  }),
               c10::Error);
}

TEST_P(VariableTest, PlainVariableIsSharedByTheReplicasOfAnyStrategy) {
  Variable plain(number(0), {.trainable = false});
  strategy_->run([&] {
    for (int i = 0; i < 100; ++i) plain.assign_add(1.0);
  });
  EXPECT_EQ(plain.value().item<double>(), 100 * replicas());
}

TEST_P(VariableTest, AddsByReplicasToAMeanOfWhatAnOptimizerTrains) {
  Variable variable = make(torch::ones({3}), {.name = "w", .aggregation = Aggregation::kMean});
  optimizers::SGD sgd({variable}, {.learning_rate = 1.0});
  strategy_->run([&] { variable.assign_add(torch::full({3}, 1.0 + id())); });
  const double expected = 1 + (replicas() + 1) / 2.0;
  for (int r = 0; r < replicas(); ++r) {
    EXPECT_TRUE(variable.on_replica(r).equal(torch::full({3}, expected))) << variable.on_replica(r);
  }
  variable.assign_sub(torch::full({3}, expected));
  EXPECT_TRUE(variable.on_replica(replicas() - 1).equal(torch::zeros({3})));
}

// Whether they lie in one storage, as large ones do, or in copies.
TEST_P(VariableTest, WritesWithoutAggregationToWhatAnOptimizerTrainsAreRefused) {
  if (replicas() == 1) return;  // one replica's own copy is everybody's
  for (const int64_t size : {3, 1 << 20}) {
    Variable variable = make(torch::ones({size}), {.name = "w"});
    optimizers::SGD sgd({variable}, {.learning_rate = 1.0});
    EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                       {"[variable] assign: 'w' is trained by an optimizer", "without aggregation",
                        "{.replicas = {.share_storage = false}}"},
                       [&] { strategy_->run([&] { variable.assign(torch::zeros({size})); }); }));
    EXPECT_TRUE(variable.value().equal(torch::ones({size})));
  }
}

TEST_P(VariableTest, WritesWithoutAggregationToUnsharedStorageAreTheReplicasOwn) {
  strategy_ = std::make_unique<MirroredStrategy>(
      MirroredOptions{.devices = cpus(GetParam()), .replicas = {.share_storage = false}});
  Variable variable = make(torch::ones({3}), {.name = "w"});
  optimizers::SGD sgd({variable}, {.learning_rate = 1.0});
  strategy_->run([&] { variable.assign(torch::full({3}, id())); });
  for (int r = 0; r < replicas(); ++r) {
    EXPECT_TRUE(variable.on_replica(r).equal(torch::full({3}, r)));
  }
}

TEST_P(VariableTest, DifferentWritesByReplicasAreAnError) {
  if (replicas() == 1) return;
  Variable a = make(number(1), {.trainable = false, .aggregation = Aggregation::kMean});
  Variable b = make(number(1), {.trainable = false, .aggregation = Aggregation::kMean});
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"replicas disagree"},
                     [&] { strategy_->run([&] { (id() == 0 ? a : b).assign(number(2)); }); }));
  EXPECT_TRUE(throws(
      ErrorCode::kFailedPrecondition, {"replica 0 calls assign, replica 1 calls assign_add"}, [&] {
        strategy_->run([&] { write(a, id() == 0 ? Write::kAssign : Write::kAdd, number(2)); });
      }));
  EXPECT_EQ(copies(a), std::vector<double>(static_cast<size_t>(replicas()), 1.0));
}

TEST_P(VariableTest, ImpossibleVariablesAreRefused) {
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument,
             {"'n': got VariableSynchronization::kNone", "use kAuto, kOnWrite or kOnRead"},
             [&] { make(number(1), {.name = "n", .synchronization = Synchronization::kNone}); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"'u': got an undefined initial value"},
                     [&] { make(Tensor(), {.name = "u"}); }));
  const Variable variable = make(number(1), {.name = "v"});
  for (const int r : {-1, replicas()}) {
    EXPECT_TRUE(throws(
        ErrorCode::kOutOfRange,
        {str_cat("[variable] on_replica: got ", r, " for 'v'; expected 0 to ", replicas() - 1)},
        [&] { variable.on_replica(r); }));
  }
}

}  // namespace
}  // namespace strata
