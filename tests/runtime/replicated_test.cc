#include "strata/runtime/replicated.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <sstream>

#include "runtime/replica_group.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "support/replicas.h"
#include "support/this_replica.h"

namespace strata {
namespace {

using at::Tensor;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("dense", dense);
    register_module("dropout", dropout);
    register_module("norm", norm);
  }
  Tensor forward(const Tensor& x) { return norm(dropout(dense(x))); }

  torch::nn::Linear dense{3, 2};
  torch::nn::Dropout dropout{0.5};
  torch::nn::BatchNorm1d norm{2};
};
TORCH_MODULE(Net);

/// One weight registered under two names, as embeddings and output layers often are.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    first = register_parameter("first", torch::randn({3, 3}));
    second = register_parameter("second", first);
    bias = register_parameter("bias", torch::zeros({3}), /*requires_grad=*/false);
  }
  Tensor forward(const Tensor& x) { return x.matmul(first).matmul(second) + bias; }

  Tensor first, second, bias;
};
TORCH_MODULE(Tied);

Tensor loss_of(NetImpl& net) {
  return (net.forward(torch::randn({4, 3})) - torch::randn({4, 2})).square().sum();
}

/// 3 replicas: one storage, copies that an optimizer keeps equal (as small ones are), or each its
/// own.
class ReplicatedTest : public ::testing::TestWithParam<std::optional<bool>> {
 protected:
  ReplicatedTest() {
    set_logical_devices("cpu", 8);
    torch::manual_seed(1);
    strategy_ = std::make_unique<MirroredStrategy>(
        MirroredOptions{.devices = cpus(3), .replicas = {.share_storage = GetParam()}});
  }

  std::unique_ptr<MirroredStrategy> strategy_;
};

INSTANTIATE_TEST_SUITE_P(Storage, ReplicatedTest,
                         ::testing::Values(std::optional(true), std::nullopt, std::optional(false)),
                         [](const auto& info) -> std::string {
                           if (!info.param) return "Equal";
                           return *info.param ? "Shared" : "Unshared";
                         });

template <typename Module>
bool all_parameters_are(const Module& module, double value) {
  for (const Tensor& each : module.parameters()) {
    if (!each.equal(torch::full_like(each, value))) return false;
  }
  return true;
}

TEST_P(ReplicatedTest, EveryReplicaHasAModuleOfItsOwnWithTheFirstOnesWeights) {
  int made = 0;
  const Replicated<NetImpl> net = strategy_->replicate([&] {
    ++made;
    return Net();
  });
  EXPECT_EQ(made, 4);  // one a replica, one for outside
  const NetImpl* outside = &*net;
  const PerReplica<NetImpl*> modules = strategy_->run([&] { return net.operator->(); });
  for (int a = 0; a < 3; ++a) {
    EXPECT_NE(modules.get(a), outside);
    for (int b = 0; b < a; ++b) EXPECT_NE(modules.get(a), modules.get(b));
    EXPECT_TRUE(modules.get(a)->dense->weight.equal(outside->dense->weight));
    EXPECT_EQ(modules.get(a)->dense->weight.data_ptr(),
              net.variables()[0].on_replica(a).data_ptr());
  }
  EXPECT_EQ(net.ptr().get(), outside);
  EXPECT_EQ(net.parameters().size(), 4u);
  EXPECT_EQ(net.parameters()[0].name(), "dense.weight");
  EXPECT_EQ(net.buffers().size(), 3u);
}

TEST_P(ReplicatedTest, ModulesComeAsValueHolderOrPointer) {
  struct Plain : torch::nn::Module {
    Plain() { weight = register_parameter("weight", torch::ones({2})); }
    Tensor weight;
  };
  const Replicated<Plain> value = strategy_->replicate([] { return Plain(); });
  const Replicated<Plain> pointer = strategy_->replicate([] { return std::make_shared<Plain>(); });
  const Replicated<torch::nn::LinearImpl> holder =
      strategy_->replicate([] { return torch::nn::Linear(2, 1); });
  const Replicated<torch::nn::SequentialImpl> sequential = strategy_->replicate(
      [] { return torch::nn::Sequential(torch::nn::Linear(2, 1), torch::nn::ReLU()); });
  strategy_->run([&] {
    EXPECT_TRUE(value->weight.equal(pointer->weight));
    EXPECT_EQ(holder->forward(value->weight.unsqueeze(0)).numel(), 1);
    EXPECT_EQ(sequential->forward(value->weight.unsqueeze(0)).numel(), 1);
  });
}

TEST_P(ReplicatedTest, TiedWeightsCountOnceAndStayTied) {
  const Replicated<TiedImpl> net = strategy_->replicate([] { return Tied(); });
  EXPECT_EQ(net.parameters().size(), 2u);
  ASSERT_EQ(net.variables().size(), 1u);  // the bias is frozen
  EXPECT_EQ(net.variables()[0].name(), "first");
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.5});
  const Tensor before = net->first.detach().clone();
  const Tensor gradient = strategy_
                              ->run([&] {
                                const Tensor x = torch::ones({1, 3});
                                Tensor w = net->first.detach().clone().requires_grad_();
                                x.matmul(w).matmul(w).sum().backward();
                                sgd.minimize(net->forward(x).sum());
                                EXPECT_TRUE(net->first.is_same(net->second));
                                return w.grad();
                              })
                              .get(0);
  EXPECT_TRUE(net->first.is_same(net->second));
  EXPECT_TRUE(net->first.allclose(before - 0.5 * 3 * gradient))
      << net->first << before - 1.5 * gradient;
}

TEST_P(ReplicatedTest, MovingStatisticsAreTheReplicasOwnAndTheirMeanOutside) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  const PerReplica<Tensor> means = strategy_->run([&] {
    net->norm->forward(torch::full({4, 2}, 10.0 * (id() + 1)) + torch::arange(4.0).unsqueeze(1));
    return net->norm->running_mean.clone();
  });
  EXPECT_TRUE(means.get(0).allclose(torch::full({2}, 1.15)));  // momentum 0.1
  EXPECT_TRUE(means.get(2).allclose(torch::full({2}, 3.15)));
  EXPECT_TRUE(net->norm->running_mean.allclose(torch::full({2}, 2.15)));
  EXPECT_EQ(net->norm->num_batches_tracked.item<int64_t>(), 1);
  EXPECT_TRUE(
      strategy_->run([&] { return net->norm->running_mean.clone(); }).get(2).equal(means.get(2)))
      << "a look from outside changed a replica's own copy";
}

TEST_P(ReplicatedTest, FirstReplicasBuffersCountUnderTheOtherPolicy) {
  const Replicated<NetImpl> net =
      strategy_->replicate([] { return Net(); }, {.buffers = BufferPolicy::kFirstOnRead});
  strategy_->run([&] { net->norm->forward(torch::full({4, 2}, 10.0 * (id() + 1))); });
  EXPECT_TRUE(net->norm->running_mean.allclose(torch::full({2}, 1.0)));
}

TEST_P(ReplicatedTest, BuffersSetOutsideReachEveryReplica) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  strategy_->run([&] { net->norm->forward(torch::full({4, 2}, 10.0 * (id() + 1))); });
  net->norm->running_mean.fill_(7);
  for (const Tensor& mean : strategy_->run([&] { return net->norm->running_mean.clone(); })) {
    EXPECT_TRUE(mean.equal(torch::full({2}, 7.0)));
  }
  EXPECT_TRUE(net->norm->running_mean.equal(torch::full({2}, 7.0)));
}

TEST_P(ReplicatedTest, BuffersSetOutsideAreTakenOnceAndThenTrained) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  net->norm->running_mean.fill_(8);
  const auto step = [&] {
    return strategy_->run([&] {
      net->norm->forward(torch::zeros({4, 2}));
      return net->norm->running_mean[0].item<double>();
    });
  };
  for (const double expected : {7.2, 6.48, 5.832}) {  // nobody looks from outside in between
    for (const double mean : step()) EXPECT_NEAR(mean, expected, 1e-4);
  }
  EXPECT_NEAR(net->norm->running_mean[0].item<double>(), 5.832, 1e-4);
}

TEST_P(ReplicatedTest, ModesSetOutsideHoldInside) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  const auto modes = [&] {
    std::vector<std::string> result;
    for (const auto& mode : strategy_->run([&] {
           return str_cat(net->is_training(), net->dropout->is_training(),
                          net->norm->is_training());
         })) {
      result.push_back(mode);
    }
    return result;
  };
  using Modes = std::vector<std::string>;
  EXPECT_EQ(modes(), Modes(3, "111"));
  net->eval();
  EXPECT_EQ(modes(), Modes(3, "000"));
  net->train();
  EXPECT_EQ(modes(), Modes(3, "111"));
  net->norm->eval();  // one layer alone
  EXPECT_EQ(modes(), Modes(3, "110"));
  net->eval();
  net->dropout->train();
  EXPECT_EQ(modes(), Modes(3, "010"));
}

TEST_P(ReplicatedTest, WeightsWrittenOutsideReachEveryReplica) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  const auto fill = [&](double value) {
    const torch::NoGradGuard no_grad;
    for (Tensor& each : net->parameters()) each.fill_(value);
  };
  const auto inside = [&](double value) {
    for (const bool right : strategy_->run([&] { return all_parameters_are(*net, value); })) {
      if (!right) return false;
    }
    return true;
  };
  fill(2);
  EXPECT_TRUE(inside(2)) << "before there was an optimizer";
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
  EXPECT_TRUE(inside(2)) << "moved into the optimizer's arena";
  fill(3);
  EXPECT_TRUE(inside(3));
  EXPECT_TRUE(all_parameters_are(*net, 3));
  strategy_->run([&] { sgd.minimize(loss_of(*net)); });
  fill(4);
  EXPECT_TRUE(inside(4)) << "after a step";
}

TEST_P(ReplicatedTest, WeightsAndBuffersLoadedOutsideReachEveryReplica) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  std::stringstream file;
  Net other;
  {
    const torch::NoGradGuard no_grad;
    for (Tensor& each : other->parameters()) each.fill_(5);
    other->norm->running_mean.fill_(6);
  }
  torch::save(other, file);
  const std::string bytes = file.str();
  const auto load = [&] {
    std::stringstream again(bytes);
    std::shared_ptr<NetImpl> outside = net.ptr();
    torch::load(outside, again);
  };
  const auto check = [&](const char* when) {
    for (const bool right : strategy_->run([&] {
           return all_parameters_are(*net, 5) &&
                  net->norm->running_mean.equal(torch::full({2}, 6.0));
         })) {
      EXPECT_TRUE(right) << when;
    }
    EXPECT_TRUE(all_parameters_are(*net, 5)) << when;
    EXPECT_TRUE(net->norm->running_mean.equal(torch::full({2}, 6.0))) << when;
  };
  load();
  check("before there was an optimizer");
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
  check("moved into the optimizer's arena");
  strategy_->run([&] { sgd.minimize(loss_of(*net)); });
  EXPECT_FALSE(all_parameters_are(*net, 5));
  load();
  check("after a step");
  strategy_->run([&] { sgd.minimize(loss_of(*net)); });
  const PerReplica<Tensor> trained =
      strategy_->run([&] { return net->dense->weight.detach().clone(); });
  for (int r = 0; r < 3; ++r) {
    EXPECT_FALSE(trained.get(r).equal(torch::full({2, 3}, 5.0))) << "trains no more after loading";
    EXPECT_TRUE(trained.get(r).equal(trained.get(0)));
  }
  EXPECT_TRUE(net->dense->weight.equal(trained.get(0)));
}

TEST_P(ReplicatedTest, WeightsWrittenOutsideJustBeforeTheOptimizerIsMadeReachEveryReplica) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  {
    const torch::NoGradGuard no_grad;
    for (Tensor& each : net->parameters()) each.fill_(2);
  }
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
  EXPECT_TRUE(all_parameters_are(*net, 2));
  for (const bool right : strategy_->run([&] { return all_parameters_are(*net, 2); }))
    EXPECT_TRUE(right);
}

TEST_P(ReplicatedTest, OutsideModuleShowsWhatTrainingWrites) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
  NetImpl* outside = net.operator->();
  for (int step = 0; step < 3; ++step) {
    const Tensor before = outside->dense->weight.detach().clone();
    strategy_->run([&] { sgd.minimize(loss_of(*net)); });
    EXPECT_FALSE(outside->dense->weight.equal(before));
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(net.variables()[0].on_replica(r).equal(outside->dense->weight));
    }
  }
  const auto address = [&](int r) { return net.variables()[0].on_replica(r).data_ptr(); };
  EXPECT_EQ(address(0) == address(1), GetParam() == true);
  EXPECT_EQ(net.variables()[0].state()->shares_storage(), GetParam() == true);
}

TEST_P(ReplicatedTest, WhatAnOptimizerTrainsHasOneValueUnlessStorageIsUnshared) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
  const Variable weight = net.variables()[0];
  for (const int changed : {0, 2, 1}) {
    {
      const torch::NoGradGuard no_grad;
      weight.on_replica(changed).fill_(changed + 5);
    }
    const PerReplica<double> seen =
        strategy_->run([&] { return net->dense->weight.mean().item<double>(); });
    for (int r = 0; r < 3 && GetParam() != false; ++r) EXPECT_EQ(seen.get(r), changed + 5);
    EXPECT_EQ(seen.get(changed), changed + 5);
    if (GetParam() != false) strategy_->verify_replicas(net.variables());
  }
}

TEST_P(ReplicatedTest, ParametersChangedInPlaceInsideRunAreAnError) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  EXPECT_TRUE(
      throws(ErrorCode::kFailedPrecondition,
             {"[variable] 'dense.weight' was changed in place inside run() by replica 1",
              "only an optimizer or Variable::assign may change them", "change them outside run()"},
             [&] {
               strategy_->run([&] {
                 const torch::NoGradGuard no_grad;
                 if (id() == 1) net->dense->weight.mul_(2);
               });
             }));
  strategy_->run([&] { net->forward(torch::ones({4, 3})); });  // and it goes on
}

TEST_P(ReplicatedTest, ParametersChangedInPlaceAreSeenByMinimize) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"'norm.bias' was changed in place", "by replica 2"}, [&] {
                       strategy_->run([&] {
                         if (id() == 2) {
                           const torch::NoGradGuard no_grad;
                           net->norm->bias.zero_();
                         }
                         sgd.minimize(net->forward(torch::ones({4, 3})).sum());
                       });
                     }));
}

TEST_P(ReplicatedTest, FactoriesMustMakeEqualModules) {
  int64_t made = 0;
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[replicate] the factory made modules with different parameters or buffers",
                      "expected the same names and shapes at every call"},
                     [&] { strategy_->replicate([&] { return torch::nn::Linear(2, ++made); }); }));
}

TEST_P(ReplicatedTest, ModulesAreMadeOutsideRun) {
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"replicate: called in replica context"},
                     [&] { strategy_->run([&] { strategy_->replicate([] { return Net(); }); }); }));
}

TEST_P(ReplicatedTest, ReplicasOfAnotherStrategyMayNotUseTheModule) {
  const Replicated<NetImpl> net = strategy_->replicate([] { return Net(); });
  MirroredStrategy other({.devices = cpus(2)});
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"Mixing different tf.distribute.Strategy objects"}, [&] {
                       other.run([&] { net->forward(torch::ones({1, 3})); });
                     }));
}

TEST(ReplicatedOnOneReplicaTest, ThereIsOneModuleInsideAndOutside) {
  set_logical_devices("cpu", 8);
  MirroredStrategy strategy({.devices = cpus(1)});
  int made = 0;
  const Replicated<NetImpl> net = strategy.replicate([&] {
    ++made;
    return Net();
  });
  EXPECT_EQ(made, 1);
  EXPECT_EQ(strategy.run([&] { return net.operator->(); }).get(0), net.operator->());
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
  const Tensor before = net->dense->weight.detach().clone();
  strategy.run([&] { sgd.minimize(loss_of(*net)); });
  EXPECT_FALSE(net->dense->weight.equal(before));
}

TEST(ReplicatedLifeTest, NothingIsLeftOfAStrategyAndItsModules) {
  set_logical_devices("cpu", 8);
  std::weak_ptr<ReplicaGroup> group;
  std::weak_ptr<NetImpl> module;
  {
    MirroredStrategy strategy({.devices = cpus(2)});
    const auto net = strategy.replicate([] { return Net(); });
    optimizers::SGD sgd(net.variables(), {});
    strategy.run([&] { sgd.minimize(net->forward(torch::ones({2, 3})).sum()); });
    group = strategy.group().weak_from_this();
    module = net.ptr();
  }
  EXPECT_TRUE(module.expired());
  EXPECT_TRUE(group.expired()) << "its threads still run";
}

TEST(ReplicatedLifeTest, HandlesOutliveTheStrategy) {
  set_logical_devices("cpu", 8);
  std::optional<Replicated<NetImpl>> net;
  {
    MirroredStrategy strategy({.devices = cpus(2)});
    net = strategy.replicate([] { return Net(); });
  }
  EXPECT_EQ((*net)->dense->weight.numel(), 6);
}

}  // namespace
}  // namespace strata
