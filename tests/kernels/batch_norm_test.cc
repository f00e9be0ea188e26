// Batch normalization of planes, with relu and a sum beside it, against libtorch's operators.
#include "kernels/batch_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/batch_norm_kernels.h"
#include "kernels/replica_like.h"
#include "strata/core/error.h"

namespace strata::kernels {
namespace {

constexpr double kEpsilon = 1e-3;

at::Tensor trainable_leaf(const at::Tensor& value) {
  return value.detach().clone().set_requires_grad(true);
}

struct NormLayer {
  at::Tensor x, weight, bias, beside;
  bool relu = false;

  std::optional<BatchNormResult> own() const {
    return batch_norm_of_planes(x, weight, bias, beside, kEpsilon, relu);
  }
  at::Tensor libtorch() const {
    at::Tensor y = torch::batch_norm(x, weight, bias, {}, {}, true, 0, kEpsilon, false);
    if (beside.defined()) y = y + beside;
    return relu ? torch::relu(y) : y;
  }
  NormLayer as_double() const {
    const auto exact = [](const at::Tensor& value) {
      return value.defined() ? trainable_leaf(value.to(at::kDouble)) : at::Tensor();
    };
    return {exact(x), exact(weight), exact(bias), exact(beside), relu};
  }
};

NormLayer make_layer(const std::vector<int64_t>& shape, bool beside, bool relu) {
  return {trainable_leaf(torch::randn(shape) * 3 + 5),
          trainable_leaf(torch::rand({shape[1]}) + 0.5), trainable_leaf(torch::randn({shape[1]})),
          beside ? trainable_leaf(torch::randn(shape)) : at::Tensor(), relu};
}

class BatchNormTest : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(5); }
};

TEST_F(BatchNormTest, ValuesMomentsAndGradientsAgreeWithDouble) {
  const std::vector<std::vector<int64_t>> shapes = {{2, 3, 4, 4},   {16, 5, 7, 7}, {3, 2, 70, 70},
                                                    {1, 1, 90, 91}, {4, 6},        {2, 3, 5, 4, 3},
                                                    {8, 17, 1, 1}};
  for (const auto& shape : shapes) {
    for (const bool beside : {false, true}) {
      for (const bool relu : {false, true}) {
        SCOPED_TRACE(testing::Message() << at::IntArrayRef(shape) << beside << relu);
        const NormLayer layer = make_layer(shape, beside, relu);
        const NormLayer reference = layer.as_double();
        const auto own = layer.own();
        ASSERT_TRUE(own);
        const at::Tensor want = reference.libtorch();
        EXPECT_LT(largest_error(own->y, want), 1e-5);
        const at::Tensor rows = reference.x.detach().transpose(0, 1).flatten(1);
        EXPECT_LT(largest_error(own->mean, rows.mean(1)), 1e-6);
        EXPECT_LT(largest_error(own->variance, rows.var(1, /*unbiased=*/false)), 1e-6);
        const at::Tensor gradient = torch::randn(shape);
        own->y.backward(gradient);
        want.backward(gradient.to(at::kDouble));
        // A value that rounding puts on relu's other side would show as an error of order 1.
        EXPECT_LT(largest_error(layer.x.grad(), reference.x.grad()), 2e-5);
        EXPECT_LT(largest_error(layer.weight.grad(), reference.weight.grad()), 2e-5);
        EXPECT_LT(largest_error(layer.bias.grad(), reference.bias.grad()), 2e-5);
        if (beside) {
          EXPECT_LT(largest_error(layer.beside.grad(), reference.beside.grad()), 1e-6);
        }
      }
    }
  }
}

TEST_F(BatchNormTest, MeansFarFromZeroKeepTheVariance) {
  NormLayer layer = make_layer({16, 4, 56, 56}, false, false);
  layer.x = torch::randn({16, 4, 56, 56}) + 1000;
  const auto own = layer.own();
  ASSERT_TRUE(own);
  const at::Tensor rows = layer.x.to(at::kDouble).transpose(0, 1).flatten(1);
  EXPECT_LT(largest_error(own->variance, rows.var(1, false)), 1e-5);
}

TEST_F(BatchNormTest, InstructionSetsAgreeToTheBit) {
  const BatchNormShape shape{3, 4, 83};
  const auto size = shape.images * shape.channels * shape.plane;
  const at::Tensor x = torch::randn({size}), beside = torch::randn({size}),
                   weight = torch::rand({4}), bias = torch::randn({4});
  const auto run = [&](const BatchNormKernels& kernels) {
    std::vector<at::Tensor> out = {torch::empty({size}), torch::empty({4}),    torch::empty({4}),
                                   torch::empty({4}),    torch::empty({size}), torch::empty({size}),
                                   torch::empty({4}),    torch::empty({4})};
    const auto data = [](const at::Tensor& t) { return t.data_ptr<float>(); };
    kernels.forward(shape,
                    {data(x), data(beside), data(weight), data(bias), kEpsilon, true, data(out[0]),
                     data(out[1]), data(out[2]), data(out[3])},
                    0, 4);
    kernels.backward(shape,
                     {data(beside), data(x), data(out[0]), data(weight), data(out[1]), data(out[3]),
                      data(out[4]), data(out[5]), data(out[6]), data(out[7])},
                     0, 4);
    return out;
  };
  const auto baseline = run(batch_norm_kernels_baseline());
  const auto agree = [&](const std::vector<at::Tensor>& got, const char* name) {
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(same_bits(got[i], baseline[i])) << name << i;
  };
#if defined(__x86_64__)
  if (cpu_supports(CpuIsa::kAvx2)) agree(run(batch_norm_kernels_avx2()), "avx2 ");
  if (cpu_supports(CpuIsa::kAvx512)) agree(run(batch_norm_kernels_avx512()), "avx512 ");
#endif
  agree(run(batch_norm_kernels()), "chosen ");
}

TEST_F(BatchNormTest, ThreadsDoNotChangeBits) {
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> one;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    torch::manual_seed(5);
    const NormLayer layer = make_layer({4, 9, 40, 40}, true, true);
    const auto own = layer.own();
    own->y.square().sum().backward();
    const std::vector<at::Tensor> all = {own->y, layer.x.grad(), layer.weight.grad(),
                                         layer.bias.grad(), layer.beside.grad()};
    if (one.empty()) one = all;
    for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(same_bits(all[i], one[i])) << i;
  }
  at::set_num_threads(threads);
}

TEST_F(BatchNormTest, GradientsThatOthersHoldStayAsTheyAre) {
  for (const bool relu : {false, true}) {
    const NormLayer layer = make_layer({2, 3, 8, 8}, relu, relu);
    const auto own = layer.own();
    own->y.retain_grad();
    const at::Tensor factor = torch::randn({2, 3, 8, 8});
    (own->y * factor).sum().backward();
    EXPECT_TRUE(same_bits(own->y.grad(), factor));
  }
}

TEST_F(BatchNormTest, SecondDerivativesAgreeWithLibtorch) {
  for (const bool relu : {false, true}) {
    const NormLayer layer = make_layer({2, 3, 4, 4}, true, relu);
    const NormLayer reference = layer.as_double();
    const auto second = [](const NormLayer& each, const at::Tensor& y) {
      const auto first = torch::autograd::grad({y.pow(3).sum()}, {each.x}, {}, true, true);
      first[0].square().sum().backward();
      return each.x.grad();
    };
    EXPECT_LT(largest_error(second(layer, layer.own()->y), second(reference, reference.libtorch())),
              1e-4);
  }
}

TEST_F(BatchNormTest, NaNsGoThrough) {
  NormLayer layer = make_layer({2, 2, 4, 4}, true, true);
  layer.beside.data()[1][1][2][3] = std::numeric_limits<float>::quiet_NaN();
  const auto own = layer.own();
  EXPECT_EQ(own->y.isnan().sum().item<int64_t>(), 1);
  EXPECT_TRUE(own->y[1][1][2][3].isnan().item<bool>());
}

TEST_F(BatchNormTest, AnOutputChangedInPlaceIsAnError) {
  const NormLayer layer = make_layer({2, 2, 4, 4}, false, true);
  const at::Tensor y = layer.own()->y;
  const at::Tensor loss = y.sum();
  y.detach().add_(1);
  try {
    loss.backward();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("changed in place"), std::string::npos);
  }
}

TEST_F(BatchNormTest, OthersAreLeftToLibtorch) {
  const NormLayer good = make_layer({2, 3, 4, 4}, true, true);
  const auto taken = [](const NormLayer& layer) { return layer.own().has_value(); };
  EXPECT_TRUE(taken(good));
  EXPECT_FALSE(taken(good.as_double()));
  NormLayer other = good;
  other.x = good.x.detach().contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_FALSE(taken(other));
  other = good;
  other.beside = good.beside.detach()[0];
  EXPECT_FALSE(taken(other));
  other = good;
  other.weight = at::Tensor();
  EXPECT_FALSE(taken(other));
  EXPECT_FALSE(taken(make_layer({0, 3, 4, 4}, false, false)));
}

}  // namespace
}  // namespace strata::kernels
