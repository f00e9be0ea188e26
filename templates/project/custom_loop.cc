// A torch::nn::Module and a training loop of its own, on every core (or on all GPUs), in one
// process or in several:
//
//   custom_loop [EPOCHS]
//   strata launch -n 2 -- build/custom_loop [EPOCHS]
#include <ATen/Context.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <cstdlib>

#include "spirals.h"

using strata::data::Example;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("hidden1", hidden1);
    register_module("hidden2", hidden2);
    register_module("logits", logits);
  }
  at::Tensor forward(const at::Tensor& points) {
    return logits(at::relu(hidden2(at::relu(hidden1(points)))));
  }
  torch::nn::Linear hidden1{2, 64}, hidden2{64, 64}, logits{64, 2};
};
TORCH_MODULE(Net);

void train(int epochs) {
  constexpr int64_t kBatch = 64;  // of all replicas together
  at::manual_seed(1);
  strata::MultiWorkerMirroredStrategy strategy;  // one worker unless a launcher says otherwise
  const auto net = strategy.replicate([] { return Net(); });
  strata::optimizers::Adam adam(net.variables(), {.learning_rate = 0.01});

  const auto batches =
      strategy.distribute(spirals(4096, 1).shuffle(4096, {.seed = 1}).batch(kBatch));
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    double total = 0;
    for (const auto& batch : batches) {
      const auto loss = strategy.run(
          [&](const Example& part) {
            const auto each = strata::losses::sparse_categorical_crossentropy(
                part.y(), net->forward(part.x()), {.from_logits = true});
            const auto local = strata::compute_average_loss(each, kBatch);
            adam.minimize(local);
            return local.detach();
          },
          batch);
      total += strategy.reduce(strata::ReduceOp::kSum, loss).item<double>();
    }
    if (strategy.is_chief())
      std::printf("epoch %d: loss %.4f\n", epoch,
                  total / static_cast<double>(batches.cardinality()));
  }
}

int main(int argc, char** argv) {
  return strata::run_main([&] { train(argc > 1 ? std::atoi(argv[1]) : 20); });
}
