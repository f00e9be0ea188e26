// A libtorch program, before and after: before.cc knows nothing of strata and trains in one
// process, after.cc in several, on one machine or many. Three lines differ (docs/multi_worker.md
// shows them).
//
//   for f in datasets/mnist/*.gz; do gzip -dc $f > /tmp/$(basename $f .gz); done
//   build/release/examples/10_distributed_data_parallel_before /tmp [EPOCHS]
//   build/release/strata launch -n 2 build/release/examples/10_distributed_data_parallel_after /tmp
//
// print
//
//   epoch 1: test accuracy 0.93
//   epoch 2: test accuracy 0.95
#include <torch/torch.h>

#include <cstdio>
#include <string>
#include "strata/strata.h"

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    register_module("fc3", fc3);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(fc1->forward(x.flatten(1)));
    x = torch::relu(fc2->forward(x));
    return torch::log_softmax(fc3->forward(x), 1);
  }
  torch::nn::Linear fc1{784, 64}, fc2{64, 32}, fc3{32, 10};
};
TORCH_MODULE(Net);

int main(int argc, char** argv) {
  using namespace torch::data::samplers;
  using torch::data::datasets::MNIST;
  const std::string folder = argc > 1 ? argv[1] : ".";
  const int epochs = argc > 2 ? std::stoi(argv[2]) : 2;
  torch::manual_seed(1);

  const auto train = MNIST(folder).map(torch::data::transforms::Stack<>());
  const auto test = MNIST(folder, MNIST::Mode::kTest);
  strata::DistributedDataParallel net(Net{});
  DistributedRandomSampler sampler(*train.size(), net.world_size(), net.rank());
  const auto loader = torch::data::make_data_loader(train, sampler, /*batch_size=*/64);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));

  for (int epoch = 1; epoch <= epochs; ++epoch) {
    for (const auto& batch : *loader) {
      optimizer.zero_grad();
      const auto loss = torch::nll_loss(net->forward(batch.data), batch.target);
      loss.backward();
      optimizer.step();
    }

    const torch::NoGradGuard no_grad;
    const auto right = net->forward(test.images()).argmax(1).eq(test.targets());
    std::printf("epoch %d: test accuracy %.2f\n", epoch,
                right.to(torch::kFloat).mean().item<float>());
  }
}
