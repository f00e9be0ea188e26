// Every wait between streams is needed: without it, the emulated GPUs see an access that nothing
// orders.

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "gpu/emulated/order.h"
#include "parity/models.h"
#include "strata/graph/function.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/strategies/mirrored_strategy.h"
#include "tensor/stream_event.h"

namespace strata::parity {
namespace {

using tensor::StreamWait;

void train(const std::function<void(const keras::Model&)>& compile,
           const MirroredOptions& options = {}) {
  try {
    MirroredStrategy strategy(options);
    const keras::Model model = strategy.scope([&] {
      keras::Sequential net(keras::Input({6}),
                            {layers::Dense(9, "relu"),
                             layers::BatchNormalization({.synchronized = true}), layers::Dense(4)});
      compile(net);
      return net;
    });
    model.fit(as_dataset(make_batches(Kind::kMlp, at::kFloat, 8, {16})), {.verbose = 0});
  } catch (const std::exception&) {  // what was wrong is kept, in any case
  }
}

/// Its last run is on a stream that waits for nothing but the argument.
void call_a_function_on_two_streams() {
  const c10::Device gpu(c10::kCUDA, 0);
  try {
    const at::Tensor x = at::ones({8, 8}, gpu);
    const auto step = function([](const at::Tensor& a) { return (a.mm(a) * 2).sum(); });
    step(x);
    c10::Event made(c10::kCUDA);
    made.record(tensor::current_stream(gpu));
    for (int i = 0; i < 3; ++i) step(x);
    const c10::StreamGuard other(c10::impl::VirtualGuardImpl(c10::kCUDA).getNewStream(gpu));
    made.block(tensor::current_stream(gpu));
    step(x);
  } catch (const std::exception&) {
  }
}

/// What the emulated GPUs see of short trainings on all of them.
std::vector<std::string> errors_of_training() {
  test::emulated_gpu::forget_order_errors();
  const losses::SparseCategoricalCrossentropy loss({.from_logits = true});
  train([&](const keras::Model& model) {
    model.compile({.optimizer = optimizers::Adam(), .loss = loss});
  });
  train([&](const keras::Model& model) {
    model.compile({.optimizer = optimizers::LossScaleOptimizer(optimizers::Adam()), .loss = loss});
  });
  train(
      [&](const keras::Model& model) {
        model.compile({.optimizer = optimizers::Adam(), .loss = loss});
      },
      {.shard_optimizer_state = true});
  call_a_function_on_two_streams();
  return test::emulated_gpu::order_errors();
}

class StreamWaitsTest : public testing::TestWithParam<int> {
 protected:
  void TearDown() override {
    tensor::leave_out(std::nullopt);
    test::emulated_gpu::forget_order_errors();
  }
};

TEST_P(StreamWaitsTest, IsMissedWhereItIsLeftOut) {
  EXPECT_TRUE(errors_of_training().empty());
  const auto wait = static_cast<StreamWait>(GetParam());
  tensor::leave_out(wait);
  const std::vector<std::string> errors = errors_of_training();
  EXPECT_FALSE(errors.empty()) << tensor::name_of(wait);
}

INSTANTIATE_TEST_SUITE_P(, StreamWaitsTest, testing::Range(0, tensor::kNumStreamWaits),
                         [](const auto& info) {
                           return std::string(tensor::name_of(static_cast<StreamWait>(info.param)));
                         });

}  // namespace
}  // namespace strata::parity
