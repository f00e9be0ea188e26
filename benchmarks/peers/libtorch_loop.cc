// The libtorch peers of `strata bench step`: the training loop that a C++ user of libtorch writes
// by hand on one core. Two systems come from this one file:
//
//   libtorch-1        torch::optim, everything as libtorch sets it up
//   libtorch-1-tuned  --tuned: denormals flushed, at::_fused_adam_ / at::_fused_sgd_; the harness
//   also
//                     preloads mimalloc. --channels-last is a variant of it; the better one counts.
//
// And of `strata bench gpu`, by --device cuda: the same loops with model and batches on a GPU.
//
// Usage: strata-peer-libtorch --case tiny-loop|small-loop|mlp-loop|cnn-loop|wide-loop --data FILE
// [--tuned] [--channels-last] [--device cuda] Protocol: see benchmarks/peers/README.md.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "peer.h"

namespace {

struct MlpImpl : torch::nn::Module {
  MlpImpl(int64_t in, int64_t hidden, int64_t out)
      : fc1(register_module("fc1", torch::nn::Linear(in, hidden))),
        fc2(register_module("fc2", torch::nn::Linear(hidden, hidden))),
        fc3(register_module("fc3", torch::nn::Linear(hidden, out))) {}
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(fc1(x));
    x = torch::relu(fc2(x));
    return fc3(x);
  }
  torch::nn::Linear fc1, fc2, fc3;
};
TORCH_MODULE(Mlp);

struct CnnImpl : torch::nn::Module {
  CnnImpl()
      : conv1(register_module("conv1", torch::nn::Conv2d(1, 32, 3))),
        conv2(register_module("conv2", torch::nn::Conv2d(32, 64, 3))),
        fc1(register_module("fc1", torch::nn::Linear(64 * 12 * 12, 128))),
        fc2(register_module("fc2", torch::nn::Linear(128, 10))) {}
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(conv1(x));
    x = torch::relu(conv2(x));
    x = torch::max_pool2d(x, 2).flatten(1);
    return fc2(torch::relu(fc1(x)));
  }
  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear fc1, fc2;
};
TORCH_MODULE(Cnn);

/// The optimizer calls that PyTorch's own `fused=True` optimizers make.
class FusedOptimizer {
 public:
  FusedOptimizer(std::vector<torch::Tensor> parameters, bool adam)
      : adam_(adam), parameters_(std::move(parameters)) {
    for (const auto& p : parameters_) {
      first_.push_back(torch::zeros_like(p));
      if (adam_) {
        second_.push_back(torch::zeros_like(p));
        steps_.push_back(torch::zeros({}, p.options().requires_grad(false)));
      }
    }
  }
  void step() {
    torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> gradients;
    gradients.reserve(parameters_.size());
    for (auto& p : parameters_) gradients.push_back(p.mutable_grad());
    if (adam_) {
      at::_foreach_add_(steps_, 1);
      at::_fused_adam_(parameters_, gradients, first_, second_, {}, steps_, 1e-3, 0.9, 0.999, 0.0,
                       1e-7, false, false);
    } else {
      at::_fused_sgd_(parameters_, gradients, first_, 0.0, 0.9, 0.01, 0.0, false, false,
                      first_step_);
      first_step_ = false;
    }
  }
  void zero_grad() {
    for (auto& p : parameters_) p.mutable_grad().reset();
  }

 private:
  bool adam_;
  bool first_step_ = true;
  std::vector<torch::Tensor> parameters_, first_, second_, steps_;
};

struct Options {
  std::string name, data;
  bool tuned = false, channels_last = false;
  torch::Device device = torch::kCPU;
};

template <class Net>
void serve(Net net, const Options& options, const peer::Pool& pool, bool images) {
  const bool adam = !images;
  net->to(options.device);
  if (options.channels_last) {
    for (auto& p : net->parameters()) {
      if (p.dim() == 4) p.set_data(p.contiguous(torch::MemoryFormat::ChannelsLast));
    }
  }
  std::vector<torch::Tensor> xs, ys;
  for (int64_t i = 0; i < pool.x.size(0); ++i) {
    auto x = pool.x[i];
    if (images) x = x.view({x.size(0), 1, 28, 28});
    if (options.channels_last && images) x = x.contiguous(torch::MemoryFormat::ChannelsLast);
    xs.push_back(x.to(options.device));
    ys.push_back(pool.y[i].to(options.device));
  }

  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<FusedOptimizer> fused;
  if (options.tuned) {
    fused = std::make_unique<FusedOptimizer>(net->parameters(), adam);
  } else if (adam) {
    optimizer = std::make_unique<torch::optim::Adam>(net->parameters(),
                                                     torch::optim::AdamOptions(1e-3).eps(1e-7));
  } else {
    optimizer = std::make_unique<torch::optim::SGD>(net->parameters(),
                                                    torch::optim::SGDOptions(0.01).momentum(0.9));
  }

  size_t at = 0;
  float loss_value = 0;
  auto steps = [&](int64_t count) {
    torch::Tensor loss;
    for (int64_t i = 0; i < count; ++i, at = (at + 1) % xs.size()) {
      if (fused) {
        fused->zero_grad();
      } else {
        optimizer->zero_grad();
      }
      loss = torch::nn::functional::cross_entropy(net->forward(xs[at]), ys[at]);
      loss.backward();
      if (fused) {
        fused->step();
      } else {
        optimizer->step();
      }
    }
    loss_value = loss.item<float>();
  };
  peer::serve([&](int64_t count) {
    steps(count);
    return loss_value;
  });
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--tuned") {
      options.tuned = true;
    } else if (arg == "--channels-last") {
      options.channels_last = true;
    } else if (arg == "--case" && i + 1 < argc) {
      options.name = argv[++i];
    } else if (arg == "--data" && i + 1 < argc) {
      options.data = argv[++i];
    } else if (arg == "--device" && i + 1 < argc) {
      options.device = torch::Device(argv[++i]);
    } else {
      throw std::runtime_error("unknown argument " + arg);
    }
  }
  torch::set_num_threads(1);
  torch::manual_seed(1);
  if (options.tuned) at::globalContext().setFlushDenormal(true);
  const bool few_rows = options.name == "tiny-loop" || options.name == "small-loop";
  const peer::Pool pool = peer::read_pool(options.data, few_rows ? 8 : 64);
  if (options.name == "tiny-loop") {
    serve(Mlp(128, 128, 10), options, pool, false);
  } else if (options.name == "small-loop") {
    serve(Mlp(784, 128, 10), options, pool, false);
  } else if (options.name == "mlp-loop") {
    serve(Mlp(784, 256, 10), options, pool, false);
  } else if (options.name == "wide-loop") {
    serve(Mlp(1024, 4096, 1000), options, pool, false);
  } else if (options.name == "cnn-loop") {
    serve(Cnn(), options, pool, true);
  } else {
    throw std::runtime_error("no such case: " + options.name);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "strata-peer-libtorch: %s\n", error.what());
  return 1;
}
