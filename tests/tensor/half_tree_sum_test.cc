#include "tensor/half_tree_sum.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace strata::tensor {
namespace {

const std::vector<CpuIsa> kIsas = [] {
  std::vector<CpuIsa> isas;
  for (int i = 0; i < kNumCpuIsas; ++i) {
    if (cpu_supports(static_cast<CpuIsa>(i))) isas.push_back(static_cast<CpuIsa>(i));
  }
  return isas;
}();

at::ScalarType dtype_of(HalfFormat format) {
  return format == HalfFormat::kFloat16 ? at::kHalf : at::kBFloat16;
}

TEST(HalfKernelsTest, ConvertEveryBitPatternAsLibtorchDoes) {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const HalfFormat format : {HalfFormat::kFloat16, HalfFormat::kBFloat16}) {
    const at::Tensor halves = at::from_blob(all.data(), {1 << 16}, dtype_of(format));
    const at::Tensor floats = halves.to(at::kFloat);
    for (const CpuIsa isa : kIsas) {
      const TreeKernels& kernels = tree_kernels(isa);
      const HalfKernels& half = format == HalfFormat::kFloat16 ? kernels.f16 : kernels.bf16;
      std::vector<float> wide(all.size());
      half.widen(all.data(), static_cast<int64_t>(all.size()), wide.data());
      std::vector<uint16_t> back(all.size());
      half.narrow(wide.data(), static_cast<int64_t>(all.size()), back.data());
      for (size_t i = 0; i < all.size(); ++i) {
        const float expected = floats.data_ptr<float>()[i];
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(wide[i])) << i;
          ASSERT_EQ(back[i] & 0x7FFF, format == HalfFormat::kFloat16 ? 0x7E00 : 0x7FC0) << i;
        } else {
          ASSERT_EQ(std::memcmp(&wide[i], &expected, 4), 0) << i;
          ASSERT_EQ(back[i], all[i]);
        }
      }
    }
  }
}

TEST(HalfKernelsTest, RoundAsLibtorchDoes) {
  at::manual_seed(1);
  // All magnitudes, and values half way between two halves.
  at::Tensor floats = at::randn({50000}) * at::exp2(at::randint(-150, 128, {50000}).to(at::kFloat));
  floats = at::cat({floats, at::randn({50000}).to(at::kHalf).to(at::kFloat) * (1 + 0x1p-11f),
                    at::randn({50000}).to(at::kBFloat16).to(at::kFloat) * (1 + 0x1p-8f),
                    at::tensor({65504.0f, 65519.99f, 65520.0f, 1e30f, 3.4e38f, 0x1p-24f, 0x1p-25f,
                                0x1.8p-25f, std::numeric_limits<float>::infinity(), -0.0f})});
  for (const HalfFormat format : {HalfFormat::kFloat16, HalfFormat::kBFloat16}) {
    const at::Tensor expected = floats.to(dtype_of(format));
    for (const CpuIsa isa : kIsas) {
      const TreeKernels& kernels = tree_kernels(isa);
      const HalfKernels& half = format == HalfFormat::kFloat16 ? kernels.f16 : kernels.bf16;
      std::vector<uint16_t> out(static_cast<size_t>(floats.numel()));
      half.narrow(floats.data_ptr<float>(), floats.numel(), out.data());
      EXPECT_EQ(std::memcmp(out.data(), expected.data_ptr(), out.size() * 2), 0);
    }
  }
}

TEST(HalfTreeSumTest, AddsInFloatAndRoundsOnce) {
  at::manual_seed(2);
  for (const HalfFormat format : {HalfFormat::kFloat16, HalfFormat::kBFloat16}) {
    for (int n = 0; n <= 9; ++n) {
      for (const int64_t size : {0, 1, 100, 1024, 3000}) {
        std::vector<at::Tensor> values;   // what the tree holds, as float
        std::vector<at::Tensor> storage;  // what the sources hold
        std::vector<HalfSource> sources;
        for (int i = 0; i < n; ++i) {
          const bool absent = i % 4 == 2;
          const bool is_float = i % 3 == 1;
          at::Tensor value = at::randn({size});
          if (!is_float) value = value.to(dtype_of(format));
          storage.push_back(value);
          values.push_back(absent ? at::Tensor() : value.to(at::kFloat));
          sources.push_back({.data = absent ? nullptr : value.data_ptr(), .is_float = is_float});
        }
        if (size == 0) sources.clear();  // an empty tensor's pointer is null
        at::Tensor expected = reduce_in_tree_order(TreeOp::kSum, values);
        if (!expected.defined()) expected = at::zeros({size});
        for (const CpuIsa isa : kIsas) {
          at::Tensor wide = at::full({size}, 7.0f);
          reduce_halves_in_tree_order_with(tree_kernels(isa), format, TreeOp::kSum, sources.data(),
                                           static_cast<int>(sources.size()), size,
                                           {.data = wide.data_ptr(), .is_float = true});
          EXPECT_TRUE(at::equal(wide, expected)) << n << " sources, " << size;
          at::Tensor narrow = at::full({size}, 7.0f, dtype_of(format));
          reduce_halves_in_tree_order_with(tree_kernels(isa), format, TreeOp::kSum, sources.data(),
                                           static_cast<int>(sources.size()), size,
                                           {.data = narrow.data_ptr(), .divisor = 3});
          EXPECT_TRUE(at::equal(narrow, (expected / 3).to(dtype_of(format))));
        }
      }
    }
  }
}

TEST(HalfTreeSumTest, MayWriteOverASourceOfItsWidth) {
  const at::Tensor a = at::randn({3000}).to(at::kHalf);
  const at::Tensor b = at::randn({3000});
  const at::Tensor expected = at::maximum(a.to(at::kFloat), b);
  at::Tensor over_a = a.clone();
  at::Tensor over_b = b.clone();
  const HalfSource first[2] = {{over_a.data_ptr(), false}, {b.data_ptr(), true}};
  reduce_halves_in_tree_order(HalfFormat::kFloat16, TreeOp::kMax, first, 2, 3000,
                              {.data = over_a.data_ptr()});
  EXPECT_TRUE(at::equal(over_a, expected.to(at::kHalf)));
  const HalfSource second[2] = {{a.data_ptr(), false}, {over_b.data_ptr(), true}};
  reduce_halves_in_tree_order(HalfFormat::kFloat16, TreeOp::kMax, second, 2, 3000,
                              {.data = over_b.data_ptr(), .is_float = true});
  EXPECT_TRUE(at::equal(over_b, expected));
}

}  // namespace
}  // namespace strata::tensor
