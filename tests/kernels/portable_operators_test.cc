// Operators with the same bits on all processors: values against libtorch's in double.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/portable/portable_bits.h"
#include "kernels/portable/portable_kernels.h"
#include "kernels/replica_like.h"
#include "strata/core/error.h"

namespace strata::kernels {
namespace {

namespace F = torch::nn::functional;

struct PortableCase {
  const char* name;
  std::function<at::Tensor(const at::Tensor&)> function;
};

/// Of [6, 10, 12, 9].
const std::vector<PortableCase>& portable_cases() {
  static const std::vector<PortableCase> cases = {
      {"sum", [](const at::Tensor& x) { return x.sum(); }},
      {"sum of the last", [](const at::Tensor& x) { return x.sum(-1, true); }},
      {"sum of the first", [](const at::Tensor& x) { return x.sum(0); }},
      {"sum of two apart",
       [](const at::Tensor& x) {
         return x.sum({0, 2});
       }},
      {"sum of a transposed one", [](const at::Tensor& x) { return x.transpose(1, 3).sum({1}); }},
      {"mean", [](const at::Tensor& x) { return x.mean(); }},
      {"mean of the middle",
       [](const at::Tensor& x) {
         return x.mean({1, 2});
       }},
      {"exp", [](const at::Tensor& x) { return x.exp(); }},
      {"log", [](const at::Tensor& x) { return (x.abs() + 0.1).log(); }},
      {"tanh", [](const at::Tensor& x) { return x.tanh(); }},
      {"sigmoid", [](const at::Tensor& x) { return x.sigmoid(); }},
      {"erf", [](const at::Tensor& x) { return x.erf(); }},
      {"gelu", [](const at::Tensor& x) { return F::gelu(x); }},
      {"silu", [](const at::Tensor& x) { return F::silu(x); }},
      {"softplus", [](const at::Tensor& x) { return F::softplus(x); }},
      {"elu", [](const at::Tensor& x) { return F::elu(x); }},
      {"softmax", [](const at::Tensor& x) { return x.softmax(1); }},
      {"log_softmax", [](const at::Tensor& x) { return x.log_softmax(-1); }},
      {"layer_norm",
       [](const at::Tensor& x) {
         return F::layer_norm(x, F::LayerNormFuncOptions({12, 9}));
       }},
      {"batch_norm",
       [](const at::Tensor& x) {
         return F::batch_norm(x, {}, {}, F::BatchNormFuncOptions().training(true));
       }},
      {"power", [](const at::Tensor& x) { return x.pow(2) + x.pow(3); }},
      {"square root", [](const at::Tensor& x) { return (x * x + 1).sqrt(); }},
      {"variance", [](const at::Tensor& x) { return x.var({1}, false) + x.std({1}); }},
      {"norm", [](const at::Tensor& x) { return at::norm(x, 2, {2}); }},
      {"add with a factor", [](const at::Tensor& x) { return at::add(x, x.flip(0), 0.3); }},
      {"addcmul", [](const at::Tensor& x) { return at::addcmul(x, x, x, 0.7); }},
      {"mse_loss", [](const at::Tensor& x) { return at::mse_loss(x, x.flip(1)); }},
      {"matmul", [](const at::Tensor& x) { return x.matmul(x.transpose(2, 3)); }},
      {"matrix by vector", [](const at::Tensor& x) { return x.flatten(0, 2).mv(x[0][0][0]); }},
      {"small matrices",
       [](const at::Tensor& x) { return x[0][0].slice(0, 0, 2).mm(x[0][1].t()); }},
      {"convolution",
       [](const at::Tensor& x) { return at::conv2d(x, x.slice(2, 0, 3).slice(3, 0, 3)); }},
      {"strided convolution in groups",
       [](const at::Tensor& x) {
         return at::conv2d(x, x.slice(1, 0, 5).slice(2, 0, 3).slice(3, 0, 2), {}, 2, 1, 1, 2);
       }},
      {"transposed convolution",
       [](const at::Tensor& x) {
         return at::conv_transpose2d(
             x, x.slice(2, 0, 3).slice(3, 0, 3).transpose(0, 1).contiguous(), {}, 2, 1, 1);
       }},
      {"convolution of one dimension",
       [](const at::Tensor& x) { return at::conv1d(x[0], x[0].slice(0, 0, 4).slice(2, 0, 3)); }},
      {"average pooling", [](const at::Tensor& x) { return at::avg_pool2d(x, 3); }},
      {"max pooling", [](const at::Tensor& x) { return at::max_pool2d(x, 2); }},
  };
  return cases;
}

at::Tensor sample() {
  at::manual_seed(3);
  return at::randn({6, 10, 12, 9});
}

class PortableReplica {
 public:
  PortableReplica() : registered_(use_portable_kernels()), bits_(true) {}

 private:
  ReplicaLike replica_;
  bool registered_;
  PortableBitsGuard bits_;
};

/// The value, and the gradient of a weighted sum of it.
std::vector<at::Tensor> value_and_gradient(const PortableCase& each, const at::Tensor& at_x) {
  const at::Tensor x = at_x.detach().clone().requires_grad_();
  const at::Tensor y = each.function(x);
  const at::Tensor weights =
      (at::arange(y.numel(), at::kLong) % 7).to(y.scalar_type()).view(y.sizes());
  return {y.detach(), torch::autograd::grad({(y * weights).sum()}, {x})[0]};
}

TEST(PortableOperatorsTest, ValuesAndGradientsAreThoseOfLibtorchInDouble) {
  const at::Tensor x = sample();
  for (const PortableCase& each : portable_cases()) {
    SCOPED_TRACE(each.name);
    const auto want = value_and_gradient(each, x.to(at::kDouble));
    const PortableReplica replica;
    const auto got = value_and_gradient(each, x);
    EXPECT_LT(largest_error(got[0], want[0]), 1e-5);
    EXPECT_LT(largest_error(got[1], want[1]), 2e-5);
  }
}

TEST(PortableOperatorsTest, OthersAreRefusedByName) {
  const PortableReplica replica;
  const at::Tensor x = sample();
  const auto refused = [&](const char* name, const auto& call) {
    try {
      call();
      ADD_FAILURE() << "no error; expected one that names " << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  refused("aten::erfinv", [&] { x.erfinv(); });
  refused("aten::pow", [&] { x.abs().pow(0.3); });
  refused("aten::exp", [&] { x.to(at::kDouble).exp(); });
  refused("aten::mm", [&] { at::mm(x[0][0].to(at::kDouble), x[0][0].t().to(at::kDouble)); });
  // Whole numbers are exact anywhere.
  EXPECT_EQ((at::arange(5).prod() + at::arange(5).sum()).item<int64_t>(), 10);
}

TEST(PortableOperatorsTest, WithoutTheGuardNothingIsRefused) {
  const ReplicaLike replica;
  EXPECT_EQ(sample().erfinv().numel(), sample().numel());
}

#if defined(__x86_64__)

TEST(PortableKernelsTest, EveryInstructionSetGivesTheSameBits) {
  std::vector<const PortableKernels*> all = {&portable_kernels_baseline()};
  if (cpu_supports(CpuIsa::kAvx2)) all.push_back(&portable_kernels_avx2());
  if (cpu_supports(CpuIsa::kAvx512)) all.push_back(&portable_kernels_avx512());
  if (all.size() == 1) GTEST_SKIP() << "one instruction set";
  at::manual_seed(4);
  for (const int64_t size : {1, 3, 15, 17, 64, 1000, 1025, 5000}) {
    const at::Tensor x = at::randn({7, size}) * 8;
    at::Tensor first;
    for (const PortableKernels* kernels : all) {
      at::Tensor rows = at::empty({7}), columns = at::empty({size});
      at::Tensor scratch = at::empty({64 * size});
      const float* const data = x.const_data_ptr<float>();
      kernels->sums_f32.rows(data, 7, size, rows.mutable_data_ptr<float>());
      kernels->sums_f32.columns(data, 7, size, columns.mutable_data_ptr<float>(),
                                scratch.mutable_data_ptr<float>());
      std::vector<at::Tensor> results = {rows, columns};
      for (const auto function : {kernels->exp, kernels->log, kernels->erf}) {
        results.push_back(at::empty({7 * size}));
        function(data, 7 * size, results.back().mutable_data_ptr<float>());
      }
      const at::Tensor bits = at::cat(results).view(at::kInt);
      if (!first.defined()) first = bits;
      EXPECT_TRUE(at::equal(bits, first)) << size;
    }
  }
}

#endif

}  // namespace
}  // namespace strata::kernels
