// torch::optim optimizers, and libtorch's modules in several processes, on GPUs.

#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "gpu/gpus.h"
#include "parity/models.h"
#include "strata/interop/distributed_data_parallel.h"
#include "strata/interop/torch_optimizer.h"
#include "strata/strategies/one_device_strategy.h"
#include "support/thread_cluster.h"

namespace strata::parity {
namespace {

class GpuInteropTest : public test::GpuTest {};

template <typename TorchOptim, typename Options>
std::vector<at::Tensor> train(Strategy& strategy, Kind kind, const Options& options) {
  const auto net = strategy.replicate([&] { return std::make_shared<Net>(kind, at::kDouble); });
  interop::TorchOptimizer<TorchOptim> optimizer(net.variables(), options);
  const Batches batches = make_batches(kind, at::kDouble, 10, {13, 7, 16});
  size_t step = 0;
  for (const auto& batch : strategy.distribute(as_dataset(batches))) {
    const int64_t rows = batches[step++].num_rows();
    strategy.run(
        [&](const data::Example& part) {
          optimizer.minimize(
              compute_average_loss(losses::sparse_categorical_crossentropy(
                                       part.y(), net->forward(part.x()), {.from_logits = true}),
                                   rows));
        },
        batch);
  }
  std::vector<at::Tensor> weights;
  for (const Variable& variable : net.variables()) weights.push_back(variable.value().detach());
  return weights;
}

TEST_F(GpuInteropTest, TorchOptimizersEqualOneCpus) {
  for (const Kind kind : {Kind::kMlp, Kind::kCnn}) {
    const auto expect_parity = [&]<typename TorchOptim, typename Options>(const Options& options) {
      OneDeviceStrategy cpu({.device = "cpu:0", .replicas = {.threads_per_replica = 1}});
      const std::vector<at::Tensor> expected = train<TorchOptim>(cpu, kind, options);
      for (const int replicas : {1, 2}) {
        MirroredStrategy gpus({.devices = test::logical_gpus(replicas)});
        EXPECT_LE(difference(train<TorchOptim>(gpus, kind, options), expected), 1e-7) << replicas;
      }
    };
    expect_parity.operator()<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
    expect_parity.operator()<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9));
  }
}

/// Gradients of rows are in no bucket on the cards, those of the other variables are.
TEST_F(GpuInteropTest, TorchOptimizersTakeSparseGradientsBesideDenseOnes) {
  if (test::num_gpus() < 2) GTEST_SKIP() << "this machine has one GPU";
  const torch::optim::SGDOptions options(0.1);
  OneDeviceStrategy cpu({.device = "cpu:0", .replicas = {.threads_per_replica = 1}});
  MirroredStrategy gpus({.devices = {"gpu:0", "gpu:1"}});
  EXPECT_LE(difference(train<torch::optim::SGD>(gpus, Kind::kSparseEmbedding, options),
                       train<torch::optim::SGD>(cpu, Kind::kSparseEmbedding, options)),
            1e-7);
}

/// Gradients that the program's own backwards have left are added to the last one's, and summed once.
TEST_F(GpuInteropTest, GradientsOfSeveralBackwardsAreSummedOnce) {
  const Batches batches = make_batches(Kind::kMlp, at::kDouble, 9, {16});
  const auto weights_of = [&](Strategy& strategy, bool at_once) {
    const auto net =
        strategy.replicate([] { return std::make_shared<Net>(Kind::kMlp, at::kDouble); });
    interop::TorchOptimizer<torch::optim::SGD> sgd(net.variables(), torch::optim::SGDOptions(0.1));
    for (size_t step = 0; step < 3; ++step) {
      strategy.run([&] {
        at::Tensor all;
        for (size_t i = 3 * step; i < 3 * step + 3; ++i) {
          const auto device = net->parameters()[0].device();
          const at::Tensor loss =
              losses::sparse_categorical_crossentropy(batches[i].y().to(device),
                                                      net->forward(batches[i].x().to(device)),
                                                      {.from_logits = true})
                  .mean();
          if (at_once) {
            all = all.defined() ? all + loss : loss;
          } else if (i % 3 < 2) {
            loss.backward();
          } else {
            all = loss;
          }
        }
        sgd.minimize(all);
      });
    }
    std::vector<at::Tensor> weights;
    for (const Variable& variable : net.variables()) {
      weights.push_back(variable.value().detach());
      EXPECT_FALSE(variable.on_replica(0).grad().defined());
    }
    return weights;
  };
  OneDeviceStrategy cpu({.device = "cpu:0", .replicas = {.threads_per_replica = 1}});
  MirroredStrategy one({.devices = test::logical_gpus(1)});
  const std::vector<at::Tensor> expected = weights_of(cpu, true);
  EXPECT_LE(difference(weights_of(cpu, false), expected), 1e-12);
  EXPECT_LE(difference(weights_of(one, false), expected), 1e-7);
}

// A card each: ranks that are threads of one process share autograd's thread of a card, on which
// one would wait for the other.
void expect_data_parallel_modules_equal_one_cpu(const std::vector<c10::Device>& devices,
                                                Kind kind = Kind::kMlp) {
  const Batches batches = make_batches(kind, at::kDouble, 8, {16});
  const auto loss_of = [](Net& net, const data::Example& rows, c10::Device device) {
    return losses::sparse_categorical_crossentropy(
               rows.y().to(device), net.forward(rows.x().to(device)), {.from_logits = true})
        .mean();
  };
  Net alone(kind, at::kDouble);
  torch::optim::SGD sgd(alone.parameters(), 0.1);
  for (const data::Example& batch : batches) {
    sgd.zero_grad();
    loss_of(alone, batch, c10::kCPU).backward();
    sgd.step();
  }

  test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", 2}}));
  test::expect_all_ok(cluster.run([&](test::ThreadCluster::Task& task) {
    const c10::Device device = devices[static_cast<size_t>(task.id.index)];
    auto module = std::make_shared<Net>(kind, at::kDouble);
    module->to(device);
    DistributedDataParallel<std::shared_ptr<Net>> net(
        module, task.taking_part(DistributedDataParallelOptions()));
    torch::optim::SGD local(module->parameters(), 0.1);
    for (const data::Example& batch : batches) {
      local.zero_grad();
      const data::Example half =
          batch.map([&](const at::Tensor& field) { return field.narrow(0, 8 * net.rank(), 8); });
      loss_of(*module, half, device).backward();
      local.step();
    }
    EXPECT_LE(difference(module->parameters(), alone.parameters()), 1e-7);
  }));
}

TEST_F(GpuInteropTest, DistributedDataParallelEqualsOneCpu) {
  if (test::num_gpus() < 2) GTEST_SKIP() << "this machine has one GPU";
  expect_data_parallel_modules_equal_one_cpu({{c10::kCUDA, 0}, {c10::kCUDA, 1}});
  expect_data_parallel_modules_equal_one_cpu({{c10::kCUDA, 0}, {c10::kCUDA, 1}},
                                             Kind::kSparseEmbedding);
}

TEST_F(GpuInteropTest, DistributedDataParallelMixesGpusAndCpus) {
  expect_data_parallel_modules_equal_one_cpu({{c10::kCPU}, {c10::kCUDA, 0}});
  expect_data_parallel_modules_equal_one_cpu({{c10::kCUDA, 0}, {c10::kCPU}});
}

}  // namespace
}  // namespace strata::parity
