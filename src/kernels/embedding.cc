// The dense gradient of an embedding in replica functions: equal rows are added in their order, by
// whichever thread has their part, without an operator a row.
#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding_dense_backward_ops.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/dispatch_key.h"
#include "kernels/kernel_threads.h"
#include "kernels/layer_kernels.h"
#include "kernels/products.h"
#include "kernels/registration.h"
#include "kernels/row_sums.h"

namespace strata::kernels {

void sum_rows(const RowSums& arrays, int64_t height) {
  // Each part looks at all rows, so their number is that of the threads at most; cut by columns,
  // parts are alike.
  const int64_t work = (arrays.count + height) * arrays.width;
  const int64_t parts = std::min<int64_t>(num_kernel_threads(), work / kPartElements);
  constexpr int64_t kColumns = 16;
  if (parts <= 1) {
    layer_kernels().add_rows(arrays, 0, height, 0, arrays.width);
  } else if (arrays.width >= parts * kColumns) {
    const int64_t blocks = (arrays.width + kColumns - 1) / kColumns;
    parallel_for(0, blocks, (blocks + parts - 1) / parts, [&](int64_t begin, int64_t end) {
      layer_kernels().add_rows(arrays, 0, height, begin * kColumns,
                               std::min(end * kColumns, arrays.width));
    });
  } else {
    parallel_for(0, height, (height + parts - 1) / parts, [&](int64_t begin, int64_t end) {
      layer_kernels().add_rows(arrays, begin, end, 0, arrays.width);
    });
  }
}

namespace {

at::Tensor embedding_dense_backward(c10::DispatchKeySet keys, const at::Tensor& gradient,
                                    const at::Tensor& indices, c10::SymInt num_weights,
                                    c10::SymInt padding_idx, bool scale_grad_by_freq) {
  const bool plain = runs_here(KernelClass::kEmbedding) && is_cpu_float(gradient) &&
                     !gradient.is_neg() && indices.is_cpu() && indices.layout() == at::kStrided &&
                     gradient.dim() == indices.dim() + 1 &&
                     (indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt);
  if (!plain || scale_grad_by_freq) {
    return at::_ops::embedding_dense_backward::redispatch(
        keys & kBelowReplicaKey, gradient, indices, std::move(num_weights), std::move(padding_idx),
        scale_grad_by_freq);
  }
  const auto values = gradient.expect_contiguous();
  const at::Tensor rows = indices.to(at::kLong).contiguous();
  const int64_t count = rows.numel();
  const int64_t width = gradient.size(-1);
  const int64_t height = num_weights.expect_int();
  at::Tensor result = empty_float({height, width});
  const RowSums arrays{.values = values->const_data_ptr<float>(),
                       .rows = rows.const_data_ptr<int64_t>(),
                       .count = count,
                       .left_out = padding_idx.expect_int(),
                       .width = width,
                       .sums = result.mutable_data_ptr<float>()};
  sum_rows(arrays, height);
  return result;
}

}  // namespace

void register_embedding(torch::Library& library) {
  library.impl("embedding_dense_backward", TORCH_FN(embedding_dense_backward));
}

}  // namespace strata::kernels
