// The libtorch peers of `strata bench models`: ResNet-50 (He et al. 2015) with the layers of
// keras.applications.ResNet50, as a C++ user of libtorch writes it, torch::optim::SGD, one core.
//
//   libtorch-1                libtorch's default memory format
//   libtorch-1-channels-last  --channels-last: weights and images in channels last
//
// And of `strata bench gpu`, by --device cuda: the model on a GPU, a batch copied there a step.
//
// Usage: strata-peer-libtorch-models --data FILE [--channels-last] [--device cuda]
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "peer.h"

namespace {

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;

Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  return Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(true));
}
/// Keras's momentum of 0.99 is libtorch's 0.01.
BatchNorm2d norm(int64_t channels) {
  return BatchNorm2d(torch::nn::BatchNorm2dOptions(channels).eps(1.001e-5).momentum(0.01));
}

struct BlockImpl : torch::nn::Module {
  BlockImpl(int64_t in, int64_t filters, int64_t stride, bool projects) {
    if (projects) {
      conv0 = register_module("conv0", conv(in, 4 * filters, 1, stride));
      bn0 = register_module("bn0", norm(4 * filters));
    }
    conv1 = register_module("conv1", conv(in, filters, 1, stride));
    bn1 = register_module("bn1", norm(filters));
    conv2 = register_module("conv2", conv(filters, filters, 3));
    bn2 = register_module("bn2", norm(filters));
    conv3 = register_module("conv3", conv(filters, 4 * filters, 1));
    bn3 = register_module("bn3", norm(4 * filters));
  }
  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor beside = conv0.is_empty() ? input : bn0(conv0(input));
    torch::Tensor x = torch::relu(bn1(conv1(input)));
    x = torch::relu(bn2(conv2(x)));
    x = bn3(conv3(x));
    return torch::relu(beside + x);
  }
  Conv2d conv0{nullptr}, conv1{nullptr}, conv2{nullptr}, conv3{nullptr};
  BatchNorm2d bn0{nullptr}, bn1{nullptr}, bn2{nullptr}, bn3{nullptr};
};
TORCH_MODULE(Block);

struct ResNet50Impl : torch::nn::Module {
  ResNet50Impl()
      : conv1(register_module("conv1", conv(3, 64, 7, 2))),
        bn1(register_module("bn1", norm(64))),
        blocks(register_module("blocks", torch::nn::Sequential())),
        fc(register_module("fc", torch::nn::Linear(2048, 1000))) {
    int64_t in = 64;
    for (const auto& [filters, count] :
         std::vector<std::pair<int64_t, int>>{{64, 3}, {128, 4}, {256, 6}, {512, 3}}) {
      for (int i = 0; i < count; ++i) {
        blocks->push_back(Block(in, filters, i == 0 && filters > 64 ? 2 : 1, i == 0));
        in = 4 * filters;
      }
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(bn1(conv1(x)));
    x = blocks->forward(torch::max_pool2d(x, 3, 2, 1));
    return fc(x.mean({2, 3}));
  }
  Conv2d conv1;
  BatchNorm2d bn1;
  torch::nn::Sequential blocks;
  torch::nn::Linear fc;
};
TORCH_MODULE(ResNet50);

void train(const std::string& data, bool channels_last, torch::Device device) {
  const peer::Pool pool = peer::read_pool(data, 0);
  const int64_t side = std::lround(std::sqrt(static_cast<double>(pool.x.size(2)) / 3));
  const auto format =
      channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
  ResNet50 net;
  net->to(device);
  if (channels_last) {
    for (auto& p : net->parameters()) {
      if (p.dim() == 4) p.set_data(p.contiguous(format));
    }
  }
  std::vector<torch::Tensor> xs, ys;
  for (int64_t i = 0; i < pool.x.size(0); ++i) {
    const auto images = pool.x[i].view({-1, side, side, 3}).permute({0, 3, 1, 2});
    xs.push_back(images.contiguous(format));
    ys.push_back(pool.y[i]);
  }
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  size_t at = 0;
  peer::serve([&](int64_t count) {
    torch::Tensor loss;
    for (int64_t i = 0; i < count; ++i, at = (at + 1) % xs.size()) {
      optimizer.zero_grad();
      loss =
          torch::nn::functional::cross_entropy(net->forward(xs[at].to(device)), ys[at].to(device));
      loss.backward();
      optimizer.step();
    }
    return loss.item<float>();
  });
}

}  // namespace

int main(int argc, char** argv) try {
  std::string data;
  bool channels_last = false;
  torch::Device device = torch::kCPU;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--channels-last") {
      channels_last = true;
    } else if (arg == "--data" && i + 1 < argc) {
      data = argv[++i];
    } else if (arg == "--device" && i + 1 < argc) {
      device = torch::Device(argv[++i]);
    } else {
      throw std::runtime_error("unknown argument " + arg);
    }
  }
  torch::set_num_threads(1);
  torch::manual_seed(1);
  train(data, channels_last, device);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "strata-peer-libtorch-models: %s\n", error.what());
  return 1;
}
