// strata::function on GPUs, where that is other than on CPUs: what a card is asked for, libtorch's engine, and
// what is not recorded there.
#include "strata/graph/function.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <string>
#include <vector>

#include "gpu/gpus.h"
#include "parity/models.h"
#include "strata/graph/inference.h"
#include "strata/optim/losses.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "strata/tensor/fingerprint.h"
#include "support/replicas.h"

namespace strata::test {
namespace {

namespace nn = torch::nn;
using parity::Kind;

constexpr int kSteps = 20;

using GpuFunctionTest = GpuTest;

/// Its backward passes are libtorch's engine's, which has a thread for each card.
TEST_F(GpuFunctionTest, RecordsBackwardOfLibtorchsEngine) {
  const auto run = [](bool traced) {
    const c10::Device gpu(c10::kCUDA, 0);
    torch::manual_seed(3);
    nn::Sequential net(nn::Linear(6, 9), nn::ReLU(), nn::Linear(9, 4));
    net->to(gpu);
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const auto step = function(
        [&](const at::Tensor& x, const at::Tensor& y) {
          sgd.zero_grad();
          const at::Tensor loss = nn::functional::cross_entropy(net->forward(x), y);
          loss.backward();
          sgd.step();
          return loss;
        },
        {.run_eagerly = !traced});
    std::vector<at::Tensor> all;
    for (const data::Example& batch : parity::make_batches(Kind::kMlp, at::kFloat, kSteps, {16})) {
      all.push_back(step(batch.x().to(gpu), batch.y().to(gpu)).detach().cpu());
    }
    EXPECT_EQ(step.tracing_count(), traced ? 1 : 0);
    for (const at::Tensor& each : net->parameters()) all.push_back(each.detach().cpu());
    for (const at::Tensor& each : net->parameters()) all.push_back(each.grad().cpu());
    return tensor::fingerprint(all);
  };
  EXPECT_EQ(run(true), run(false));
}

/// Two replicas on one card, and on two: sums there, or copies between them.
TEST_F(GpuFunctionTest, ReplicasOnOneCardAndOnTwo) {
  const std::vector<std::string> devices = {"gpu:0", "gpu:1"};
  const auto run = [&](const std::vector<c10::DeviceIndex>& cards, Kind kind, bool traced) {
    MirroredStrategy strategy({.devices = devices, .seed = 5});
    const auto net =
        strategy.replicate([&] { return std::make_shared<parity::Net>(kind, at::kFloat); });
    optimizers::Adam adam(net.variables(), {.learning_rate = 0.01, .global_clipnorm = 0.5});
    const auto step = function(
        [&](const data::Example& batch) {
          const at::Tensor losses = losses::sparse_categorical_crossentropy(
              batch.y(), net->forward(batch.x()), {.from_logits = true});
          adam.minimize(compute_average_loss(losses, 32));
          return losses.detach();
        },
        {.run_eagerly = !traced});
    std::vector<at::Tensor> all;
    for (const data::Example& batch : parity::make_batches(kind, at::kFloat, kSteps, {16})) {
      std::vector<data::Example> parts;
      for (const c10::DeviceIndex card : cards) {
        parts.push_back(batch.map(
            [&](const at::Tensor& field) { return field.to(c10::Device(c10::kCUDA, card)); }));
      }
      const auto losses = strategy.run(step, PerReplica(parts));
      for (const at::Tensor& each : losses.values()) all.push_back(each.cpu());
    }
    EXPECT_EQ(step.tracing_count(), traced ? 2 : 0);
    for (const Variable& each : net.variables()) all.push_back(each.value().detach().cpu());
    strategy.verify_replicas(net.variables());
    return tensor::fingerprint(all);
  };
  // Not kCnn, whose BatchNormalization is synchronized.
  for (const Kind kind : {Kind::kMlp, Kind::kSparseEmbedding}) {
    logical_gpus(2);
    EXPECT_EQ(run({0, 0}, kind, true), run({0, 0}, kind, false)) << parity::name_of(kind);
    logical_gpus(1);
    if (num_gpus() < 2) continue;
    EXPECT_EQ(run({0, 1}, kind, true), run({0, 1}, kind, false)) << parity::name_of(kind);
  }
}

TEST_F(GpuFunctionTest, RunsOnTheCallersStreamBehindTheRunBefore) {
  const c10::Device gpu(c10::kCUDA, 0);
  const at::Tensor x = at::randn({32, 32}, gpu);
  const auto fn = [](const at::Tensor& a) { return (a.mm(a) * 2 - a).sum(0); };
  const auto step = function(fn);
  for (int i = 0; i < 3; ++i) step(x);
  for (int i = 0; i < 3; ++i) {
    const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
    const c10::Stream before = guard.getStream(gpu);
    const c10::StreamGuard other(guard.getNewStream(gpu));
    c10::Event made(c10::kCUDA);
    made.record(before);
    made.block(guard.getStream(gpu));
    const at::Tensor result = step(x);
    EXPECT_TRUE(result.equal(fn(x)));
    guard.synchronizeStream(guard.getStream(gpu));
  }
  EXPECT_EQ(step.tracing_count(), 1);
}

TEST_F(GpuFunctionTest, WhatIsExportedIsOnTheCpu) {
  const at::Tensor x = at::ones({2, 3}, c10::Device(c10::kCUDA, 0));
  const auto fn = [](const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{inputs[0] + 1};
  };
  EXPECT_TRUE(throws(ErrorCode::kUnimplemented, {"a tensor on cuda:0", "on the CPU"},
                     [&] { graph::trace_inference(fn, {x}); }));
}

}  // namespace
}  // namespace strata::test
