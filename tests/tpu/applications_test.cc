// Large networks under TPUStrategy: beside MirroredStrategy on virtual devices of XLA's compiler for CPUs, and
// given to the compiler for TPUs, which needs no TPU.
#include <torch/torch.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "graph/stablehlo/lower.h"
#include "graph/stablehlo/trace_to_compile.h"
#include "pjrt/topology.h"
#include "strata/graph/function.h"
#include "strata/keras/applications.h"
#include "strata/keras/dtype_policy.h"
#include "strata/optim/losses.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strategies/tpu/update_nodes.h"
#include "support/test_devices.h"
#include "tpu/cores.h"

namespace strata {
namespace {

using at::Tensor;

constexpr int kTwoReplicas = 2;
constexpr int64_t kClasses = 10;

struct Application {
  std::string name;
  int64_t side;  ///< Of its images: batch normalization has more than a few numbers for each mean.
  std::function<keras::Model(const applications::Options&)> make;
};

std::ostream& operator<<(std::ostream& out, const Application& application) {
  return out << application.name;
}

class TpuApplicationsTest : public testing::TestWithParam<Application> {
 protected:
  ~TpuApplicationsTest() override { keras::set_dtype_policy("float32"); }

  static keras::Model made(const char* dtype) {
    keras::set_dtype_policy(dtype);
    torch::manual_seed(1);
    const int64_t side = GetParam().side;
    return GetParam().make(
        {.input_shape = {side, side, 3}, .classes = kClasses, .classifier_activation = "linear"});
  }
};

Tensor images(int64_t rows, int64_t side) {
  return (torch::arange(rows * side * side * 3, torch::kDouble) * 0.37)
      .sin()
      .reshape({rows, side, side, 3});
}

Tensor loss_of(const keras::Model& net, const Tensor& x, const Tensor& y, int64_t rows) {
  const Tensor logits = net.call({x}, {.training = true})[0];
  return compute_average_loss(
      losses::sparse_categorical_crossentropy(y, logits, {.from_logits = true}), rows);
}

/// A step. @return the weights, moving statistics among them.
std::vector<Tensor> trained_weights(Strategy& strategy, const std::function<keras::Model()>& make,
                                    int64_t side) {
  const keras::Model net = strategy.scope(make);
  optimizers::SGD sgd(net->trainable_variables(), {.learning_rate = 0.01, .momentum = 0.9});
  constexpr int64_t kRowsOfReplica = 2;
  const auto step = strata::function([&](const Tensor& x, const Tensor& y) {
    sgd.minimize(loss_of(net, x, y, kTwoReplicas * kRowsOfReplica));
  });
  const Tensor x = images(kTwoReplicas * kRowsOfReplica, side);
  const PerReplica<Tensor> parts({x.narrow(0, 0, 2), x.narrow(0, 2, 2)});
  const PerReplica<Tensor> labels({torch::tensor({1, 7}), torch::tensor({3, 0})});
  strategy.run(step, parts, labels);
  return net->get_weights();
}

TEST_P(TpuApplicationsTest, HaveTheWeightsOfMirroredStrategy) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto make = [] { return made("float64"); };
  MirroredStrategy here({.devices = test::test_devices(kTwoReplicas), .seed = 1});
  const std::vector<Tensor> expected = trained_weights(here, make, GetParam().side);
  TPUStrategy there(test::cores(), {.num_replicas = kTwoReplicas, .seed = 1});
  const std::vector<Tensor> weights = trained_weights(there, make, GetParam().side);
  ASSERT_EQ(weights.size(), expected.size());
  double most = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Tensor difference = (weights[i] - expected[i]).abs() / (1 + expected[i].abs());
    most = std::max(most, difference.max().item<double>());
  }
  // Rounding grows on the way back: it is 1e-13 in InceptionV3's last layers, and 1e-9 in its first.
  EXPECT_LE(most, 1e-8);
}

TEST_P(TpuApplicationsTest, AreAcceptedByTheCompilerForTpus) {
  const char* const libtpu = std::getenv("STRATA_LIBTPU");  // NOLINT(concurrency-mt-unsafe)
  if (libtpu == nullptr) {
    GTEST_SKIP() << "needs libtpu.so: pip install libtpu, STRATA_LIBTPU=.../libtpu.so and "
                    "TPU_SKIP_MDS_QUERY=1";
  }
  const keras::Model net = made("float32");
  optimizers::SGD sgd(net->trainable_variables(), {.learning_rate = 0.01, .momentum = 0.9});
  constexpr int64_t kRows = 8;
  const auto step = [&](const std::vector<Tensor>& inputs) {
    const Tensor loss = loss_of(net, inputs[0], inputs[1], kRows);
    sgd.minimize(loss);
    return std::vector<Tensor>{loss.detach()};
  };
  const std::vector<Tensor> inputs = {images(kRows, GetParam().side).to(torch::kFloat),
                                      torch::arange(kRows)};
  (void)step(inputs);  // makes the momentum
  const auto trace = graph::stablehlo::trace_to_compile("train_step", inputs, step);
  const tpu::CompilableStep compilable = tpu::with_update_nodes(*trace, kTwoReplicas);
  const std::string program =
      graph::stablehlo::lower(*compilable.trace, {.num_replicas = kTwoReplicas}).text;
  for (const char* topology : {"v4:2x2x1", "v5e:2x4", "v5p:2x2x1", "v6e:2x4"}) {
    const pjrt::Topology devices(pjrt::Plugin::open(libtpu), topology);
    EXPECT_GT(devices.compile(program, kTwoReplicas).size(), 1000) << topology;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, TpuApplicationsTest,
                         testing::Values(Application{"resnet50", 64,
                                                     [](const auto& options) {
                                                       return applications::ResNet50(options);
                                                     }},
                                         Application{"inception3", 128,
                                                     [](const auto& options) {
                                                       return applications::InceptionV3(options);
                                                     }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata
