// The strata side of suite models: ResNet-50 as a Keras user trains it, behind the line protocol of
// benchmarks/peers/README.md.
#include <cmath>

#include "strata/core/error.h"
#include "strata/keras/applications.h"
#include "strata/keras/losses.h"
#include "strata/optim/optimizers.h"
#include "suites/options.h"
#include "suites/serve.h"
#include "suites/worker.h"

namespace strata::bench {

void serve_plain_fit(const keras::Model& model, const data::Example& rows, int64_t global_batch) {
  const auto data = data::Dataset::from_tensor_slices(rows)
                        .batch(global_batch, {.drop_remainder = true})
                        .cache()
                        .repeat();
  const auto weights = model.get_weights();
  serve(
      [&](long count) {
        return model.fit(data, {.verbose = 0, .steps_per_epoch = count})["loss"].back();
      },
      [&] { model.set_weights(weights); });
}

int run_models_worker(const std::string& path, int replicas, const std::string& device) {
  MirroredStrategy strategy = make_strategy(replicas, device);
  const data::Example pool = read_pool(path, 0);
  const int64_t batch = pool.x().size(1);
  const int64_t side = std::lround(std::sqrt(static_cast<double>(pool.x().size(2)) / 3));
  STRATA_CHECK(pool.x().size(2) == side * side * 3, kDataLoss, "[strata bench] worker: ", path,
               " holds no square images");
  const keras::Model model = strategy.scope([&] {
    keras::Model net =
        applications::ResNet50({.input_shape = {side, side, 3}, .classifier_activation = "linear"});
    net.compile({.optimizer = optimizers::SGD({.learning_rate = 0.01, .momentum = 0.9}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
    return net;
  });
  serve_plain_fit(model, {pool.x().reshape({-1, side, side, 3}), pool.y().flatten()},
                  batch * replicas);
  return 0;
}

}  // namespace strata::bench
