// aten::max_pool2d over 2 x 2, and its backward; over 3 x 3.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/max_pool2d_with_indices_backward_ops.h>
#include <ATen/ops/max_pool2d_with_indices_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <tuple>

#include "core/cpu_isa.h"
#include "kernels/dispatch_key.h"
#include "kernels/kernel_threads.h"
#include "kernels/pool_kernels.h"
#include "kernels/products.h"
#include "kernels/registration.h"

namespace strata::kernels {

const PoolKernels& pool_kernels() { return STRATA_KERNELS_FOR(best_cpu_isa(), pool_kernels); }

namespace {

/// `values` is one or two numbers, both equal to `expected`; none at all where `or_none`.
bool all_equal(at::IntArrayRef values, int64_t expected, bool or_none = false) {
  if (values.empty()) return or_none;
  return values.size() <= 2 &&
         std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == expected; });
}

/// The size of windows that the pool kernels take, 2 or 3, two apart; 0: they do not.
int64_t pool_size(const at::Tensor& input, at::IntArrayRef kernel, at::IntArrayRef stride,
                  at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  if (!runs_here(KernelClass::kMaxPool) || !is_cpu_float(input) ||
      (input.dim() != 3 && input.dim() != 4) || input.numel() == 0)
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
  parallel_for(0, input.numel() / plane, std::max<int64_t>(1, (1 << 15) / plane),
               [&](int64_t begin, int64_t end) { part(begin, end - begin); });
}

std::tuple<at::Tensor, at::Tensor> max_pool2d_with_indices(
    c10::DispatchKeySet keys, const at::Tensor& input, at::IntArrayRef kernel,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  const int64_t size = pool_size(input, kernel, stride, padding, dilation, ceil_mode);
  if (size == 0) {
    return at::_ops::max_pool2d_with_indices::redispatch(keys & kBelowReplicaKey, input, kernel,
                                                         stride, padding, dilation, ceil_mode);
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

at::Tensor max_pool2d_with_indices_backward(c10::DispatchKeySet keys, const at::Tensor& gradient,
                                            const at::Tensor& input, at::IntArrayRef kernel,
                                            at::IntArrayRef stride, at::IntArrayRef padding,
                                            at::IntArrayRef dilation, bool ceil_mode,
                                            const at::Tensor& indices) {
  const auto others = [&] {
    return at::_ops::max_pool2d_with_indices_backward::redispatch(keys & kBelowReplicaKey, gradient,
                                                                  input, kernel, stride, padding,
                                                                  dilation, ceil_mode, indices);
  };
  const bool suits = pool_size(input, kernel, stride, padding, dilation, ceil_mode) == 2 &&
                     is_cpu_float(gradient) && indices.is_cpu() &&
                     indices.scalar_type() == at::kLong && indices.is_contiguous() &&
                     gradient.sizes() == indices.sizes() && indices.dim() == input.dim() &&
                     indices.size(-2) == input.size(-2) / 2 &&
                     indices.size(-1) == input.size(-1) / 2 &&
                     indices.numel() / (indices.size(-2) * indices.size(-1)) ==
                         input.numel() / (input.size(-2) * input.size(-1));
  if (!suits) return others();
  const at::Tensor from = gradient.contiguous();
  const int64_t height = input.size(-2);
  const int64_t width = input.size(-1);
  const int64_t out_plane = (height / 2) * (width / 2);
  at::Tensor result = empty_float(input.sizes());
  const float* const values = from.const_data_ptr<float>();
  const int64_t* const positions = indices.const_data_ptr<int64_t>();
  float* const to = result.mutable_data_ptr<float>();
  std::atomic<bool> inside{true};
  for_planes(input, [&](int64_t first, int64_t planes) {
    if (!pool_kernels().backward(values + first * out_plane, positions + first * out_plane, planes,
                                 height, width, to + first * height * width)) {
      inside.store(false, std::memory_order_relaxed);
    }
  });
  // Positions that no forward pass gives.
  return inside.load(std::memory_order_relaxed) ? result : others();
}

}  // namespace

void register_max_pool(torch::Library& library) {
  library.impl("max_pool2d_with_indices", TORCH_FN(max_pool2d_with_indices));
  library.impl("max_pool2d_with_indices_backward", TORCH_FN(max_pool2d_with_indices_backward));
}

}  // namespace strata::kernels
