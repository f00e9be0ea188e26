// What cannot be compiled is named with the line of the program, which is compiled with -g1 here, and with Keras's layer.
#include <torch/torch.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/str_cat.h"
#include "strata/data/dataset.h"
#include "strata/graph/function.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/keras/training.h"
#include "strata/optim/optimizers.h"
#include "support/expect_error.h"
#include "tpu/cores.h"

// Not strata's namespace: what is in that is strata's own.
namespace program {
namespace {

using at::Tensor;
using strata::ErrorCode;
using strata::expect_error_containing;
using strata::PerReplica;
using strata::str_cat;

constexpr int kReplicas = 2;

std::unique_ptr<strata::TPUStrategy> on_cores() {
  return std::make_unique<strata::TPUStrategy>(
      strata::test::cores(), strata::TPUOptions{.num_replicas = kReplicas, .seed = 1});
}

struct RoundedGradient : torch::autograd::Function<RoundedGradient> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) {
    line = __LINE__ + 1;
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0].round(2)};
  }
  static inline std::atomic<int> line = 0;
};

TEST(TpuPlacesTest, ErrorsNameTheLineForwardAndBackward) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto strategy = on_cores();
  const strata::Variable weight = strategy->scope([] {
    return strata::Variable(at::ones({3, 2}));
  });
  strata::optimizers::SGD sgd({weight}, {.learning_rate = 0.1});
  const PerReplica<Tensor> x(std::vector<Tensor>(kReplicas, at::ones({4, 3})));
  const int line = __LINE__ + 2;
  const auto forward = strata::function(
      [&](const Tensor& each) { sgd.minimize(at::matmul(each, weight.value()).round(2).sum()); });
  expect_error_containing([&] { strategy->run(forward, x); }, ErrorCode::kUnimplemented,
                          "(aten::round.decimals, Float [4, 2]; called at ");
  expect_error_containing([&] { strategy->run(forward, x); }, ErrorCode::kUnimplemented,
                          str_cat("places_test.cc:", line, " ("));
  const auto backward = strata::function([&](const Tensor& each) {
    sgd.minimize(RoundedGradient::apply(at::matmul(each, weight.value())).sum());
  });
  expect_error_containing([&] { strategy->run(backward, x); }, ErrorCode::kUnimplemented,
                          "(aten::round.decimals, Float [4, 2]; in the backward pass of ");
  expect_error_containing([&] { strategy->run(backward, x); }, ErrorCode::kUnimplemented,
                          str_cat("places_test.cc:", RoundedGradient::line.load(), " ("));
}

/// Without a rule.
class RoundingImpl final : public strata::keras::UnaryLayerImpl {
 public:
  std::string_view class_name() const override { return "Rounding"; }
  static inline std::atomic<int> line = 0;

 private:
  void describe(strata::keras::ConfigWriter&) const override {}
  strata::keras::Shape compute_output_shape(const strata::keras::Shape& input) const override {
    return input;
  }
  Tensor call(const Tensor& x, const strata::keras::Call&) override {
    line = __LINE__ + 1;
    const Tensor rounded = x.round(2);
    return rounded * 2;  // a call in the end would leave no frame of this function
  }
};

TEST(TpuPlacesTest, AnErrorOfFitNamesTheLayer) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto strategy = on_cores();
  strata::keras::Model model = strategy->scope([] {
    strata::keras::Sequential made({strata::layers::Dense(4),
                                    strata::keras::make_layer<RoundingImpl>(),
                                    strata::layers::Dense(3)});
    made.compile({.optimizer = strata::optimizers::SGD({.learning_rate = 0.1}),
                  .loss = strata::losses::SparseCategoricalCrossentropy({.from_logits = true})});
    return strata::keras::Model(made);
  });
  const auto rows = strata::data::Dataset::from_tensor_slices(
                        strata::data::Example{at::ones({8, 5}), at::zeros({8}, at::kLong)})
                        .batch(8);
  const auto fit = [&] { model.fit(rows, {.verbose = 0}); };
  expect_error_containing(fit, ErrorCode::kUnimplemented,
                          "(aten::round.decimals, Float [4, 4]; called at ");
  expect_error_containing(
      fit, ErrorCode::kUnimplemented,
      str_cat(
          "places_test.cc:", RoundingImpl::line.load(),
          " (program::(anonymous namespace)::RoundingImpl::call); layer rounding) has decimals"));
}

}  // namespace
}  // namespace program
