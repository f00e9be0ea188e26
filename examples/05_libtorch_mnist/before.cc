// LibTorch's own kind of MNIST program, before and after: before.cc knows nothing of strata and
// trains on one device, after.cc trains on all of them. Five lines differ (docs/custom_loops.md
// shows them).
//
//   for f in datasets/mnist/*.gz; do gzip -dc $f > /tmp/$(basename $f .gz); done
//   build/release/examples/05_libtorch_mnist_before /tmp [EPOCHS]
//   build/release/examples/05_libtorch_mnist_after /tmp [EPOCHS]
//
// print
//
//   epoch 1: test accuracy 0.94
//   epoch 2: test accuracy 0.95
#include <torch/torch.h>

#include <cstdio>
#include <string>

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("fc1", fc1);
    register_module("dropout", dropout);
    register_module("fc2", fc2);
    register_module("fc3", fc3);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(fc1->forward(x.flatten(1)));
    x = torch::relu(fc2->forward(dropout->forward(x)));
    return torch::log_softmax(fc3->forward(x), 1);
  }
  torch::nn::Linear fc1{784, 64}, fc2{64, 32}, fc3{32, 10};
  torch::nn::Dropout dropout{0.1};
};
TORCH_MODULE(Net);

int main(int argc, char** argv) {
  using torch::data::datasets::MNIST;
  const std::string folder = argc > 1 ? argv[1] : ".";
  const int epochs = argc > 2 ? std::stoi(argv[2]) : 2;
  torch::manual_seed(1);

  const auto loader = torch::data::make_data_loader(
      MNIST(folder).map(torch::data::transforms::Stack<>()), /*batch_size=*/64);
  const auto test = MNIST(folder, MNIST::Mode::kTest);
  const auto options = torch::optim::SGDOptions(0.05).momentum(0.9);
  Net net;
  torch::optim::SGD optimizer(net->parameters(), options);

  const auto train_step = [&](const torch::data::Example<>& batch) {
    optimizer.zero_grad();
    const auto loss = torch::nll_loss(net->forward(batch.data), batch.target);
    loss.backward();
    optimizer.step();
  };

  for (int epoch = 1; epoch <= epochs; ++epoch) {
    net->train();
    for (const auto& batch : *loader) train_step(batch);

    net->eval();
    const torch::NoGradGuard no_grad;
    const auto right = net->forward(test.images()).argmax(1).eq(test.targets());
    std::printf("epoch %d: test accuracy %.2f\n", epoch,
                right.to(torch::kFloat).mean().item<float>());
  }
}
