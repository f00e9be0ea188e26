// A program that sets nothing but the seed, as a first user's does, for the test beside it:
//
//   strata_defaults_trainer mlp|cnn|lstm|transformer [REPLICAS [THREADS]]
//
// REPLICAS: of this process; 0 or none: what the strategy finds. THREADS: threads_per_replica. It
// prints "replicas <of all processes>", "seconds <of fit>" and "sha256 <digest>" of the weights and
// the history.
#include <ATen/ops/tensor.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "strata/data/mnist.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/tensor/fingerprint.h"

namespace {

using namespace strata;  // NOLINT
using data::Example;

constexpr int64_t kRows = 1536;
constexpr int64_t kBatch = 96;

keras::Model mlp() {
  return keras::Sequential(keras::Input({28, 28}),
                           {layers::Flatten(), layers::Dense(512, {.activation = "relu"}),
                            layers::Dense(256, {.activation = "gelu"}), layers::Dense(10)});
}

keras::Model cnn() {
  return keras::Sequential(
      keras::Input({28, 28}),
      {layers::Reshape({28, 28, 1}), layers::Conv2D(16, 3, {.activation = "relu"}),
       layers::BatchNormalization(), layers::MaxPooling2D(2),
       layers::Conv2D(32, 3, {.strides = {2}, .activation = "relu"}), layers::Flatten(),
       layers::Dropout(0.3), layers::Dense(10)});
}

keras::Model lstm() {
  return keras::Sequential(keras::Input({28, 28}), {layers::LSTM(64), layers::Dense(10)});
}

keras::Model transformer() {
  const keras::SymbolicTensor rows = keras::Input({28, 28});
  const keras::SymbolicTensor x = layers::Dense(64)(rows);
  const keras::SymbolicTensor attended = layers::MultiHeadAttention(4, 16, {.dropout = 0.1})(x, x);
  const keras::SymbolicTensor h = layers::LayerNormalization()(layers::Add()({x, attended}));
  const keras::SymbolicTensor wide = layers::Dense(128, {.activation = "gelu"})(h);
  const keras::SymbolicTensor y =
      layers::LayerNormalization()(layers::Add()({h, layers::Dense(64)(wide)}));
  return keras::Model(rows, layers::Dense(10)(layers::GlobalAveragePooling1D()(y)));
}

keras::Model model_of(const std::string& name) {
  if (name == "mlp") return mlp();
  if (name == "cnn") return cnn();
  if (name == "lstm") return lstm();
  return transformer();
}

void train(const std::string& name, const MultiWorkerMirroredOptions& options) {
  keras::set_random_seed(1);
  MultiWorkerMirroredStrategy strategy(options);
  std::printf("replicas %d\n", strategy.num_replicas_in_sync());
  const data::Mnist mnist = data::load_mnist();
  const keras::Model model = strategy.scope([&] { return model_of(name); });
  model.compile({.optimizer = "adam",
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  const auto batches = mnist.train_dataset().take(kRows).batch(kBatch);
  const auto start = std::chrono::steady_clock::now();
  const keras::History history = model.fit(batches, {.epochs = 2, .verbose = 0});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::vector<at::Tensor> state;
  for (const keras::Weight& weight : model->weights()) {
    state.push_back(weight.variable.value().detach());
  }
  for (const auto& [metric, values] : history.history) {
    state.push_back(at::tensor(values, at::kDouble));
  }
  std::printf("seconds %.3f\nsha256 %s\n", seconds.count(), tensor::fingerprint(state).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: strata_defaults_trainer mlp|cnn|lstm|transformer [REPLICAS [THREADS]]\n");
    return 2;
  }
  try {
    MultiWorkerMirroredOptions options{.seed = 3};
    const int replicas = argc > 2 ? std::atoi(argv[2]) : 0;
    if (replicas > 0) set_logical_devices("cpu", replicas);
    for (int i = 0; i < replicas; ++i) options.devices.push_back(str_cat("cpu:", i));
    if (argc > 3) options.replicas.threads_per_replica = std::atoi(argv[3]);
    train(argv[1], options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
