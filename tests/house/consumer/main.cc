// A project outside of strata's tree: a libtorch program on two replicas, by find_package(strata)
// alone.
#include <strata/strata.h>
#include <torch/torch.h>

#include <cstdio>

int main() {
  strata::set_logical_devices("cpu", 2);
  strata::MirroredStrategy strategy({.devices = {"cpu:0", "cpu:1"}, .seed = 1});
  torch::manual_seed(1);
  auto net = strategy.replicate([] { return torch::nn::Linear(4, 1); });
  strata::optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});

  // y = x * (1, 2, 3, 4)
  const auto weights = torch::arange(1, 5, torch::kFloat).unsqueeze(1);
  const auto x = torch::randn({256, 4});
  const int global_batch = 32;
  const auto dataset =
      strata::data::Dataset::from_tensor_slices({x, x.mm(weights)}).batch(global_batch);
  const auto batches = strategy.distribute(dataset);
  double loss = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    loss = 0;
    for (const auto& batch : batches) {
      const auto losses = strategy.run(
          [&](const strata::data::Example& part) {
            const auto error = net->forward(part.x()) - part.y();
            const auto local = error.square().sum() / global_batch;
            sgd.minimize(local);
            return local.detach();
          },
          batch);
      loss += strategy.reduce(strata::ReduceOp::kSum, losses).item<double>();
    }
  }
  std::printf("loss of the last epoch: %.3g\n", loss);
  if (loss < 1e-3) return 0;
  std::puts("it did not train");
  return 1;
}
