// Copies that must be equal are compared over replicas and processes; one that differs is named.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "multi_worker/spread.h"
#include "strata/optim/optimizers.h"
#include "strata/tensor/fingerprint.h"

namespace strata {
namespace {

using test::Body;
using test::run;
using test::run_well;

std::vector<Variable> make_variables(Strategy& strategy) {
  return strategy.scope([] {
    std::vector<Variable> all;
    for (const char* name : {"first", "second", "third"}) {
      all.emplace_back(at::ones({3}), VariableOptions{.name = name});
    }
    return all;
  });
}

void write_to_one(const Variable& variable, int local) {
  const at::NoGradGuard no_grad;
  variable.on_replica(local).add_(1);
}

std::string hash(double value) { return tensor::fingerprint({at::full({3}, value)}); }

TEST(VerifyReplicasTest, EqualCopiesAreWell) {
  for (const test::Spread& spread : std::vector<test::Spread>{{1}, {4}, {2, 2}, {3, 1}}) {
    run_well(spread, [](Strategy& strategy, int) {
      const std::vector<Variable> variables = make_variables(strategy);
      strategy.verify_replicas(variables);
      strategy.verify_replicas({});
      // In the optimizer's arena replicas of a process may share a copy.
      optimizers::SGD sgd({variables[0], variables[1]}, {.learning_rate = 0.1});
      for (int step = 0; step < 3; ++step) {
        strategy.run([&] { sgd.minimize((variables[0].value() * variables[1].value()).sum()); });
        strategy.verify_replicas(variables);
      }
    });
  }
}

TEST(VerifyReplicasTest, TheFirstThatDiffersIsNamedWithItsReplicas) {
  run_well({4}, [](Strategy& strategy, int) {
    const std::vector<Variable> variables = make_variables(strategy);
    write_to_one(variables[1], 2);
    write_to_one(variables[2], 0);
    try {
      strategy.verify_replicas(variables);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      EXPECT_EQ(std::string(error.what()),
                str_cat("[mirrored_strategy] verify_replicas: 'second' is not the same everywhere: "
                        "SHA-256 ",
                        hash(1), " on replicas 0, 1, 3, ", hash(2),
                        " on replica 2; something has written to one copy alone, or a machine "
                        "computes wrongly; go on from a checkpoint"));
    }
    strategy.verify_replicas({variables[0]});
  });
}

TEST(VerifyReplicasTest, EveryProcessNamesTheReplicasAndTheirWorkers) {
  const std::vector<Status> outcomes = run({2, 2, 2}, [](Strategy& strategy, int worker) {
    const std::vector<Variable> variables = make_variables(strategy);
    strategy.verify_replicas(variables);
    if (worker == 1) {
      write_to_one(variables[0], 0);
      write_to_one(variables[0], 1);
    }
    if (worker == 2) {
      write_to_one(variables[0], 1);
      write_to_one(variables[0], 1);
    }
    strategy.verify_replicas(variables);
  });
  for (const Status& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), ErrorCode::kDataLoss);
    EXPECT_NE(outcome.message().find(
                  str_cat("'first' is not the same everywhere: SHA-256 ", hash(1),
                          " on replicas 0, 1 of worker 0 and replica 4 of worker 2, ", hash(2),
                          " on replicas 2, 3 of worker 1, and 1 other value;")),
              std::string::npos)
        << outcome.message();
  }
}

// Where replicas share one copy, those of another process are compared with it.
TEST(VerifyReplicasTest, ACopyThatIsSharedIsCompared) {
  const Body train_and_change_one = [](Strategy& strategy, int worker) {
    const std::vector<Variable> variables = make_variables(strategy);
    optimizers::SGD sgd(variables, {.learning_rate = 0.1});
    strategy.run([&] { sgd.minimize(variables[0].value().sum()); });
    strategy.verify_replicas(variables);
    if (worker == 1) write_to_one(variables[2], 0);
    strategy.verify_replicas(variables);
  };
  const std::vector<Status> outcomes =
      run({2, 2}, train_and_change_one, {.replicas = {.share_storage = true}});
  for (const Status& outcome : outcomes) {
    EXPECT_NE(outcome.message().find("'third' is not the same everywhere"), std::string::npos)
        << outcome.message();
    EXPECT_NE(outcome.message().find("replicas 2, 3 of worker 1"), std::string::npos)
        << outcome.message();
  }
}

TEST(VerifyReplicasTest, WhatEachReplicaHasForItselfIsLeftOut) {
  run_well({2, 2}, [](Strategy& strategy, int worker) {
    const Variable own = strategy.scope([] {
      return Variable(at::ones({3}), {.name = "own",
                                      .trainable = false,
                                      .synchronization = VariableSynchronization::kOnRead,
                                      .aggregation = VariableAggregation::kSum});
    });
    if (worker == 1) write_to_one(own, 0);
    strategy.verify_replicas({own});
  });
}

TEST(VerifyReplicasTest, AllProcessesPassTheSameVariables) {
  const std::vector<Status> outcomes = run({1, 1}, [](Strategy& strategy, int worker) {
    const std::vector<Variable> all = make_variables(strategy);
    strategy.verify_replicas(worker == 0 ? all : std::vector<Variable>{all[0], all[2], all[1]});
  });
  for (const Status& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(outcome.message().find("verify_replicas: got other variables in worker 1 than in "
                                     "worker 0"),
              std::string::npos)
        << outcome.message();
  }
}

}  // namespace
}  // namespace strata
