// Training that may be killed at any moment: start the same command again, and it continues from
// its last checkpoint, with the same bits. Ctrl-C, SIGKILL, a power cut; SIGTERM saves first and
// exits with 42.
//
//   build/release/examples/07_resume FOLDER [steps] [replicas]
//
// prints, killed before and started a second time:
//   resumes at step 60 of run/ckpt-1
//   step 200: loss 0.6368
//   weights 7554eac6c92c3cc1504516dded349aab53d0f6d3d4b2711b75964441f8d25431
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>

#include "strata/strata.h"
#include "support/number.h"

using strata::data::Example;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("hidden", hidden);
    register_module("dropout", dropout);
    register_module("logits", logits);
  }
  at::Tensor forward(const at::Tensor& images) {
    return logits(dropout(at::relu(hidden(images.flatten(1)))));
  }
  torch::nn::Linear hidden{784, 128}, logits{128, 10};
  torch::nn::Dropout dropout{0.2};
};
TORCH_MODULE(Net);

void train(const std::string& folder, int64_t steps, int replicas) {
  constexpr int64_t kBatch = 128;
  strata::set_logical_devices("cpu", replicas);
  strata::MirroredStrategy strategy({.seed = 1});
  torch::manual_seed(1);
  const auto batches = strategy.distribute(
      strata::data::load_mnist().train_dataset().shuffle(60000).batch(kBatch).prefetch());
  const auto net = strategy.replicate([] { return Net(); });
  strata::optimizers::Adam adam(net.variables());
  strata::metrics::Mean loss = strategy.scope([] { return strata::metrics::Mean("loss"); });
  auto iterator = batches.iterator(0);
  int64_t step = 0;
  int64_t epoch = 0;

  strata::Checkpoint checkpoint({{"model", net},
                                 {"optimizer", adam},
                                 {"loss", loss},
                                 {"input", iterator},
                                 {"step", step},
                                 {"epoch", epoch}},
                                {.asynchronous = true});
  strata::CheckpointManager manager(checkpoint, folder, {.max_to_keep = 2});
  if (const auto path = manager.restore_or_initialize()) {
    manager.status().assert_consumed();
    std::printf("resumes at step %lld of %s\n", static_cast<long long>(step), path->c_str());
  }
  strata::PreemptionCheckpointHandler preemption(manager);

  while (step < steps) {
    const auto batch = iterator.next();
    if (!batch) {
      iterator = batches.iterator(++epoch);
      continue;
    }
    strategy.run(
        [&](const Example& part) {
          const at::Tensor losses = strata::losses::sparse_categorical_crossentropy(
              part.y(), net->forward(part.x()), {.from_logits = true});
          // The sum over my rows: the optimizer divides by the rows of all replicas.
          adam.minimize(losses.sum(), {.weight = static_cast<double>(losses.numel())});
          loss.update(losses);
        },
        *batch);
    preemption.check(++step);
    if (step % 60 == 0) (void)manager.save();
  }
  checkpoint.wait();
  std::printf("step %lld: loss %.4f\n", static_cast<long long>(step), loss.result());
  std::vector<at::Tensor> weights;
  for (const auto& variable : net.parameters()) weights.push_back(variable.value().detach());
  std::printf("weights %s\n", strata::tensor::fingerprint(weights).c_str());
}

int main(int argc, char** argv) {
  if (argc > 4 || (argc > 1 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: 07_resume [FOLDER [STEPS [REPLICAS]]]\n");
    return 2;
  }
  return strata::run_main([&] {
    train(argc > 1 ? argv[1] : "run", argc > 2 ? examples::number(argv[2], "the steps") : 200,
          argc > 3 ? static_cast<int>(examples::number(argv[3], "the replicas")) : 2);
  });
}
