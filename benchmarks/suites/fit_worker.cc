// The strata side of the cases mlp-fit and cnn-fit: the program that a Keras user writes, behind
// the line protocol of benchmarks/peers/README.md. A metric, a progress bar (of a terminal, into
// /dev/null) and a callback are part of it.
#include <cstdio>
#include <memory>

#include "strata/keras/callbacks.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "suites/serve.h"
#include "suites/worker.h"

namespace strata::bench {
namespace {

keras::Model make_mlp() {
  return keras::Sequential(keras::Input({784}), {layers::Dense(256, "relu"),
                                                 layers::Dense(256, "relu"), layers::Dense(10)});
}

keras::Model make_cnn() {
  return keras::Sequential(
      keras::Input({28, 28, 1}),
      {layers::Conv2D(32, 3, {.activation = "relu"}), layers::Conv2D(64, 3, {.activation = "relu"}),
       layers::MaxPooling2D(2), layers::Flatten(), layers::Dense(128, "relu"), layers::Dense(10)});
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

void serve_fit(Strategy& strategy, const data::Example& rows, int64_t global_batch, bool images) {
  const keras::Model model = strategy.scope([&] {
    keras::Model net = images ? make_cnn() : make_mlp();
    optimizers::AnyOptimizer optimizer =
        images ? optimizers::AnyOptimizer(optimizers::SGD({.learning_rate = 0.01, .momentum = 0.9}))
               : optimizers::AnyOptimizer(optimizers::Adam({.learning_rate = 1e-3}));
    net.compile({.optimizer = optimizer,
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {metrics::SparseCategoricalAccuracy()}});
    return net;
  });
  const auto data = data::Dataset::from_tensor_slices(rows)
                        .batch(global_batch, {.drop_remainder = true})
                        .cache()
                        .repeat();
  const std::unique_ptr<std::FILE, Close> nowhere(std::fopen("/dev/null", "w"));
  const auto weights = model.get_weights();
  const auto steps = [&](long count) {
    const keras::History history =
        model.fit(data, {.callbacks = {callbacks::ProgressBar({.file = nowhere.get()}),
                                       callbacks::TerminateOnNaN()},
                         .verbose = 1,
                         .steps_per_epoch = count});
    return history["loss"].back();
  };
  serve(steps, [&] { model.set_weights(weights); });
}

}  // namespace strata::bench
