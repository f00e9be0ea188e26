#include "strata/interop/torch_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "strata/checkpoint/checkpoint.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "support/temp_folder.h"

namespace strata::interop {
namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("second", second);
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first{6, 5};
  torch::nn::Linear second{5, 3};
};
TORCH_MODULE(Net);

MirroredOptions on_cpus(int replicas) {
  set_logical_devices("cpu", replicas);
  MirroredOptions options;
  for (int i = 0; i < replicas; ++i) options.devices.push_back(str_cat("cpu:", i));
  options.replicas.threads_per_replica = 1;
  return options;
}

struct Batch {
  at::Tensor x, y;
};

std::vector<Batch> make_batches(int64_t rows) {
  torch::manual_seed(7);
  std::vector<Batch> batches;
  for (int i = 0; i < 12; ++i) {
    batches.push_back({at::randn({rows, 6}, at::kDouble), at::randn({rows, 3}, at::kDouble)});
  }
  return batches;
}

at::Tensor flat(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& each : parameters) parts.push_back(each.detach().flatten());
  return at::cat(parts);
}

at::Tensor squared_error(const at::Tensor& y, const at::Tensor& target) {
  return (y - target).square().sum(1);
}

/// Weights after the steps on one device, with torch::optim alone.
template <typename TorchOptim, typename Options>
at::Tensor one_device(const Options& options, const std::vector<Batch>& batches) {
  torch::manual_seed(11);
  Net net;
  TorchOptim optimizer(net->parameters(), options);
  for (size_t i = 0; i < batches.size(); ++i) {
    if (i == 6) optimizer.param_groups()[0].options().set_lr(0.003);
    optimizer.zero_grad();
    squared_error(net->forward(batches[i].x), batches[i].y).mean().backward();
    optimizer.step();
  }
  return flat(net->parameters());
}

enum class Call { kMinimize, kMinimizeWeight, kStep };

template <typename TorchOptim, typename Options>
at::Tensor replicated(const Options& options, const std::vector<Batch>& batches, Call call,
                      const MirroredOptions& mirrored) {
  MirroredStrategy strategy(mirrored);
  torch::manual_seed(11);
  const auto net = strategy.replicate([] { return Net(); });
  TorchOptimizer<TorchOptim> optimizer(net.variables(), options);
  for (size_t i = 0; i < batches.size(); ++i) {
    if (i == 6) optimizer.param_groups()[0].options().set_lr(0.003);
    const auto global = static_cast<double>(batches[i].x.size(0));
    const auto dataset = data::Dataset::from_tensors({batches[i].x, batches[i].y});
    for (const auto& parts : strategy.distribute(dataset)) {
      strategy.run(
          [&](const data::Example& part) {
            const at::Tensor losses = squared_error(net->forward(part.x()), part.y());
            const auto rows = static_cast<double>(losses.numel());
            if (call == Call::kMinimize) return optimizer.minimize(losses.sum() / global);
            if (call == Call::kMinimizeWeight)
              return optimizer.minimize(losses.sum(), {.weight = rows});
            optimizer.zero_grad();
            losses.mean().backward();
            optimizer.step({.weight = rows});
          },
          parts);
    }
  }
  for (const Variable& variable : optimizer.variables()) {
    for (int r = 1; r < strategy.num_replicas_in_sync(); ++r) {
      EXPECT_TRUE(variable.on_replica(r).equal(variable.on_replica(0))) << variable.name();
    }
  }
  return flat(net->parameters());
}

template <typename TorchOptim, typename Options>
void expect_parity(const Options& options) {
  for (const int64_t rows : {8, 2}) {  // 2 rows on 3 replicas: one is empty
    const auto batches = make_batches(rows);
    const at::Tensor expected = one_device<TorchOptim>(options, batches);
    for (const int replicas : {1, 2, 3}) {
      for (const Call call : {Call::kMinimize, Call::kMinimizeWeight, Call::kStep}) {
        const at::Tensor found = replicated<TorchOptim>(options, batches, call, on_cpus(replicas));
        EXPECT_LE((found - expected).abs().max().item<double>(), 1e-7)
            << replicas << " replicas, call " << static_cast<int>(call);
      }
    }
    MirroredOptions unshared = on_cpus(3);
    unshared.replicas.share_storage = false;
    MirroredOptions by_ops = on_cpus(3);
    by_ops.cross_device_ops = std::make_shared<ReductionToOneDevice>();
    for (const MirroredOptions& mirrored : {unshared, by_ops}) {
      const at::Tensor found = replicated<TorchOptim>(options, batches, Call::kMinimize, mirrored);
      EXPECT_LE((found - expected).abs().max().item<double>(), 1e-7);
    }
  }
}

TEST(TorchOptimizerTest, SGDEqualsOneDevice) {
  expect_parity<torch::optim::SGD>(torch::optim::SGDOptions(0.02).momentum(0.9).nesterov(true));
}
TEST(TorchOptimizerTest, AdamEqualsOneDevice) {
  expect_parity<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
}
TEST(TorchOptimizerTest, AdamWEqualsOneDevice) {
  expect_parity<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01).weight_decay(0.1));
}
TEST(TorchOptimizerTest, RMSpropEqualsOneDevice) {
  expect_parity<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01));
}
TEST(TorchOptimizerTest, AdagradEqualsOneDevice) {
  expect_parity<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.02));
}

TEST(TorchOptimizerTest, GroupsKeepTheirOptionsAndSchedulersWork) {
  MirroredStrategy strategy(on_cpus(2));
  const auto net = strategy.replicate([] {
    torch::nn::Linear linear(2, 1);
    torch::NoGradGuard no_grad;
    linear->weight.fill_(1);
    linear->bias.fill_(1);
    return linear;
  });
  const auto variables = net.variables();
  TorchOptimizer<torch::optim::SGD> sgd(
      {TorchParamGroup({variables[0]}, torch::optim::SGDOptions(0.5)),
       TorchParamGroup({variables[1]})},
      torch::optim::SGDOptions(0.25));
  torch::optim::StepLR halve(sgd.optimizer(), /*step_size=*/1, /*gamma=*/0.5);
  const auto step = [&] {
    strategy.run([&] { sgd.minimize((net->weight.sum() + net->bias.sum()) / 2); });
  };
  step();
  EXPECT_FLOAT_EQ(net->weight[0][0].item<float>(), 0.5);
  EXPECT_FLOAT_EQ(net->bias[0].item<float>(), 0.75);
  halve.step();  // libtorch's first one changes nothing
  halve.step();
  step();
  EXPECT_FLOAT_EQ(net->weight[0][0].item<float>(), 0.25);
  EXPECT_FLOAT_EQ(net->bias[0].item<float>(), 0.625);
}

TEST(TorchOptimizerTest, SparseGradientsOfEmbeddingsAreAdded) {
  const auto train = [&](int replicas) {
    MirroredStrategy strategy(on_cpus(replicas));
    torch::manual_seed(3);
    const auto net = strategy.replicate(
        [] { return torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 2).sparse(true)); });
    TorchOptimizer<torch::optim::Adagrad> adagrad(net.variables(),
                                                  torch::optim::AdagradOptions(0.1));
    const auto ids = data::Dataset::from_tensors({at::tensor({0, 1, 1, 1, 3, 0}, at::kLong)});
    for (int i = 0; i < 3; ++i) {
      for (const auto& part : strategy.distribute(ids)) {
        strategy.run(
            [&](const data::Example& local) {
              adagrad.minimize(net->forward(local.x()).square().sum());
            },
            part);
      }
    }
    return net->weight.detach().clone();
  };
  const at::Tensor expected = train(1);
  EXPECT_LE((train(2) - expected).abs().max().item<double>(), 1e-6);
  EXPECT_LE((train(3) - expected).abs().max().item<double>(), 1e-6);
}

TEST(TorchOptimizerTest, StepLeavesGradientsAndReplicasDivideTheVariables) {
  MirroredStrategy strategy(on_cpus(2));
  const auto net = strategy.replicate([] { return Net(); });
  TorchOptimizer<torch::optim::Adam> adam(net.variables(), torch::optim::AdamOptions(0.1));
  strategy.run([&] {
    net->forward(at::ones({2, 6}, at::kDouble)).sum().backward();
    adam.step();
    for (const at::Tensor& each : net->parameters()) EXPECT_TRUE(each.grad().defined());
    adam.zero_grad();
    for (const at::Tensor& each : net->parameters()) EXPECT_FALSE(each.grad().defined());
  });
  const auto variables = net.variables();
  EXPECT_NE(&adam.optimizer_of(variables[0]), &adam.optimizer_of(variables[2]));
  EXPECT_EQ(adam.optimizer_of(variables[0]).state().size() +
                adam.optimizer_of(variables[2]).state().size(),
            variables.size());
  EXPECT_EQ(variables[0].on_replica(0).data_ptr(), variables[0].on_replica(1).data_ptr());
}

/// Weights after all batches; the process "ends" after `stop` of them, and another goes on from a
/// checkpoint with as many replicas as it likes.
template <typename TorchOptim, typename Options>
at::Tensor resumed(const Options& options, const std::vector<Batch>& batches, size_t stop,
                   int before, int after) {
  const strata::test::TempFolder folder;
  const std::string path = folder.path() + "/checkpoint";
  at::Tensor weights;
  const auto train = [&](int replicas, size_t begin, size_t end) {
    MirroredStrategy strategy(on_cpus(replicas));
    torch::manual_seed(begin == 0 ? 11 : 12);
    const auto net = strategy.replicate([] { return Net(); });
    TorchOptimizer<TorchOptim> optimizer(net.variables(), options);
    Checkpoint checkpoint({{"net", net}, {"optimizer", optimizer}});
    if (begin > 0) checkpoint.restore(path).assert_consumed();
    for (size_t i = begin; i < end; ++i) {
      // What a schedule sets is part of the state.
      if (i == 3) optimizer.param_groups()[0].options().set_lr(0.004);
      const auto dataset = data::Dataset::from_tensors({batches[i].x, batches[i].y});
      for (const auto& parts : strategy.distribute(dataset)) {
        strategy.run(
            [&](const data::Example& part) {
              const at::Tensor losses = squared_error(net->forward(part.x()), part.y());
              optimizer.minimize(losses.sum(), {.weight = static_cast<double>(losses.numel())});
            },
            parts);
      }
    }
    if (end < batches.size()) checkpoint.write(path);
    weights = flat(net->parameters());
  };
  train(before, 0, stop);
  if (stop < batches.size()) train(after, stop, batches.size());
  return weights;
}

template <typename TorchOptim, typename Options>
void expect_resume(const Options& options) {
  const auto batches = make_batches(6);
  const at::Tensor whole = resumed<TorchOptim>(options, batches, batches.size(), 2, 2);
  EXPECT_TRUE(resumed<TorchOptim>(options, batches, 5, 2, 2).equal(whole)) << "to the bit";
  for (const auto& [before, after] : {std::pair(2, 3), std::pair(3, 1)}) {
    const at::Tensor moved = resumed<TorchOptim>(options, batches, 5, before, after);
    EXPECT_TRUE(at::allclose(moved, whole, 1e-12, 1e-12)) << before << " to " << after;
  }
}

TEST(TorchOptimizerTest, GoesOnFromACheckpointOnOtherReplicasToo) {
  expect_resume<torch::optim::Adam>(torch::optim::AdamOptions(0.01).amsgrad(true));
  expect_resume<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01));
  expect_resume<torch::optim::SGD>(torch::optim::SGDOptions(0.02).momentum(0.9).dampening(0.1));
  expect_resume<torch::optim::SGD>(torch::optim::SGDOptions(0.02));
  expect_resume<torch::optim::RMSprop>(
      torch::optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
  expect_resume<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.02));
}

// libtorch's SGD takes the first gradient whole; a buffer of zeros would dampen it.
TEST(TorchOptimizerTest, WhatHasNoStateYetHasNoneAfterARestore) {
  const strata::test::TempFolder folder;
  const std::string path = folder.path() + "/checkpoint";
  MirroredStrategy strategy(on_cpus(2));
  const auto net = strategy.replicate([] { return Net(); });
  TorchOptimizer<torch::optim::SGD> sgd(net.variables(),
                                        torch::optim::SGDOptions(0.1).momentum(0.9));
  Checkpoint checkpoint({{"optimizer", sgd}});
  checkpoint.write(path);
  strategy.run([&] { sgd.minimize(net->forward(at::ones({2, 6}, at::kDouble)).sum()); });
  const Variable& first = sgd.variables()[0];
  EXPECT_FALSE(sgd.optimizer_of(first).state().empty());
  checkpoint.restore(path).assert_consumed();
  EXPECT_TRUE(sgd.optimizer_of(first).state().empty());
}

TEST(TorchOptimizerTest, ClosuresAreRefusedWhenCompiling) {
  static_assert(kNeedsClosure<torch::optim::LBFGS>);
  static_assert(!kNeedsClosure<torch::optim::Adam>);
}

void expect_error(ErrorCode code, const std::string& text, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(TorchOptimizerTest, BadCallsSayWhatIsWrong) {
  MirroredStrategy strategy(on_cpus(2));
  const auto net = strategy.replicate([] { return Net(); });
  TorchOptimizer<torch::optim::SGD> sgd(net.variables(), torch::optim::SGDOptions(0.1));
  const at::Tensor x = at::ones({2, 6}, at::kDouble);
  expect_error(ErrorCode::kInvalidArgument, "got no variables", [] {
    TorchOptimizer<torch::optim::SGD>(std::vector<Variable>{}, torch::optim::SGDOptions(0.1));
  });
  expect_error(ErrorCode::kFailedPrecondition, "cross-replica context",
               [&] { strategy.scope([&] { sgd.step(); }); });
  expect_error(ErrorCode::kInvalidArgument, "expected a scalar",
               [&] { strategy.run([&] { sgd.minimize(net->forward(x)); }); });
  expect_error(ErrorCode::kInvalidArgument, "weight",
               [&] { strategy.run([&] { sgd.step({.weight = -1}); }); });
  expect_error(ErrorCode::kFailedPrecondition, "changed in place", [&] {
    strategy.run([&] {
      const torch::NoGradGuard no_grad;
      net->second->bias.add_(1);
      sgd.step();
    });
  });
  expect_error(ErrorCode::kNotFound, "not a variable of this optimizer",
               [&] { sgd.optimizer_of(Variable(at::ones({1}))); });
}

}  // namespace
}  // namespace strata::interop
