// A job with parameter servers that may be killed anywhere: all tasks run this program.
//
//   trainer together|apart FOLDER STEPS [backup]
//
// Workers print "step N" as they go and a SHA-256 of weights and slots at the end. The chief saves
// every fifth step; a job that is started again goes on from there.
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <memory>
#include <string>

#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/parameter_server_strategy.h"
#include "strata/strategies/replicate.h"
#include "strata/tensor/fingerprint.h"

namespace {

using namespace strata;
using namespace std::chrono_literals;

constexpr int64_t kRows = 6;  // of a worker's batch

/// Values that depend on `phase` and their place alone.
at::Tensor waves(at::IntArrayRef shape, double phase) {
  const int64_t count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kDouble) * 1.7 + phase).view(shape);
}

std::shared_ptr<torch::nn::LinearImpl> make_net() {
  auto net = std::make_shared<torch::nn::LinearImpl>(40, 30);
  net->to(at::kDouble);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : net->parameters()) parameter.copy_(waves(parameter.sizes(), 0.3));
  return net;
}

void train(bool together, const std::string& folder, int64_t steps, bool backup) {
  ParameterServerStrategy strategy(
      {.devices = {"cpu:0"},
       .consistency = {.kind = together ? ps::Consistency::kSynchronous
                                        : ps::Consistency::kAsynchronous},
       .backup = backup,
       .server = {.liveness = 2s},
       .replicas = {.threads_per_replica = 1}});
  const auto net = strategy.replicate(make_net);
  optimizers::Adam adam(net.variables(), {.learning_rate = 0.01});
  Checkpoint checkpoint({{"net", net}, {"adam", adam}});
  CheckpointManager manager(checkpoint, folder, {.max_to_keep = 2});
  manager.restore_or_initialize();
  std::printf("starts at step %lld\n", static_cast<long long>(adam.iterations()));
  while (adam.iterations() < steps) {
    const auto phase = static_cast<double>(adam.iterations() * 7 + strategy.worker());
    strategy.run([&] {
      const at::Tensor error = net->forward(waves({kRows, 40}, phase)) - waves({kRows, 30}, -phase);
      adam.minimize(error.square().sum(), {.weight = static_cast<double>(kRows)});
    });
    std::printf("step %lld\n", static_cast<long long>(adam.iterations()));
    std::fflush(stdout);
    if (adam.iterations() % 5 == 0) manager.save();
  }
  std::vector<at::Tensor> state;
  for (const Variable& variable : net.variables()) state.push_back(variable.value());
  for (const auto& [name, slot] : adam.slots()) state.push_back(slot);
  std::printf("sha256 %s\n", tensor::fingerprint(state).c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4 && argc != 5) return 2;
  if (run_parameter_server({.server = {.liveness = 2s}})) return 0;
  train(std::string(argv[1]) == "together", argv[2], std::stoll(argv[3]), argc == 5);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
