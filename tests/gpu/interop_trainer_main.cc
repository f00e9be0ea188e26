// A program that trains a torch::nn module on MNIST with 4 replicas that have a GPU each, for workers_test:
//
//   strata_gpu_interop_trainer torch|torch_step REPLICAS    torch::optim's optimizers under a strategy
//   strata_gpu_interop_trainer accumulate REPLICAS          strata's SGD, gradients of 4 batches added up
//   strata_gpu_interop_trainer ddp|quiet                    DistributedDataParallel: a process a replica
//
// REPLICAS: of this process; the cluster is TF_CONFIG's. `torch` has Adam and minimize(); `torch_step` and
// `ddp` are the same training with SGD, whose losses are means; `quiet` adds the gradients of 4 batches up,
// too. Where they are added up it prints "quiet N", how often NCCL has sent before the last of them, and
// "sent some", if it has in all. All print "step N" and "sha256 <digest>" of the weights; those with
// DistributedDataParallel also "buffers <digest>". STRATA_TEST_STEPS: how many (20).
// STRATA_TEST_IMPLEMENTATION, STRATA_TEST_ANY_ORDER and STRATA_TEST_WEIGHTS as for strata_gpu_trainer.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sin.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gpu/fake_nccl/fake_nccl.h"
#include "strata/data/mnist.h"
#include "strata/interop/distributed_data_parallel.h"
#include "strata/interop/torch_optimizer.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/replica_context.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "strata/tensor/fingerprint.h"

namespace {

using namespace strata;  // NOLINT

constexpr int64_t kReplicas = 4;
constexpr int64_t kRows = 15;  // of a replica in a step

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

int num_steps() {
  const char* steps = std::getenv("STRATA_TEST_STEPS");
  return steps != nullptr ? std::atoi(steps) : 20;
}

/// Its layers are made in another order than they are used.
class Net : public torch::nn::Module {
 public:
  Net() {
    const at::NoGradGuard no_grad;
    double phase = 0;
    for (at::Tensor& parameter : parameters()) {
      const at::Tensor angles = at::arange(parameter.numel()) * 1.7 + (phase += 0.9);
      parameter.copy_((at::sin(angles) * 0.1).reshape(parameter.sizes()));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    return out_(at::relu(hidden_(at::relu(norm_(conv_(x))).flatten(1))));
  }

 private:
  torch::nn::Linear out_ = register_module("out", torch::nn::Linear(24, 10));
  torch::nn::Conv2d conv_ =
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 5).stride(3)));
  torch::nn::BatchNorm2d norm_ = register_module("norm", torch::nn::BatchNorm2d(6));
  torch::nn::Linear hidden_ = register_module("hidden", torch::nn::Linear(6 * 64, 24));
};

struct Input {
  const data::Example train = data::load_mnist().train;
  const at::Tensor images =
      (train.x().narrow(0, 0, 1200).to(at::kFloat) / 255).reshape({1200, 1, 28, 28});
  const at::Tensor labels = train.y().narrow(0, 0, 1200);

  /// Of a replica's `part`-th batch.
  at::Tensor loss(Net& net, int64_t part, int64_t replica, c10::Device device) const {
    const int64_t first = (part * kReplicas + replica) * kRows % (1200 - kRows);
    const auto rows = [&](const at::Tensor& all) { return all.narrow(0, first, kRows).to(device); };
    return torch::nn::functional::cross_entropy(net.forward(rows(images)), rows(labels));
  }
};

void report(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> state;
  std::string bytes;
  for (const at::Tensor& each : parameters) {
    state.push_back(each.detach().cpu().contiguous());
    const at::Tensor values = state.back().to(at::kDouble);
    bytes.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
  }
  if (const char* path = std::getenv("STRATA_TEST_WEIGHTS")) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  say(str_cat("sha256 ", tensor::fingerprint(state)));
}

void report(const std::vector<Variable>& variables) {
  std::vector<at::Tensor> weights;
  for (const Variable& variable : variables) weights.push_back(variable.value());
  report(weights);
}

MultiWorkerMirroredOptions job_of(int replicas) {
  MultiWorkerMirroredOptions job{.seed = 3};
  for (int i = 0; i < replicas; ++i) job.devices.push_back(str_cat("gpu:", i));
  return job;
}

template <typename Options>
Options with_environment(Options options) {
  if (const char* implementation = std::getenv("STRATA_TEST_IMPLEMENTATION")) {
    options.communication_options.implementation = implementation;
  }
  if (std::getenv("STRATA_TEST_ANY_ORDER") != nullptr) {
    options.communication_options.order = collective::Order::kAny;
  }
  options.communication_options.bytes_per_pack = 4096;  // several buckets
  options.server.liveness = std::chrono::seconds(2);
  options.server.start_timeout = std::chrono::seconds(60);
  return options;
}

template <typename Optimizer, typename Step>
void train_under_strategy(int replicas, const Optimizer& options, const Step& step) {
  MultiWorkerMirroredStrategy strategy(with_environment(job_of(replicas)));
  const auto net = strategy.replicate([] { return std::make_shared<Net>(); });
  auto optimizer = options(net.variables());
  const Input input;
  for (int i = 0; i < num_steps(); ++i) {
    strategy.run([&] {
      const ReplicaContext& replica = *get_replica_context();
      const c10::Device device = net->parameters()[0].device();
      step(optimizer,
           [&] { return input.loss(*net, i, replica.replica_id_in_sync_group(), device); });
    });
    say(str_cat("step ", i + 1));
  }
  report(net.variables());
}

unsigned long long num_sends() { return fake_nccl_operations("Send"); }

void say_what_was_sent() { say(str_cat("sent ", num_sends() > 0 ? "some" : "none")); }

void accumulate_under_strategy(int replicas) {
  MultiWorkerMirroredStrategy strategy(with_environment(job_of(replicas)));
  const auto net = strategy.replicate([] { return std::make_shared<Net>(); });
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
  const Input input;
  constexpr int kBatches = 4;
  const auto loss_of = [&](int batch) {
    const int replica = get_replica_context()->replica_id_in_sync_group();
    return input.loss(*net, batch, replica, net->parameters()[0].device()) / (kReplicas * kBatches);
  };
  for (int i = 0; i < num_steps(); ++i) {
    const auto before = num_sends();
    strategy.run([&] {
      for (int batch = 0; batch + 1 < kBatches; ++batch) loss_of(i * kBatches + batch).backward();
      net->parameters()[0].grad().sum().item<float>();  // what there is to do has been done
    });
    say(str_cat("quiet ", num_sends() - before));
    strategy.run([&] {
      sgd.minimize(loss_of(i * kBatches + kBatches - 1));
      net->parameters()[0].sum().item<float>();
    });
    say(str_cat("step ", i + 1));
  }
  say_what_was_sent();
  report(net.variables());
}

void train_data_parallel(bool quiet) {
  const c10::Device gpu(c10::kCUDA, 0);
  auto module = std::make_shared<Net>();
  module->to(gpu);
  DistributedDataParallel<std::shared_ptr<Net>> net(
      module, with_environment(DistributedDataParallelOptions()));
  torch::optim::SGD sgd(module->parameters(), 0.1);
  const Input input;
  const int batches = quiet ? 4 : 1;
  for (int i = 0; i < num_steps(); ++i) {
    sgd.zero_grad();
    const auto backward = [&](int batch) {
      (input.loss(*module, i * batches + batch, net.rank(), gpu) / static_cast<double>(batches))
          .backward();
    };
    const auto before = num_sends();
    {
      const auto no_sync = net.no_sync();
      for (int batch = 0; batch + 1 < batches; ++batch) backward(batch);
    }
    if (quiet) {
      module->parameters()[0].grad().sum().item<float>();  // what there is to do has been done
      say(str_cat("quiet ", num_sends() - before));
    }
    backward(batches - 1);
    sgd.step();
    // So that all that this step has sent is counted before the next one.
    module->parameters()[0].sum().item<float>();
    say(str_cat("step ", i + 1));
  }
  say_what_was_sent();
  std::vector<at::Tensor> buffers;
  for (const at::Tensor& each : module->buffers()) buffers.push_back(each.cpu());
  say(str_cat("buffers ", tensor::fingerprint(buffers)));
  report(module->parameters());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const int replicas = argc > 2 ? std::atoi(argv[2]) : 1;
  using interop::TorchOptimizer;
  try {
    if (mode == "torch") {
      train_under_strategy(
          replicas,
          [](const auto& variables) {
            return TorchOptimizer<torch::optim::Adam>(variables, torch::optim::AdamOptions(0.01));
          },
          [](auto& adam, const auto& loss) { adam.minimize(loss(), {.weight = kRows}); });
    } else if (mode == "torch_step") {
      train_under_strategy(
          replicas,
          [](const auto& variables) {
            return TorchOptimizer<torch::optim::SGD>(variables, torch::optim::SGDOptions(0.1));
          },
          [](auto& sgd, const auto& loss) {
            sgd.zero_grad();
            loss().backward();
            sgd.step();
          });
    } else if (mode == "accumulate") {
      accumulate_under_strategy(replicas);
    } else if (mode == "ddp" || mode == "quiet") {
      train_data_parallel(mode == "quiet");
    } else {
      std::fprintf(stderr,
                   "usage: strata_gpu_interop_trainer torch|torch_step|accumulate REPLICAS\n"
                   "       strata_gpu_interop_trainer ddp|quiet\n");
      return 2;
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
