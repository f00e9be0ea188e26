// What a user does wrong, and what is said then: where, what came, what was expected, how to mend
// it.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>

#include "strata/optim/losses.h"
#include "strata/optim/metrics.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/one_device_strategy.h"
#include "strata/strategies/replicate.h"
#include "support/replicas.h"
#include "support/this_replica.h"

namespace strata {
namespace {

using at::Tensor;
using data::Dataset;
using data::Example;

constexpr std::string_view kMixing = "Mixing different tf.distribute.Strategy objects";
constexpr std::string_view kMergeCall = "make it inside get_replica_context()->merge_call(...)";

class BadInputTest : public ::testing::Test {
 protected:
  BadInputTest() { set_logical_devices("cpu", 8); }
};

TEST_F(BadInputTest, NoSuchDevice) {
  EXPECT_TRUE(throws(
      ErrorCode::kNotFound,
      {"[devices] find: got 'cpu:9'", "there are cpu:0, cpu:1", "set_logical_devices(\"cpu\", n)"},
      [] {
        MirroredStrategy({.devices = {"cpu:0", "cpu:9"}});
      }));
  EXPECT_TRUE(throws(ErrorCode::kNotFound, {"[devices] find: got 'gpu:77'"},
                     [] { OneDeviceStrategy({.device = "gpu:77"}); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"what:ever:0"},
                     [] { MirroredStrategy({.devices = {"what:ever:0"}}); }));
}

TEST_F(BadInputTest, DuplicateDevices) {
  // The same device under two names too.
  for (const char* again :
       {"cpu:1", "/device:CPU:1", "/job:localhost/replica:0/task:0/device:CPU:1"}) {
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                       {str_cat("[mirrored_strategy] devices: got '", again, "' twice"),
                        "expected each device once", "set_logical_devices first"},
                       [&] {
                         MirroredStrategy({.devices = {"cpu:1", "cpu:0", again}});
                       }));
  }
}

TEST_F(BadInputTest, VariableMadeOutsideTheScopeAndTrainedInside) {
  MirroredStrategy strategy({.devices = cpus(2)});
  const Variable outside(torch::ones({2}), {.name = "w"});
  optimizers::SGD sgd({outside}, {.learning_rate = 0.1});
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"[sgd] minimize: 'w' was not created in the distribution strategy scope of "
                      "mirrored_strategy",
                      "but in that of default_strategy",
                      "inside strategy.scope(...) or with strategy.replicate(...)"},
                     [&] { strategy.run([&] { sgd.minimize(outside.value().sum()); }); }));
  EXPECT_TRUE(outside.value().equal(torch::ones({2})));
}

TEST_F(BadInputTest, VariableMadeInsideRun) {
  MirroredStrategy strategy({.devices = cpus(2)});
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"[variable] 'late' was made inside run()",
                      "expected variables to be made in the strategy's scope, before run()"},
                     [&] { strategy.run([] { Variable(torch::ones({2}), {.name = "late"}); }); }));
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"[variable] 'mean/total' was made inside run()"},
                     [&] { strategy.run([] { metrics::Mean mean; }); }));
  const auto net = strategy.replicate([] { return torch::nn::Linear(2, 1); });
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"build an optimizer: called in replica context"},
                     [&] { strategy.run([&] { optimizers::SGD sgd(net.variables(), {}); }); }));
  strategy.run(
      [] { get_replica_context()->merge_call([](Strategy&) { Variable(torch::ones({2})); }); });
}

TEST_F(BadInputTest, CrossReplicaCallsInReplicaContext) {
  MirroredStrategy strategy({.devices = cpus(2)});
  const PerReplica<Tensor> value({torch::ones({2}), torch::ones({2})});
  const Dataset dataset = Dataset::range(4).batch(2);
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"run", [&] { strategy.run([] {}); }},
      {"scope", [&] { strategy.scope([] {}); }},
      {"reduce", [&] { strategy.reduce(ReduceOp::kSum, value); }},
      {"reduce", [&] { strategy.reduce(ReduceOp::kMean, value.get(0)); }},
      {"gather", [&] { strategy.gather(value, 0); }},
      {"distribute", [&] { strategy.distribute(dataset); }},
      {"distribute_from_function",
       [&] { strategy.distribute_from_function([&](const InputContext&) { return dataset; }); }},
      {"replicate", [&] { strategy.replicate([] { return torch::nn::Linear(1, 1); }); }},
  };
  for (const auto& [name, call] : calls) {
    EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                       {str_cat("[mirrored_strategy] ", name, ": called in replica context"),
                        "expected cross-replica context", kMergeCall},
                       [&, &call = call] { strategy.run([&] { call(); }); }));
  }
  // The remedy that the message names.
  const PerReplica<Tensor> sums = strategy.run([&] {
    return get_replica_context()->merge_call(
        [](Strategy& merged, const PerReplica<Tensor>& values) {
          return merged.reduce(ReduceOp::kSum, values);
        },
        torch::ones({2}));
  });
  EXPECT_TRUE(sums.get(0).equal(torch::full({2}, 2.0)));
}

TEST_F(BadInputTest, ReplicaCallsInCrossReplicaContext) {
  MirroredStrategy strategy({.devices = cpus(2)});
  strategy.scope([&] {
    const Variable variable(torch::ones({2}), {.name = "w"});
    optimizers::Adam adam({variable}, {});
    const Tensor loss = variable.value().sum();
    EXPECT_TRUE(
        throws(ErrorCode::kFailedPrecondition,
               {"[adam] minimize: called in cross-replica context", "expected a replica function",
                "strategy.run([&](...) { ... optimizer.minimize(...); })"},
               [&] { adam.minimize(loss); }));
    EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                       {"[adam] apply_gradients: called in cross-replica context"},
                       [&] { adam.apply_gradients({torch::ones({2})}); }));
    EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                       {"[losses] compute_average_loss: called in cross-replica context",
                        "inside strategy.run(...)"},
                       [&] { compute_average_loss(torch::ones({2})); }));
    EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                       {"[losses] scale_regularization_loss: called in cross-replica context"},
                       [&] { scale_regularization_loss(torch::ones({})); }));
  });
}

TEST_F(BadInputTest, TwoStrategiesMixed) {
  MirroredStrategy a({.devices = cpus(2)});
  MirroredStrategy b({.devices = cpus(2)});
  EXPECT_TRUE(
      throws(ErrorCode::kFailedPrecondition,
             {"[mirrored_strategy] scope: entered inside the scope of mirrored_strategy", kMixing},
             [&] { a.scope([&] { b.scope([] {}); }); }));
  EXPECT_FALSE(has_strategy());

  Variable of_a = a.scope([] { return Variable(torch::ones({2}), {.name = "a"}); });
  const Variable of_b = b.scope([] { return Variable(torch::ones({2}), {.name = "b"}); });
  EXPECT_TRUE(throws(
      ErrorCode::kFailedPrecondition,
      {"[variable] value: 'a' belongs to mirrored_strategy and was read by a replica of", kMixing},
      [&] { b.run([&] { of_a.value(); }); }));
  EXPECT_TRUE(
      throws(ErrorCode::kFailedPrecondition,
             {"[variable] assign: 'a' belongs to mirrored_strategy and was written by a replica of",
              kMixing},
             [&] { b.run([&] { of_a.assign(torch::zeros({2})); }); }));
  EXPECT_TRUE(of_a.value().equal(torch::ones({2})));
  EXPECT_TRUE(throws(
      ErrorCode::kFailedPrecondition,
      {"[sgd] build: 'b' belongs to mirrored_strategy and 'a' to mirrored_strategy", kMixing}, [&] {
        optimizers::SGD sgd({of_a, of_b}, {});
      }));
  optimizers::SGD sgd({of_a}, {.learning_rate = 1.0});
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"[sgd] apply_gradients: 'a' was not created in the"},
                     [&] { b.run([&] { sgd.apply_gradients({torch::ones({2})}); }); }));
  EXPECT_TRUE(throws(
      ErrorCode::kInvalidArgument, {"run: got 2 values for 1 replicas; pass one per replica"},
      [&] { MirroredStrategy({.devices = cpus(1)}).run([](int) {}, a.run([] { return 1; })); }));
}

TEST_F(BadInputTest, DifferentNumbersOfMergeCalls) {
  MirroredStrategy strategy({.devices = cpus(3)});
  for (const int calls : {1, 4}) {
    EXPECT_TRUE(
        throws(ErrorCode::kFailedPrecondition,
               {"Some replicas made a different number of replica_context().merge_call() calls",
                "all_reduce, all_gather and minimize count too", "take the same path"},
               [&] {
                 strategy.run([&] {
                   for (int i = 0; i < calls + (id() == 1); ++i) {
                     get_replica_context()->merge_call([](Strategy&) {});
                   }
                 });
               }));
  }
  strategy.run([] { get_replica_context()->merge_call([](Strategy&) {}); });
}

TEST_F(BadInputTest, DifferentNumbersOfSteps) {
  MirroredStrategy strategy({.devices = cpus(2)});
  const auto net = strategy.replicate([] { return torch::nn::Linear(2, 1); });
  optimizers::SGD sgd(net.variables(), {});
  EXPECT_TRUE(
      throws(ErrorCode::kFailedPrecondition, {"different number", "minimize count too"}, [&] {
        strategy.run([&] {
          if (id() == 0) sgd.minimize(net->forward(torch::ones({1, 2})).sum());
        });
      }));
  EXPECT_EQ(sgd.iterations(), 0);
  strategy.run([&] { sgd.minimize(net->forward(torch::ones({1, 2})).sum()); });
  EXPECT_EQ(sgd.iterations(), 1);
}

// With every number of permits: tests/runtime/replica_group_test.cc.
TEST_F(BadInputTest, ReplicaFunctionThatThrowsInTheMiddleOfTraining) {
  MirroredStrategy strategy({.devices = cpus(3)});
  const auto net = strategy.replicate([] { return torch::nn::Linear(2, 1); });
  optimizers::Adam adam(net.variables(), {});
  const auto step = [&](int thrower) {
    strategy.run([&] {
      const Tensor loss = net->forward(torch::ones({1, 2})).sum();
      if (id() == thrower) throw std::runtime_error("bad example");
      adam.minimize(loss);
    });
  };
  step(-1);
  const Tensor before = net->weight.detach().clone();
  for (int thrower = 0; thrower < 3; ++thrower) {
    try {
      step(thrower);
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "bad example");
    }
    EXPECT_TRUE(net->weight.equal(before)) << "a step that failed has been applied";
  }
  step(-1);
  EXPECT_EQ(adam.iterations(), 2);
  EXPECT_FALSE(net->weight.equal(before));
}

TEST_F(BadInputTest, EmptyDataset) {
  MirroredStrategy strategy({.devices = cpus(2)});
  int steps = 0;
  for (const auto& batch : strategy.distribute(Dataset::range(0).batch(4))) {
    (void)batch;
    ++steps;
  }
  EXPECT_EQ(steps, 0);
  // A mean over it is 0, not NaN.
  EXPECT_EQ(strategy.scope([] { return metrics::Mean(); }).result(), 0);
}

/// A regression on `rows` rows with n replicas: the loss and the weights after one step.
std::pair<double, Tensor> one_step(int n, int64_t rows) {
  MirroredStrategy strategy({.devices = cpus(n)});
  torch::manual_seed(3);
  const auto net = strategy.replicate([] { return torch::nn::Linear(3, 1); });
  metrics::Mean mean = strategy.scope([] { return metrics::Mean(); });
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
  const Tensor x = torch::arange(3.0 * static_cast<double>(rows)).reshape({rows, 3}) / 10;
  double total = 0;
  for (const auto& batch :
       strategy.distribute(Dataset::from_tensor_slices({x, x.sum(1, true) - 1}).batch(8))) {
    const PerReplica<Tensor> losses = strategy.run(
        [&](const Example& part) {
          const Tensor per_example = (net->forward(part.x()) - part.y()).square().sum(1);
          const Tensor loss = compute_average_loss(per_example, rows);
          EXPECT_TRUE(std::isfinite(loss.item<double>())) << part.num_rows() << " rows";
          EXPECT_TRUE(std::isfinite(compute_average_loss(per_example).item<double>()));
          mean.update(per_example);
          sgd.minimize(loss);
          return loss.detach();
        },
        batch);
    total += strategy.reduce(ReduceOp::kSum, losses).item<double>();
  }
  EXPECT_NEAR(mean.result(), total, 1e-5);
  return {total, net->weight.detach().clone()};
}

TEST_F(BadInputTest, BatchSmallerThanTheReplicasTrainsAsOneDeviceDoes) {
  for (const int64_t rows : {1, 2, 3}) {
    const auto [loss, weights] = one_step(1, rows);
    for (const int n : {2, 4, 8}) {
      const auto [distributed_loss, distributed_weights] = one_step(n, rows);
      EXPECT_NEAR(distributed_loss, loss, 1e-5) << rows << " rows on " << n;
      EXPECT_TRUE(distributed_weights.allclose(weights, 1e-5, 1e-7)) << rows << " rows on " << n;
    }
  }
}

TEST_F(BadInputTest, EmptyReplicaGivesNoNanWhereTheOptimizerDivides) {
  MirroredStrategy strategy({.devices = cpus(3)});
  torch::manual_seed(3);
  const auto net = strategy.replicate([] { return torch::nn::Linear(2, 2); });
  optimizers::Adam adam(net.variables(), {});
  const Dataset one_row =
      Dataset::from_tensor_slices({torch::ones({1, 2}), torch::zeros({1}, torch::kLong)}).batch(4);
  for (const auto& batch : strategy.distribute(one_row)) {
    strategy.run(
        [&](const Example& part) {
          const Tensor loss = losses::sparse_categorical_crossentropy(
                                  part.y(), net->forward(part.x()), {.from_logits = true})
                                  .sum();
          EXPECT_TRUE(std::isfinite(loss.item<double>()));
          adam.minimize(loss, {.weight = static_cast<double>(part.num_rows())});
        },
        batch);
  }
  for (const Tensor& each : net->parameters())
    EXPECT_TRUE(each.isfinite().all().item<bool>()) << each;
}

TEST_F(BadInputTest, StepWithoutAnyRowsKeepsTheWeights) {
  MirroredStrategy strategy({.devices = cpus(2)});
  const auto net = strategy.replicate([] { return torch::nn::Linear(2, 1); });
  optimizers::SGD sgd(net.variables(), {.learning_rate = 1.0});
  const Tensor before = net->weight.detach().clone();
  strategy.run([&] {
    const auto per_example = [&] { return net->forward(torch::empty({0, 2})).sum(1); };
    sgd.minimize(compute_average_loss(per_example()));
    sgd.minimize(per_example().sum(), {.weight = 0});
  });
  EXPECT_TRUE(net->weight.equal(before)) << net->weight;
}

TEST_F(BadInputTest, LabelsOutOfRange) {
  MirroredStrategy strategy({.devices = cpus(2)});
  for (const int64_t label : {10, -1}) {
    EXPECT_TRUE(
        throws(ErrorCode::kInvalidArgument,
               {str_cat("[losses] sparse_categorical_crossentropy: got label ", label, " in row 2"),
                "expected 0 to 9, for the 10 classes"},
               [&] {
                 strategy.run([&] {
                   const Tensor labels = torch::zeros({4}, torch::kLong);
                   if (id() == 1) labels[2] = label;
                   losses::sparse_categorical_crossentropy(labels, torch::zeros({4, 10}),
                                                           {.from_logits = true});
                 });
               }));
  }
}

TEST_F(BadInputTest, ParameterChangedInPlaceInsideRun) {
  MirroredStrategy strategy({.devices = cpus(2)});
  const auto net = strategy.replicate([] { return torch::nn::Linear(2, 1); });
  optimizers::SGD sgd(net.variables(), {});
  const auto tamper = [&] {
    const torch::NoGradGuard no_grad;
    net->weight.add_(1);
  };
  const std::initializer_list<std::string_view> parts = {
      "[variable] 'weight' was changed in place inside run() by replica",
      "only an optimizer or Variable::assign may change them there", "change them outside run()"};
  EXPECT_TRUE(
      throws(ErrorCode::kFailedPrecondition, parts, [&] { strategy.run([&] { tamper(); }); }));
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, parts, [&] {
    strategy.run([&] {
      tamper();
      sgd.minimize(net->forward(torch::ones({1, 2})).sum());
    });
  }));
  tamper();  // outside it is allowed
  strategy.run([&] { sgd.minimize(net->forward(torch::ones({1, 2})).sum()); });
}

}  // namespace
}  // namespace strata
