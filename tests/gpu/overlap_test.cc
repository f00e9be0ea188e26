// Sums of gradients run while backward computes: in modelled time.

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/emulated/device.h"
#include "gpu/emulated/order.h"
#include "parity/models.h"
#include "strata/interop/torch_optimizer.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/runtime/replica_context.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "strata/tensor/fingerprint.h"

namespace strata::parity {
namespace {

using test::emulated_gpu::Cost;

constexpr int kLayers = 20;
constexpr int64_t kWidth = 64;
constexpr int kBatches = 4;

/// Each card gets half of what the other has, and then the other half's sum.
constexpr double kBytes = (kWidth * kWidth + kWidth) * 4.0 * kLayers;
constexpr double kBackward = 2 * kLayers - 1;  // products

MirroredOptions two_cards() {
  return {.devices = {"gpu:0", "gpu:1"},
          .communication_options = {.bytes_per_pack = kWidth * kWidth * 4}};  // a layer
}

/// What `steps` took on the cards, all `kBatches` of them. Products take `product` seconds; `copied_byte` is
/// what a byte takes between cards.
double seconds_of_a_step(double product, double copied_byte, const std::function<void()>& steps) {
  steps();  // the first one makes the buckets
  test::emulated_gpu::set_costs([&](const Cost& cost) {
    if (cost.name == "copy between devices") {
      return copied_byte * static_cast<double>(cost.bytes_written);
    }
    return cost.name.find("mm") != std::string_view::npos ? product : 0.0;
  });
  steps();
  const auto spans = test::emulated_gpu::spans();
  test::emulated_gpu::set_costs(nullptr);
  double begin = spans.front().begin;
  double end = begin;
  for (const auto& span : spans) {
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  return (end - begin) / kBatches;
}

/// Of `fit`.
double seconds_of_a_step(double product, double copied_byte) {
  MirroredStrategy strategy(two_cards());
  const keras::Model model = strategy.scope([] {
    keras::Sequential net(keras::Input({kWidth}), {});
    for (int i = 0; i < kLayers; ++i) net.add(layers::Dense(kWidth, "relu"));
    net.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
    return net;
  });
  const at::Tensor x = at::ones({8 * kBatches, kWidth});
  const auto rows = data::Dataset::from_tensor_slices({x, x}).batch(8);
  return seconds_of_a_step(product, copied_byte, [&] { model.fit(rows, {.verbose = 0}); });
}

/// Layers that are used in the order in which they are made, or the last one first.
class Stack : public torch::nn::Module {
 public:
  explicit Stack(bool last_first) : last_first_(last_first) {
    for (int i = 0; i < kLayers; ++i) {
      layers_.push_back(register_module(std::to_string(i), torch::nn::Linear(kWidth, kWidth)));
    }
    const at::NoGradGuard no_grad;
    for (int i = 0; i < kLayers; ++i) {
      layer(i)->weight.copy_(at::sin(at::arange(kWidth * kWidth) * (1.0 + i)).view({kWidth, -1}));
      layer(i)->bias.copy_(at::cos(at::arange(kWidth) * (1.0 + i)));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (int i = 0; i < kLayers; ++i) x = at::tanh(layer(i)(x));
    return x;
  }
  /// The i-th that is used.
  torch::nn::Linear& layer(int i) {
    return layers_[static_cast<size_t>(last_first_ ? kLayers - 1 - i : i)];
  }

 private:
  const bool last_first_;
  std::vector<torch::nn::Linear> layers_;
};

/// A loop over a Stack. @param weights  What the replicas of layer after layer are at the end.
template <typename MakeOptimizer>
double seconds_of_a_step(double product, double copied_byte, bool last_first,
                         const MakeOptimizer& make, std::vector<at::Tensor>* weights = nullptr) {
  MirroredStrategy strategy(two_cards());
  const auto net = strategy.replicate([&] { return std::make_shared<Stack>(last_first); });
  auto optimizer = make(net.variables());
  const at::Tensor x = at::ones({4, kWidth}) * 0.1;
  const double seconds = seconds_of_a_step(product, copied_byte, [&] {
    for (int i = 0; i < kBatches; ++i) {
      strategy.run([&] {
        const at::Tensor here = x.to(net->layer(0)->weight.device());
        optimizer.minimize(
            net->forward(here * (get_replica_context()->replica_id_in_sync_group() + 1))
                .square()
                .mean());
      });
    }
  });
  for (size_t i = 0; weights != nullptr && i < kLayers; ++i) {
    const size_t made = last_first ? kLayers - 1 - i : i;
    for (const size_t variable : {2 * made, 2 * made + 1}) {
      for (const int replica : {0, 1}) {
        weights->push_back(net.variables()[variable].on_replica(replica).detach().cpu());
      }
    }
  }
  return seconds;
}

const auto kMakeSgd = [](const auto& variables) {
  return optimizers::SGD(variables, {.learning_rate = 0.01, .momentum = 0.9});
};
const auto kMakeTorchSgd = [](const auto& variables) {
  return interop::TorchOptimizer<torch::optim::SGD>(variables,
                                                    torch::optim::SGDOptions(0.01).momentum(0.9));
};

TEST(GpuOverlapTest, AStepTakesTheLongerOfBackwardAndCommunication) {
  const double compute = seconds_of_a_step(1, 0);
  EXPECT_NEAR(compute, 3 * kLayers - 1, 1);  // forward, and two products a layer in backward
  const double communication = seconds_of_a_step(0, kBackward / kBytes);
  EXPECT_GT(communication, 0.9 * kBackward);
  const double both = seconds_of_a_step(1, kBackward / kBytes);
  std::printf("compute %.1f s, communication %.1f s, a step %.1f s\n", compute, communication,
              both);
  EXPECT_LE(both, 1.1 * std::max(compute, communication));
}

/// How much of the sums' time backward hides.
template <typename MakeOptimizer>
void expect_hidden_sums(const char* name, const MakeOptimizer& make) {
  for (const bool last_first : {false, true}) {
    const double compute = seconds_of_a_step(1, 0, last_first, make);
    const double communication = seconds_of_a_step(0, kBackward / kBytes, last_first, make);
    const double both = seconds_of_a_step(1, kBackward / kBytes, last_first, make);
    const double hidden = compute + communication - both;
    std::printf("%s, layers made %s: compute %.1f s, communication %.1f s, a step %.1f s\n", name,
                last_first ? "last first" : "in order", compute, communication, both);
    EXPECT_GE(hidden, 0.9 * kBackward) << name << last_first;
  }
}

TEST(GpuOverlapTest, BucketsAreInTheOrderInWhichBackwardMakesTheirGradients) {
  expect_hidden_sums("strata's SGD", kMakeSgd);
}

TEST(GpuOverlapTest, OfTorchOptimizersToo) { expect_hidden_sums("libtorch's SGD", kMakeTorchSgd); }

TEST(GpuOverlapTest, TheOrderOfBucketsDecidesNoBits) {
  const auto weights_of = [](bool last_first, const auto& make) {
    std::vector<at::Tensor> weights;
    seconds_of_a_step(1, 0, last_first, make, &weights);
    EXPECT_FALSE(weights.empty());
    return tensor::fingerprint(weights);
  };
  EXPECT_EQ(weights_of(false, kMakeSgd), weights_of(true, kMakeSgd));
  EXPECT_EQ(weights_of(false, kMakeTorchSgd), weights_of(true, kMakeTorchSgd));
}

}  // namespace
}  // namespace strata::parity
