// Who clicks on what: a table of 10 million rows, which no worker has whole, is trained on clicks
// of which a few users and items have most. The clicks are made here, so the best possible result
// is known.
//
//   build/release/strata launch -n 2 --ps 2 build/release/examples/12_recommender
//       [--epochs 3] [--batch 512]
//
// prints, among other lines,
//
//   worker:0 | 10000000 rows of 16 on 2 parameter servers
//   worker:0 | epoch 3: AUC 0.7339; the clicks' own law has 0.8005
#include <torch/nn/modules/linear.h>

#include <cstdio>

#include "clicks.h"
#include "strata/strata.h"
#include "support/arguments.h"

constexpr int64_t kWidth = 16;
constexpr int kBatches = 1500;  // an epoch, of all workers together

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("hidden", hidden);
    register_module("out", out);
  }
  at::Tensor forward(const at::Tensor& rows) {  // [n, 2, width]
    return out(at::relu(hidden(rows.flatten(1)))).squeeze(1);
  }
  torch::nn::Linear hidden{2 * kWidth, 32};
  torch::nn::Linear out{32, 1};
};
TORCH_MODULE(Net);

void train(const examples::Arguments& arguments) {
  strata::ParameterServerStrategy strategy({.devices = arguments.devices, .seed = 1});
  const strata::ServerEmbedding table(
      strategy, {.name = "rows",
                 .rows = kUsers + kItems,
                 .width = kWidth,
                 .optimizer = strata::optimizers::Adam({.learning_rate = 0.02})});
  if (strategy.is_chief()) {
    std::printf("%lld rows of %lld on %d parameter servers\n",
                static_cast<long long>(kUsers + kItems), static_cast<long long>(kWidth),
                strategy.num_servers());
  }
  const auto net = strategy.replicate([] { return Net(); });
  strata::optimizers::Adam adam(net.variables(), {.learning_rate = 1e-3});

  const Clicks test = make_clicks(20'000, 1);
  for (int epoch = 1; epoch <= arguments.epochs; ++epoch) {
    for (int step = strategy.worker(); step < kBatches; step += strategy.num_workers()) {
      const Clicks batch =
          make_clicks(arguments.batch, static_cast<uint64_t>(epoch) * kBatches + step + 2);
      strategy.run([&] {
        const at::Tensor odds = net->forward(table.lookup(batch.ids));
        adam.minimize(at::binary_cross_entropy_with_logits(odds, batch.clicked));
      });
    }
    if (!strategy.is_chief()) continue;
    const at::NoGradGuard no_grad;
    const at::Tensor odds = net->forward(table.lookup(test.ids));
    std::printf("epoch %d: AUC %.4f; the clicks' own law has %.4f\n", epoch,
                auc(odds, test.clicked), auc(test.odds, test.clicked));
  }
}

int main(int argc, char** argv) {
  return strata::run_main(
      [&] { train(examples::parse(argc, argv, {.epochs = 3, .batch = 512, .devices = {}})); });
}
