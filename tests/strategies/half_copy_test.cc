// Variables' values in bfloat16, which optimizers write beside them.
#include "runtime/half_copy.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

#include "strata/checkpoint/checkpoint.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/strategy.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

/// Replicas; 0: central storage.
class HalfCopyTest : public testing::TestWithParam<int> {
 protected:
  static constexpr int kOwnCopies = 4;  // two replicas, whose copies may differ

  HalfCopyTest() {
    set_logical_devices("cpu", 4);
    torch::manual_seed(3);
    const int n = GetParam();
    if (n == 0) {
      strategy_ = std::make_unique<CentralStorageStrategy>(
          CentralStorageOptions{.compute_devices = cpus(2)});
    } else {
      MirroredOptions options{.devices = cpus(n == kOwnCopies ? 2 : n)};
      if (n == 3) options.replicas.share_storage = true;
      if (n == kOwnCopies) options.replicas.share_storage = false;
      strategy_ = std::make_unique<MirroredStrategy>(options);
    }
    const auto make = [&](at::Tensor value) {
      return strategy_->scope([&] { return Variable(value); });
    };
    kernel_ = std::make_unique<Variable>(make(torch::randn({70, 40}).t()));
    bias_ = std::make_unique<Variable>(make(torch::randn({40})));
    unused_ = std::make_unique<Variable>(make(torch::randn({3000})));
  }

  std::vector<Variable> variables() const { return {*kernel_, *bias_, *unused_}; }

  void step(optimizers::Optimizer& optimizer) {
    const at::Tensor x = torch::randn({6, 40}).to(at::kBFloat16);
    strategy_->run([&] {
      const at::Tensor y = x.mm(kernel_->value_as(at::kBFloat16));
      const at::Tensor bias = bias_->value_as(at::kBFloat16);
      (void)unused_->value_as(at::kBFloat16);
      optimizer.minimize(y.to(at::kFloat).square().mean() + bias.to(at::kFloat).square().sum());
    });
  }

  void expect_equal(const char* when) const {
    strategy_->run([&] {
      for (const Variable& variable : variables()) {
        const at::Tensor half = variable.value_as(at::kBFloat16);
        EXPECT_EQ(half.scalar_type(), at::kBFloat16);
        EXPECT_EQ(half.strides(), variable.value().strides());
        EXPECT_TRUE(half.equal(variable.value().detach().to(at::kBFloat16))) << when;
      }
    });
    EXPECT_TRUE(kernel_->value_as(at::kBFloat16).equal(kernel_->value().to(at::kBFloat16))) << when;
  }

  /// Whether it is up to date before anyone reads it.
  static bool is_kept(const Variable& variable) {
    return !variable.state()->half_copies().to_update(variable.state()->replicas()).empty();
  }

  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Variable> kernel_;
  std::unique_ptr<Variable> bias_;
  std::unique_ptr<Variable> unused_;
};

TEST_P(HalfCopyTest, EqualsTheCastAfterSteps) {
  optimizers::Adam adam(variables(), {.learning_rate = 0.1});
  for (int i = 0; i < 4; ++i) {
    step(adam);
    // The first step moves the variables to the optimizer's storage.
    if (i > 0) {
      EXPECT_TRUE(is_kept(*kernel_) && is_kept(*bias_) && is_kept(*unused_)) << i;
    }
    expect_equal("after a step");
  }
}

TEST_P(HalfCopyTest, FollowsAveragesThatOverwrite) {
  optimizers::SGD sgd(variables(),
                      {.learning_rate = 0.1, .use_ema = true, .ema_overwrite_frequency = 2});
  for (int i = 0; i < 4; ++i) {
    step(sgd);
    expect_equal("after a step with averages");
  }
}

TEST_P(HalfCopyTest, EqualsTheCastAfterStepsOfWholeVariables) {
  optimizers::Lamb lamb(variables(), {.learning_rate = 0.1});
  for (int i = 0; i < 3; ++i) {
    step(lamb);
    expect_equal("after a step of whole variables");
  }
}

TEST_P(HalfCopyTest, FollowsWrites) {
  optimizers::Adam adam(variables(), {.learning_rate = 0.1});
  step(adam);
  step(adam);
  kernel_->assign(torch::randn({40, 70}));
  EXPECT_FALSE(is_kept(*kernel_));
  expect_equal("after an assignment");
  bias_->assign_add(1.0);
  expect_equal("after an addition");
  {
    const at::NoGradGuard no_grad;
    at::Tensor(kernel_->on_replica(0)).mul_(2);
  }
  expect_equal("after a write in place");
  kernel_->assign(torch::randn({40, 70}));
  step(adam);
  expect_equal("after an assignment and a step");
  const test::TempFolder folder;
  Checkpoint checkpoint({{"kernel", *kernel_}, {"bias", *bias_}});
  const at::Tensor saved = kernel_->value().detach().clone();
  const std::string path = checkpoint.save(folder.path() + "/half");
  step(adam);
  checkpoint.restore(path);
  EXPECT_TRUE(kernel_->value().equal(saved));
  expect_equal("after a restore");
  kernel_->assign(torch::full({40, 70}, 1e-40));  // subnormal
  expect_equal("subnormal");
}

TEST_P(HalfCopyTest, GradientsAreTheCasts) {
  const at::Tensor x = torch::randn({6, 40}).to(at::kBFloat16);
  strategy_->run([&] {
    const auto gradient = [&](const at::Tensor& half) {
      at::Tensor y = x.mm(half);
      return torch::autograd::grad({y.square().sum()}, {kernel_->value()})[0];
    };
    const at::Tensor got = gradient(kernel_->value_as(at::kBFloat16));
    EXPECT_EQ(got.scalar_type(), at::kFloat);
    EXPECT_TRUE(got.equal(gradient(kernel_->value().to(at::kBFloat16))));
    EXPECT_FALSE([&] {
      const at::NoGradGuard no_grad;
      return kernel_->value_as(at::kBFloat16).requires_grad();
    }());
    // Past the cast: not rounded on the way.
    const at::Tensor bias = torch::randn({70}).to(at::kBFloat16);
    const at::Tensor y = at::addmm(bias, x, kernel_->value_as(at::kBFloat16));
    const at::Tensor g = torch::randn(y.sizes()).to(at::kBFloat16);
    const at::Tensor whole = torch::autograd::grad({y}, {kernel_->value()}, {g})[0];
    const at::Tensor want = x.t().to(at::kDouble).mm(g.to(at::kDouble));
    EXPECT_EQ(whole.scalar_type(), at::kFloat);
    EXPECT_LT((whole.to(at::kDouble) - want).abs().max().item<double>(), 0.05);
  });
}

TEST_P(HalfCopyTest, OtherTypesAreCast) {
  EXPECT_EQ(kernel_->value_as(at::kHalf).scalar_type(), at::kHalf);
  EXPECT_TRUE(kernel_->value_as(at::kFloat).is_same(kernel_->value()));
  const Variable counter =
      strategy_->scope([] { return Variable(torch::ones({2}), {.trainable = false}); });
  EXPECT_EQ(counter.value_as(at::kBFloat16).scalar_type(), at::kBFloat16);
}

INSTANTIATE_TEST_SUITE_P(CentralAndMirrored, HalfCopyTest, testing::Values(0, 1, 2, 3, 4));

}  // namespace
}  // namespace strata
