#include "strata/interop/distributed_data_parallel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "strata/cluster/resolvers.h"
#include "strata/tensor/fingerprint.h"
#include "support/thread_cluster.h"

namespace strata {
namespace {

using test::ThreadCluster;

/// Two heads, of which a step uses one or both, over an embedding with sparse gradients.
class TwoHeads : public torch::nn::Module {
 public:
  TwoHeads() {
    to(at::kDouble);
    const at::NoGradGuard no_grad;
    double phase = 0;
    for (at::Tensor& parameter : parameters()) {
      const at::Tensor angles = at::arange(parameter.numel(), at::kDouble) * 1.3 + (phase += 0.7);
      parameter.copy_(at::sin(angles).reshape(parameter.sizes()) * 0.5);
    }
  }
  at::Tensor left(const at::Tensor& x) { return left_(body(x)).sum(1); }
  at::Tensor right(const at::Tensor& x) { return right_(body(x)).sum(1); }

 private:
  at::Tensor body(const at::Tensor& x) { return at::tanh(hidden_(table_(x).mean(1))); }

  torch::nn::Embedding table_ = register_module(
      "table", torch::nn::Embedding(torch::nn::EmbeddingOptions(11, 4).sparse(true)));
  torch::nn::Linear hidden_ = register_module("hidden", torch::nn::Linear(4, 5));
  torch::nn::Linear left_ = register_module("left", torch::nn::Linear(5, 2));
  torch::nn::Linear right_ = register_module("right", torch::nn::Linear(5, 2));
};

using Net = DistributedDataParallel<std::shared_ptr<TwoHeads>>;

at::Tensor rows(int64_t first, int64_t count) {
  return at::arange(first * 3, (first + count) * 3, at::kLong).remainder(11).reshape({count, 3});
}

/// Runs `body` as each of `ranks` processes, and gives what they return.
std::vector<std::string> train(int ranks, const std::function<std::string(Net&)>& body,
                               std::optional<bool> overlap = {}) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", ranks}}));
  std::vector<std::string> results(static_cast<size_t>(ranks));
  test::expect_all_ok(cluster.run([&](ThreadCluster::Task& task) {
    auto options = task.taking_part(DistributedDataParallelOptions());
    options.communication_options.overlap = overlap;
    auto module = std::make_shared<TwoHeads>();
    if (task.id.index > 0) {  // the chief's weights count
      const at::NoGradGuard no_grad;
      for (at::Tensor& parameter : module->parameters()) parameter.fill_(task.id.index);
    }
    Net net(module, options);
    EXPECT_EQ(net.rank(), task.id.index);
    results[static_cast<size_t>(task.id.index)] = body(net);
  }));
  return results;
}

void expect_alike(const std::vector<std::string>& hashes) {
  EXPECT_EQ(std::set<std::string>(hashes.begin(), hashes.end()).size(), 1u);
}

/// The weights of one process that trains on all rows of each step.
std::vector<at::Tensor> alone(int64_t steps, int64_t a_step,
                              const std::function<at::Tensor(TwoHeads&, int64_t)>& loss_of) {
  TwoHeads net;
  torch::optim::SGD sgd(net.parameters(), 0.05);
  for (int64_t step = 0; step < steps; ++step) {
    sgd.zero_grad();
    for (int64_t part = 0; part < a_step; ++part) {
      (loss_of(net, step * a_step + part) / static_cast<double>(a_step)).backward();
    }
    sgd.step();
  }
  return net.parameters();
}

double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, (a[i] - b[i]).abs().max().item<double>());
  return most;
}

TEST(DistributedDataParallelTest, IsOneProcessOnTheWholeBatch) {
  const auto loss_of = [](TwoHeads& net, int64_t part) {
    return (net.left(rows(part * 4, 4)) + net.right(rows(part * 4, 4))).square().mean();
  };
  const std::vector<at::Tensor> expected = alone(5, 3, loss_of);
  for (const bool overlap : {false, true}) {
    expect_alike(train(
        3,
        [&](Net& net) {
          torch::optim::SGD sgd(net->parameters(), 0.05);
          for (int64_t step = 0; step < 5; ++step) {
            sgd.zero_grad();
            loss_of(*net, step * 3 + net.rank()).backward();
            sgd.step();
          }
          EXPECT_LT(distance(net->parameters(), expected), 1e-12);
          return tensor::fingerprint(net->parameters());
        },
        overlap));
  }
}

TEST(DistributedDataParallelTest, EachProcessMayUseOtherParameters) {
  const auto loss_of = [](TwoHeads& net, int64_t part) {
    const at::Tensor x = rows(part * 4, 4);
    return (part % 2 == 0 ? net.left(x) : net.right(x)).square().mean();
  };
  const std::vector<at::Tensor> expected = alone(4, 2, loss_of);
  expect_alike(train(2, [&](Net& net) {
    torch::optim::SGD sgd(net->parameters(), 0.05);
    for (int64_t step = 0; step < 4; ++step) {
      sgd.zero_grad();
      loss_of(*net, step * 2 + net.rank()).backward();
      sgd.step();
    }
    EXPECT_LT(distance(net->parameters(), expected), 1e-12);
    return tensor::fingerprint(net->parameters());
  }));
}

TEST(DistributedDataParallelTest, WhatNobodyUsesKeepsItsGradient) {
  expect_alike(train(2, [](Net& net) {
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      net->left(rows(net.rank(), 2)).sum().backward();
      for (const auto& item : net->named_parameters()) {
        const bool right = item.key().starts_with("right");
        EXPECT_EQ(item.value().grad().defined(), !right) << item.key();
      }
    }
    return tensor::fingerprint(net->parameters());
  }));
}

TEST(DistributedDataParallelTest, GradientsOfSeveralBatchesTravelOnce) {
  const auto loss_of = [](TwoHeads& net, int64_t part) {
    return net.left(rows(part * 2, 2)).square().mean();
  };
  // Parts of a step: this process's three, then the other's.
  const std::vector<at::Tensor> expected = alone(2, 6, loss_of);
  expect_alike(train(2, [&](Net& net) {
    torch::optim::SGD sgd(net->parameters(), 0.05);
    for (int64_t step = 0; step < 2; ++step) {
      sgd.zero_grad();
      const int64_t first = step * 6 + net.rank() * 3;
      {
        const auto quiet = net.no_sync();
        (loss_of(*net, first) / 3.0).backward();
        (loss_of(*net, first + 1) / 3.0).backward();
      }
      (loss_of(*net, first + 2) / 3.0).backward();
      sgd.step();
    }
    EXPECT_LT(distance(net->parameters(), expected), 1e-12);
    return tensor::fingerprint(net->parameters());
  }));
}

TEST(DistributedDataParallelTest, WhoHasFewerBatchesJoins) {
  for (const bool overlap : {false, true}) {
    std::mutex mutex;
    std::map<int, int> steps;
    train(
        3,
        [&](Net& net) {
          torch::optim::SGD sgd(net->parameters(), 0.05);
          const int local = 2 + 3 * net.rank();
          for (int step = 0; step < local; ++step) {
            sgd.zero_grad();
            net->left(rows(step, 3)).square().mean().backward();
            sgd.step();
          }
          net.join();
          const std::lock_guard lock(mutex);
          steps[net.rank()] = local;
          return std::string();
        },
        overlap);
    EXPECT_EQ(steps, (std::map<int, int>{{0, 2}, {1, 5}, {2, 8}}));
  }
}

TEST(DistributedDataParallelTest, BuffersAreTheChiefs) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}}));
  std::vector<std::string> hashes(2);
  test::expect_all_ok(cluster.run([&](ThreadCluster::Task& task) {
    const auto options = task.taking_part(DistributedDataParallelOptions());
    DistributedDataParallel net(torch::nn::BatchNorm1d(3), options);
    net->forward(at::arange(12, at::kFloat).reshape({4, 3}) * (task.id.index + 1)).sum().backward();
    hashes[static_cast<size_t>(task.id.index)] = tensor::fingerprint(net->buffers());
  }));
  expect_alike(hashes);
}

TEST(DistributedDataParallelTest, OneProcessNeedsNoCluster) {
  DistributedDataParallel net(
      std::make_shared<TwoHeads>(),
      {.cluster_resolver = std::make_shared<cluster::SimpleResolver>(cluster::ClusterSpec())});
  EXPECT_EQ(net.world_size(), 1);
  net->left(rows(0, 2)).sum().backward();
  net.join();
}

}  // namespace
}  // namespace strata
