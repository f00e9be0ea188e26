// What Muon promises beside Keras's numbers, which tests/golden has.

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "strata/core/error.h"
#include "support/expect_error.h"
#include "tensor/muon_variables.h"
#include "tensor/update_rule.h"

namespace strata::tensor {
namespace {

/// The steps of square, wide and tall matrices have singular values of about 1.
TEST(MuonTest, AStepIsNearlyOrthogonal) {
  at::manual_seed(3);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{8, 8}, {5, 20}, {20, 5}}) {
    const MuonRule options{.momentum = 0, .ns_steps = 6, .rms_rate = 0};
    at::Tensor parameter = at::zeros(shape, at::kDouble);
    std::vector<at::Tensor> slots = {at::zeros(shape, at::kDouble)};
    options.make()->apply(parameter, at::mul(at::randn(shape, at::kDouble), 100), slots, {},
                          StepScalars{.learning_rate = 1});
    const at::Tensor values = at::linalg_svdvals(parameter);
    EXPECT_GT(values.min().item<double>(), 0.6) << shape;
    EXPECT_LT(values.max().item<double>(), 1.3) << shape;
  }
}

TEST(MuonTest, TheScaleFollowsTheLongerSide) {
  const auto step = [](double rms_rate) {
    at::Tensor parameter = at::zeros({4, 9}, at::kDouble);
    std::vector<at::Tensor> slots = {at::zeros({4, 9}, at::kDouble)};
    MuonRule{.rms_rate = rms_rate}.make()->apply(parameter,
                                                 at::arange(36, at::kDouble).view({4, 9}).cos(),
                                                 slots, {}, StepScalars{.learning_rate = 1});
    return parameter;
  };
  EXPECT_TRUE(at::allclose(step(0.5), at::mul(step(0), 0.5 * 3)));
}

TEST(MuonTest, TakesMatricesThatAreNoEmbeddingsAndNotExcluded) {
  const int64_t matrix[] = {2, 3}, vector[] = {3}, kernel[] = {3, 3, 2, 4};
  const MuonVariables usual({}, true);
  EXPECT_TRUE(usual.contains("dense/kernel", matrix));
  EXPECT_FALSE(usual.contains("dense/bias", vector));
  EXPECT_FALSE(usual.contains("conv/kernel", kernel));
  EXPECT_FALSE(usual.contains("Token_Embedding/embeddings", matrix));
  EXPECT_TRUE(MuonVariables({}, false).contains("embedding/embeddings", matrix));
  const MuonVariables excluded({"out.*kernel", "^first"}, true);
  EXPECT_FALSE(excluded.contains("model/output/kernel", matrix));
  EXPECT_FALSE(excluded.contains("first/kernel", matrix));
  EXPECT_TRUE(excluded.contains("not_first/kernel", matrix));
}

TEST(MuonTest, ErrorsNameTheOption) {
  expect_error_containing([] { MuonVariables({"(open"}, true); }, ErrorCode::kInvalidArgument,
                          "[muon] got '(open' in exclude_layers, which is no regular expression (");
  expect_error([] { MuonRule{.momentum = 2}.make(); }, ErrorCode::kInvalidArgument,
               "[update_rule] muon: got momentum 2; expected a value in [0, 1]");
  expect_error([] { MuonRule{.ns_steps = 101}.make(); }, ErrorCode::kInvalidArgument,
               "[update_rule] muon: got 101 ns_steps; expected 0 to 100");
  expect_error(
      [] {
        at::Tensor parameter = at::zeros({3});
        std::vector<at::Tensor> slots = {at::zeros({3})};
        MuonRule{}.make()->apply(parameter, at::ones({3}), slots, {}, StepScalars{});
      },
      ErrorCode::kInvalidArgument,
      "[update_rule] muon: got a variable of shape [3]; expected a matrix");
  expect_error([] { ScheduleFreeAdamWRule{.beta_1 = 0}.make(); }, ErrorCode::kInvalidArgument,
               "[update_rule] schedule_free_adamw: got beta_1 0; expected more: the average is "
               "divided by it");
  expect_error([] { ScheduleFreeAdamWRule{.warmup_steps = -1}.make(); },
               ErrorCode::kInvalidArgument,
               "[update_rule] schedule_free_adamw: got warmup_steps -1; expected 0 or more");
}

}  // namespace
}  // namespace strata::tensor
