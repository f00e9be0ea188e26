#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <utility>
#include <vector>

#include "core/cpu_isa.h"
#include "kernels/plane_kernels.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

TEST(ImageCopyTest, TransposesInEveryInstructionSet) {
  torch::manual_seed(1);
  std::vector<const PlaneKernels*> kernels = {&plane_kernels_baseline()};
#if defined(__x86_64__)
  if (cpu_supports(CpuIsa::kAvx2)) kernels.push_back(&plane_kernels_avx2());
  if (cpu_supports(CpuIsa::kAvx512)) kernels.push_back(&plane_kernels_avx512());
#endif
  const std::vector<std::pair<int64_t, int64_t>> sizes = {{1, 1},    {1, 9},   {7, 3},  {8, 8},
                                                          {144, 64}, {64, 49}, {17, 31}};
  for (const auto& [rows, columns] : sizes) {
    const at::Tensor x = torch::randn({rows, columns});
    for (const PlaneKernels* kernel : kernels) {
      const at::Tensor got = torch::full({columns, rows}, 7.0F);
      kernel->transpose(x.const_data_ptr<float>(), rows, columns, got.mutable_data_ptr<float>());
      EXPECT_TRUE(same_bits(got, x.t())) << rows << " x " << columns;
    }
  }
}

TEST(ImageCopyTest, PlanesAndChannelsLastBothWays) {
  torch::manual_seed(2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<int64_t>> shapes = {
      {3, 5, 6},      {2, 64, 12, 12}, {1, 16, 9, 7},    {4, 4, 2, 2}, {2, 3, 8, 8},
      {2, 32, 1, 40}, {2, 8, 3, 4, 5}, {70, 32, 20, 20}, {0, 8, 4, 4}};
  for (const auto& shape : shapes) {
    at::Tensor x = torch::randn(shape);
    if (x.numel() > 0) x.view(-1)[0] = nan;
    const at::Tensor last = x.movedim(1, -1);
    const at::Tensor want = last.contiguous();
    const ReplicaLike replica;
    const at::Tensor got = last.contiguous();
    EXPECT_TRUE(same_bits(got, want)) << x.sizes();
    EXPECT_EQ(got.strides(), want.strides());
    EXPECT_TRUE(same_bits(got.movedim(-1, 1).contiguous(), x)) << x.sizes();
    EXPECT_TRUE(same_bits(last.flatten(1), want.flatten(1))) << x.sizes();
  }
}

// Of other types, with gaps, with other orders of dimensions, of formats that keep strides.
TEST(ImageCopyTest, OtherCopiesStayTheEngines) {
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({4, 8, 6, 10});
  const auto all = [&] {
    return std::vector<at::Tensor>{x.to(at::kDouble).movedim(1, -1).contiguous(),
                                   x.to(at::kLong).movedim(1, -1).contiguous(),
                                   x.slice(0, 0, 4, 2).movedim(1, -1).contiguous(),
                                   x.slice(1, 0, 8, 2).movedim(1, -1).contiguous(),
                                   x.slice(3, 2, 9).movedim(1, -1).contiguous(),
                                   x.transpose(2, 3).contiguous(),
                                   x.permute({3, 2, 1, 0}).contiguous(),
                                   x.movedim(0, -1).contiguous(),
                                   x.movedim(1, -1).clone(),
                                   x.movedim(1, -1).clone(at::MemoryFormat::Preserve),
                                   x.contiguous(at::MemoryFormat::ChannelsLast),
                                   x.select(0, 1).movedim(0, -1).expand({3, 6, 10, 8}).contiguous(),
                                   at::_neg_view(x.movedim(1, -1)).contiguous(),
                                   x.to_sparse().clone().to_dense(),
                                   torch::tensor(3.0F).clone()};
  };
  const auto want = all();
  const ReplicaLike replica;
  const auto got = all();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(same_bits(got[i], want[i])) << i;
    EXPECT_EQ(got[i].strides(), want[i].strides()) << i;
  }
}

TEST(ImageCopyTest, GradientsGoBack) {
  torch::manual_seed(4);
  const at::Tensor x = torch::randn({2, 8, 5, 6});
  const at::Tensor weight = torch::randn({2, 5 * 6 * 8});
  const auto gradient = [&] {
    const at::Tensor input = x.clone().requires_grad_();
    (input.movedim(1, -1).flatten(1).square() * weight).sum().backward();
    return input.grad();
  };
  const at::Tensor want = gradient();
  const ReplicaLike replica;
  EXPECT_TRUE(same_bits(gradient(), want));
}

TEST(ImageCopyTest, ThreadsShareTheImages) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer does not see how OpenMP's threads wait";
#endif
  const at::Tensor x = torch::randn({50, 32, 12, 12});
  const at::Tensor want = x.movedim(1, -1).contiguous();
  const ReplicaLike replica;
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  const at::Tensor got = x.movedim(1, -1).contiguous();
  at::set_num_threads(before);
  EXPECT_TRUE(same_bits(got, want));
}

}  // namespace
}  // namespace strata::kernels
