// A client without replicas of its own: two servers, which have none of this program's code, run its step.
//
//   build/release/strata server --listen 127.0.0.1:9000 --task worker:0 &
//   build/release/strata server --listen 127.0.0.1:9001 --task worker:1 &
//   build/release/examples/16_standalone 127.0.0.1:9000 127.0.0.1:9001
//
// prints:
//   step 200 of 200
//   test accuracy 0.91
//
// The step is recorded here, once, and sent to the servers; then inputs are. Weights and optimizer live on
// the servers; the last lines fetch them.
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <string>
#include <vector>

#include "strata/strata.h"

constexpr int64_t kBatch = 64;
constexpr uint64_t kSteps = 200;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("hidden", hidden);
    register_module("logits", logits);
  }
  at::Tensor forward(const at::Tensor& images) {
    return logits(at::relu(hidden(images.flatten(1))));
  }
  torch::nn::Linear hidden{784, 128};
  torch::nn::Linear logits{128, 10};
};
TORCH_MODULE(Net);

void train(const std::vector<std::string>& servers) {
  strata::MirroredStrategy strategy(
      {.seed = 1, .client = "standalone", .standalone = {.servers = servers}});
  torch::manual_seed(1);
  const auto mnist = strata::data::load_mnist();
  const auto batches = strategy.distribute(
      mnist.train_dataset().shuffle(12800).repeat().batch(kBatch, {.drop_remainder = true}));
  const auto net = strategy.replicate([] { return Net(); });
  strata::optimizers::Adam adam(net.variables(), {.learning_rate = 1e-3});
  const auto step = strata::function([&](const strata::data::Example& part) {
    const at::Tensor losses = strata::losses::sparse_categorical_crossentropy(
        part.y(), net->forward(part.x()), {.from_logits = true});
    const at::Tensor loss = strata::compute_average_loss(losses, kBatch);
    adam.minimize(loss);
    return loss;
  });
  for (const auto& batch : batches) {
    strategy.run(step, batch);
    if (strategy.runs() == kSteps) break;
  }
  std::printf("step %d of %d\n", static_cast<int>(strategy.runs()), static_cast<int>(kSteps));

  strategy.fetch();
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> right;
  for (const auto& batch : mnist.test_dataset().batch(500)) {
    right.push_back(net->forward(batch.x()).argmax(1).eq(batch.y()));
  }
  const double accuracy = at::cat(right).to(at::kDouble).mean().item<double>();
  std::printf("test accuracy %.2f\n", accuracy);
  strategy.close();
}

int main(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: 16_standalone HOST:PORT...   (of `strata server`s)\n");
    return 2;
  }
  return strata::run_main([&] { train({argv + 1, argv + argc}); });
}
