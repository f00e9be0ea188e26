// predict over several processes: every one has all rows, in their order, with one process's bits.
// Here the processes are threads on a network in memory.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <vector>

#include "multi_worker/spread.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers.h"
#include "strata/keras/sequential.h"

namespace strata {
namespace {

using data::Dataset;
using test::run_well;
using test::Spread;

constexpr int64_t kPredictedRows = 27;  // the last batch has 3, fewer than there are replicas

Dataset input() {
  const at::Tensor x =
      (at::arange(kPredictedRows * 4, at::kFloat) * 0.37).sin().reshape({kPredictedRows, 4});
  return Dataset::from_tensor_slices(data::Example{x}).batch(8);
}

/// Of two outputs, as each worker has them.
std::vector<keras::Tensors> predictions(const Spread& spread) {
  std::vector<keras::Tensors> all(spread.size());
  run_well(spread, [&](Strategy& strategy, int worker) {
    const keras::Model model = strategy.scope([] {
      const auto x = keras::Input({4});
      const auto h = layers::Dense(5, {.activation = "tanh",
                                       .kernel_initializer = initializers::HeNormal({.seed = 3}),
                                       .name = "hidden"})(x);
      // Workers that are threads share the counters of default names.
      return keras::Model(std::vector{x}, {h, layers::BatchNormalization({.name = "norm"})(h)});
    });
    all[static_cast<size_t>(worker)] = model.predict_all(input(), {.verbose = 0});
  });
  return all;
}

TEST(PredictTest, EveryWorkerHasAllRowsInTheirOrder) {
  const keras::Tensors one = predictions({5})[0];
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[0].sizes(), (at::IntArrayRef{kPredictedRows, 5}));
  const at::Tensor alone = predictions({1})[0][0];
  EXPECT_TRUE(one[0].allclose(alone, 1e-6, 1e-7));
  for (const Spread& spread : {Spread{2, 3}, Spread{1, 1, 3}}) {
    for (const keras::Tensors& local : predictions(spread)) {
      ASSERT_EQ(local.size(), 2u);
      for (size_t i = 0; i < local.size(); ++i) EXPECT_TRUE(local[i].equal(one[i])) << i;
    }
  }
}

}  // namespace
}  // namespace strata
