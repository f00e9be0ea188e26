#include "optim/step/backward.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "optim/step/scaled_sum.h"

namespace strata::optimizers {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor leaf(at::IntArrayRef sizes) { return torch::randn(sizes).set_requires_grad(true); }

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const at::Tensor x = a.to_dense().contiguous();
  const at::Tensor y = b.to_dense().contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

/// Both ways over the same graph, made twice.
void expect_as_the_engine(const Tensors& inputs, const std::function<at::Tensor()>& loss) {
  const auto here = backward_here(loss(), inputs);
  ASSERT_TRUE(here.has_value());
  const auto engine = torch::autograd::grad({loss()}, inputs, {}, std::nullopt,
                                            /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(same_bits((*here)[i], engine[i])) << "input " << i;
    EXPECT_FALSE(inputs[i].grad().defined());
  }
}

class BackwardHere : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(11); }
  const at::Tensor x_ = torch::randn({6, 5});
  const at::Tensor w_ = leaf({4, 5});
  const at::Tensor b_ = leaf({4});
  const at::Tensor v_ = leaf({4, 4});

  at::Tensor hidden() const { return torch::relu(torch::linear(x_, w_, b_)); }
};

TEST_F(BackwardHere, IsTheEnginesToTheBit) {
  expect_as_the_engine({w_, b_}, [&] { return hidden().sum(); });
  // Values and parameters that are used several times, broadcast, and split.
  expect_as_the_engine({w_, b_, v_}, [&] {
    const at::Tensor h = hidden();
    const at::Tensor deep = torch::tanh(h.mm(v_) + b_) * h + h.mm(v_.t()).exp() + w_.sum();
    const auto halves = deep.chunk(2, 1);
    return (halves[0] * halves[1].sigmoid()).mean() + deep.pow(2).mean();
  });
}

TEST_F(BackwardHere, LeavesThatTheLossDoesNotReachHaveNone) {
  expect_as_the_engine({w_, v_, b_}, [&] { return hidden().sum(); });
}

TEST_F(BackwardHere, AddsSparseGradients) {
  const at::Tensor table = leaf({9, 3});
  const at::Tensor rows = torch::tensor({1, 4, 4, 8});
  for (const bool dense_first : {true, false}) {
    expect_as_the_engine({table}, [&] {
      const at::Tensor picked = torch::embedding(table, rows, -1, false, /*sparse=*/true);
      const at::Tensor again = torch::embedding(table, rows + 0, -1, false, /*sparse=*/true);
      const at::Tensor both = picked.exp().sum() + again.pow(3).sum();
      return dense_first ? table.pow(2).sum() + both : both + table.pow(2).sum();
    });
  }
}

TEST_F(BackwardHere, AGradientOfItsOwnForEachUse) {
  // Both parameters get the same tensor; nothing may add to it in place.
  expect_as_the_engine({b_, v_}, [&] {
    const at::Tensor sum = b_ + v_[0];
    return (sum + b_).sum() + (sum * sum).sum();
  });
}

TEST_F(BackwardHere, FreesTheGraph) {
  const at::Tensor loss = hidden().pow(2).sum();
  ASSERT_TRUE(backward_here(loss, {w_, b_}).has_value());
  EXPECT_THROW(backward_here(loss, {w_, b_}), std::exception);
}

TEST_F(BackwardHere, ErrorsOfNodesReachTheCaller) {
  const at::Tensor broken = (w_ * w_).sum();
  {
    const at::NoGradGuard no_grad;
    w_.add_(1);
  }
  EXPECT_THROW(backward_here(broken, {w_}), std::exception);
}

struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 2};
  }
};

TEST_F(BackwardHere, LeavesOtherGraphsToTheEngine) {
  const auto refused = [](const at::Tensor& loss, const Tensors& inputs) {
    return !backward_here(loss, inputs).has_value();
  };
  EXPECT_TRUE(refused(hidden().sum(), {w_})) << "b is another leaf";
  EXPECT_TRUE(refused(Doubled::apply(hidden()).sum(), {w_, b_})) << "a program's node";
  const at::Tensor scalar = leaf({});
  EXPECT_TRUE(refused(scalar, {scalar})) << "no graph";

  const at::Tensor watched = hidden();
  int calls = 0;
  watched.register_hook([&](const at::Tensor&) { ++calls; });
  EXPECT_TRUE(refused(watched.sum(), {w_, b_}));
  const at::Tensor kept = hidden();
  kept.retain_grad();
  EXPECT_TRUE(refused(kept.sum(), {w_, b_}));
  {
    const torch::autograd::DetectAnomalyGuard anomaly;
    EXPECT_TRUE(refused(hidden().sum(), {w_, b_}));
  }
  w_.register_hook([&](const at::Tensor&) { ++calls; });
  EXPECT_TRUE(refused(hidden().sum(), {w_, b_}));
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(kept.sum().requires_grad());
}

// Small enough for a node of its own, not contiguous, and for libtorch.
TEST(ScaledSum, HasValueGradientAndSecondDerivative) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor x = torch::randn({40, 3}, dtype).set_requires_grad(true);
    ASSERT_TRUE(losses::has_scaled_sum(x));
    const at::Tensor got = losses::scaled_sum(x.t().pow(3), 7);
    const at::Tensor want = x.pow(3).sum() / 7;
    EXPECT_TRUE(torch::allclose(got, want));
    const auto slope = [&](const at::Tensor& value) {
      return torch::autograd::grad({value}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
    };
    const at::Tensor got_slope = slope(got);
    const at::Tensor want_slope = slope(want);
    EXPECT_TRUE(torch::allclose(got_slope, want_slope));
    EXPECT_TRUE(torch::allclose(slope(got_slope.sin().sum()), slope(want_slope.sin().sum())));
  }
  EXPECT_FALSE(losses::has_scaled_sum(torch::ones({5000})));
  EXPECT_FALSE(losses::has_scaled_sum(torch::ones({5}, at::kLong)));
}

}  // namespace
}  // namespace strata::optimizers
