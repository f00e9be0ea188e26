// A model on top of a large table that is not trained: with one copy of it for all replicas, and
// with a copy for each.
//
//   build/release/examples/14_central_storage [--replicas 4] [--rows 1000000] [--steps 200]
//
// prints, within a few MB:
//   CentralStorageStrategy: 4 replicas hold a table of 256 MB in 261 MB; loss 0.1167
//   MirroredStrategy: 4 replicas hold a table of 256 MB in 1032 MB; loss 0.1167
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <fstream>
#include <string_view>

#include "strata/strata.h"
#include "support/number.h"

namespace {

constexpr int64_t kWidth = 64;
constexpr int64_t kBatch = 256;

struct Arguments {
  int replicas = 4;
  int64_t rows = 1'000'000;
  int steps = 200;
};

/// Megabytes of this process that are in memory, free blocks kept for reuse left out.
double resident() {
  strata::tensor::trim_cpu_allocator();
  long pages = 0, in_memory = 0;
  std::ifstream("/proc/self/statm") >> pages >> in_memory;
  return static_cast<double>(in_memory) * 4096 / 1e6;
}

void train(strata::Strategy& strategy, std::string_view name, const Arguments& arguments) {
  torch::manual_seed(1);
  const double before = resident();
  const auto table = strategy.scope([&] {
    return strata::Variable(torch::randn({arguments.rows, kWidth}), {.trainable = false});
  });
  const double size = static_cast<double>(table.numel()) * 4 / 1e6;
  const double grown = resident() - before;

  const auto head = strategy.replicate([] { return torch::nn::Linear(kWidth, 1); });
  strata::optimizers::Adam adam(head.variables(), {.learning_rate = 0.01});
  const auto step = [&](const at::Tensor& ids) {
    const at::Tensor rows = at::embedding(table, ids);
    const at::Tensor wanted = (rows.sum(1, true) > 0).to(at::kFloat);
    const at::Tensor loss =
        strata::compute_average_loss(at::binary_cross_entropy_with_logits(
                                         head->forward(rows), wanted, {}, {}, at::Reduction::None)
                                         .flatten(),
                                     kBatch);
    adam.minimize(loss);
    return loss.detach();
  };
  const auto ids = strata::data::Dataset::from_tensor_slices(
                       {torch::randint(arguments.rows, {kBatch * arguments.steps})})
                       .batch(kBatch);
  double loss = 0;
  for (const auto& batch : strategy.distribute(ids)) {
    const auto losses =
        strategy.run([&](const strata::data::Example& part) { return step(part.x()); }, batch);
    loss = strategy.reduce(strata::ReduceOp::kSum, losses).item<double>();
  }
  std::printf("%s: %d replicas hold a table of %.0f MB in %.0f MB; loss %.4f\n", name.data(),
              arguments.replicas, size, grown, loss);
}

}  // namespace

int main(int argc, char** argv) {
  const auto is_known = [](std::string_view option) {
    return option == "--replicas" || option == "--rows" || option == "--steps";
  };
  for (int i = 1; i < argc; i += 2) {
    if (is_known(argv[i]) && i + 1 < argc) continue;
    std::fprintf(stderr, "usage: 14_central_storage [--replicas N] [--rows N] [--steps N]\n");
    return 2;
  }
  return strata::run_main([&] {
    Arguments arguments;
    for (int i = 1; i < argc; i += 2) {
      const std::string_view option = argv[i];
      const int64_t value = examples::number(argv[i + 1], option);
      if (option == "--replicas") arguments.replicas = static_cast<int>(value);
      if (option == "--rows") arguments.rows = value;
      if (option == "--steps") arguments.steps = static_cast<int>(value);
    }
    strata::set_logical_devices("cpu", arguments.replicas);
    {
      strata::CentralStorageStrategy strategy({.seed = 1});
      train(strategy, "CentralStorageStrategy", arguments);
    }
    strata::MirroredStrategy strategy({.seed = 1});
    train(strategy, "MirroredStrategy", arguments);
  });
}
