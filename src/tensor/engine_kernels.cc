#include "strata/tensor/engine_kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/max_pool2d_with_indices_ops.h>
#include <ATen/ops/mm_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include "strata/core/str_cat.h"
#include "tensor/convolution.h"
#include "tensor/cpu_isa.h"
#include "tensor/pool_kernels.h"
#include "tensor/products.h"
#include "tensor/replica_kernels.h"

namespace strata::tensor {

const PoolKernels& pool_kernels() {
  switch (best_cpu_isa()) {
#if defined(__x86_64__)
    case CpuIsa::kAvx512:
      return pool_kernels_avx512();
    case CpuIsa::kAvx2:
      return pool_kernels_avx2();
#endif
    default:
      return pool_kernels_baseline();
  }
}

namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::CustomRNGKeyId;
const c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER, kKey);

/// Parts have at least this many multiplications, as a rule of thumb 10 us.
constexpr int64_t kGrain = 1 << 20;

at::Tensor mm(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b) {
  if (auto c = own_product(matrix_of(a), matrix_of(b))) return *std::move(c);
  return at::_ops::mm::redispatch(keys & kBelow, a, b);
}

at::Tensor addmm(c10::DispatchKeySet keys, const at::Tensor& bias, const at::Tensor& a,
                 const at::Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  const bool plain = is_cpu_float(bias) && bias.dim() == 1 && b.dim() == 2 &&
                     bias.size(0) == b.size(1) && bias.stride(0) == 1 && beta.equal(1) &&
                     alpha.equal(1);
  if (plain) {
    const float* const row = bias.const_data_ptr<float>();
    if (auto c = own_product(matrix_of(a), matrix_of(b), row)) return *std::move(c);
  }
  return at::_ops::addmm::redispatch(keys & kBelow, bias, a, b, beta, alpha);
}

at::Tensor bmm(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b) {
  const auto own = [&]() -> std::optional<at::Tensor> {
    if (!use_own_matmul() || a.dim() != 3 || b.dim() != 3 || !is_cpu_float(a) || !is_cpu_float(b))
      return std::nullopt;
    const int64_t batches = a.size(0);
    const int64_t m = a.size(1);
    const int64_t n = b.size(2);
    const int64_t k = a.size(2);
    if (batches == 0 || b.size(0) != batches || b.size(1) != k || !worthwhile_product(m, n, k))
      return std::nullopt;
    const auto a_view = matrix_view(a);
    const auto b_view = matrix_view(b);
    if (!a_view || !b_view) return std::nullopt;
    at::Tensor c = empty_float({batches, m, n});
    float* const out = c.mutable_data_ptr<float>();
    at::parallel_for(
        0, batches, std::max<int64_t>(1, kGrain / (m * n * k)), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            MatmulProblem problem{m, n, k, *a_view, *b_view, nullptr, out + i * m * n, n};
            problem.a.data += i * a.stride(0);
            problem.b.data += i * b.stride(0);
            multiply_here(problem);
          }
        });
    return c;
  };
  if (auto c = own()) return *std::move(c);
  return at::_ops::bmm::redispatch(keys & kBelow, a, b);
}

/// `values` is one or two numbers, both equal to `expected`; none at all where `or_none`.
bool all_equal(at::IntArrayRef values, int64_t expected, bool or_none = false) {
  if (values.empty()) return or_none;
  return values.size() <= 2 &&
         std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == expected; });
}

/// The size of windows that the pool kernels take, 2 or 3; 0: they do not.
int64_t pool_size(const at::Tensor& input, at::IntArrayRef kernel, at::IntArrayRef stride,
                  at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  if (!is_cpu_float(input) || (input.dim() != 3 && input.dim() != 4) || input.numel() == 0)
    return 0;
  const int64_t height = input.size(-2);
  const int64_t width = input.size(-1);
  const int64_t size = all_equal(kernel, 2) ? 2 : all_equal(kernel, 3) ? 3 : 0;
  const bool takes =
      size > 0 && all_equal(stride, 2, /*or_none=*/size == 2) && all_equal(padding, 0) &&
      all_equal(dilation, 1) && !ceil_mode && height >= size && width >= size &&
      height * width <= std::numeric_limits<int32_t>::max() && input.is_contiguous() &&
      input.suggest_memory_format() == at::MemoryFormat::Contiguous;
  return takes ? size : 0;
}

/// Calls part(first plane, planes).
template <typename Part>
void for_planes(const at::Tensor& input, const Part& part) {
  const int64_t plane = input.size(-2) * input.size(-1);
  at::parallel_for(0, input.numel() / plane, std::max<int64_t>(1, (1 << 15) / plane),
                   [&](int64_t begin, int64_t end) { part(begin, end - begin); });
}

std::tuple<at::Tensor, at::Tensor> max_pool2d_with_indices(
    c10::DispatchKeySet keys, const at::Tensor& input, at::IntArrayRef kernel,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  const int64_t size = pool_size(input, kernel, stride, padding, dilation, ceil_mode);
  if (size == 0) {
    return at::_ops::max_pool2d_with_indices::redispatch(keys & kBelow, input, kernel, stride,
                                                         padding, dilation, ceil_mode);
  }
  const int64_t height = input.size(-2);
  const int64_t width = input.size(-1);
  auto sizes = input.sizes().vec();
  const int64_t out_height = (height - size) / 2 + 1;
  const int64_t out_width = (width - size) / 2 + 1;
  sizes[sizes.size() - 2] = out_height;
  sizes[sizes.size() - 1] = out_width;
  at::Tensor out = empty_float(sizes);
  at::Tensor indices = at::detail::empty_cpu(sizes, at::kLong);
  const float* const from = input.const_data_ptr<float>();
  float* const to = out.mutable_data_ptr<float>();
  int64_t* const positions = indices.mutable_data_ptr<int64_t>();
  const int64_t out_plane = out_height * out_width;
  const auto run = size == 2 ? pool_kernels().forward : pool_kernels().forward3;
  for_planes(input, [&](int64_t first, int64_t planes) {
    run(from + first * height * width, planes, height, width, to + first * out_plane,
        positions + first * out_plane);
  });
  return {std::move(out), std::move(indices)};
}

}  // namespace

void detail::register_engine_kernels(torch::Library& library) {
  library.impl("mm", TORCH_FN(mm));
  library.impl("addmm", TORCH_FN(addmm));
  library.impl("bmm", TORCH_FN(bmm));
  library.impl("max_pool2d_with_indices", TORCH_FN(max_pool2d_with_indices));
}

void use_engine_kernels() {
  detail::link_replica_kernels();
  // A wrong STRATA_MATMUL or STRATA_CONV is reported here rather than in the first product.
  use_own_matmul();
  use_own_convolution();
}

std::string describe_engine_kernels() {
  constexpr const char* kIsaNames[kNumCpuIsas] = {"baseline", "AVX2", "AVX-512"};
  return str_cat("matmul: ", use_own_matmul() ? "strata (AVX-512)" : "libtorch",
                 "; convolution: ", use_own_convolution() ? "strata (AVX-512)" : "libtorch",
                 "; max_pool2d: strata (", kIsaNames[static_cast<int>(best_cpu_isa())], ")");
}

}  // namespace strata::tensor
