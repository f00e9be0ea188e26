// Softmax and its logarithm over the last dimension in replica functions.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/dispatch_key.h"
#include "kernels/kernel_threads.h"
#include "kernels/products.h"
#include "kernels/registration.h"
#include "kernels/softmax_kernels.h"

namespace strata::kernels {

const SoftmaxKernels& softmax_kernels() {
  return STRATA_KERNELS_FOR(best_cpu_isa(), softmax_kernels);
}

namespace {

/// Whether `dim` is the last one of a contiguous tensor that has elements.
bool has_float_rows(const at::Tensor& x, int64_t dim) {
  return runs_here(KernelClass::kSoftmax) && is_cpu_float(x) && x.is_contiguous() && !x.is_neg() &&
         x.dim() > 0 && x.numel() > 0 && (dim == -1 || dim == x.dim() - 1);
}

/// Where rows are so short that libtorch's vectors are mostly empty.
bool are_short(const at::Tensor& x) { return x.size(-1) < 16; }
/// Where the time is that of exponentials. In between, and of gradients, libtorch's are as fast.
bool are_long(const at::Tensor& x) { return x.size(-1) >= 256; }

/// Calls part(first row, rows).
template <typename Part>
void for_row_parts(const at::Tensor& x, const Part& part) {
  const int64_t columns = x.size(-1);
  parallel_for(0, x.numel() / columns, std::max<int64_t>(1, kPartElements / (2 * columns)),
               [&](int64_t begin, int64_t end) { part(begin, end - begin); });
}

at::Tensor over_rows(SoftmaxKernels::Forward* kernel, const at::Tensor& x) {
  at::Tensor result = empty_float(x.sizes());
  const int64_t columns = x.size(-1);
  const float* const from = x.const_data_ptr<float>();
  float* const to = result.mutable_data_ptr<float>();
  for_row_parts(x, [&](int64_t first, int64_t rows) {
    kernel(from + first * columns, rows, columns, to + first * columns);
  });
  return result;
}

at::Tensor over_rows(SoftmaxKernels::Backward* kernel, const at::Tensor& gradient,
                     const at::Tensor& y) {
  at::Tensor result = empty_float(y.sizes());
  const int64_t columns = y.size(-1);
  const float* const dy = gradient.const_data_ptr<float>();
  const float* const from = y.const_data_ptr<float>();
  float* const to = result.mutable_data_ptr<float>();
  for_row_parts(y, [&](int64_t first, int64_t rows) {
    const int64_t at = first * columns;
    kernel(dy + at, from + at, rows, columns, to + at);
  });
  return result;
}

bool takes_gradient(const at::Tensor& gradient, const at::Tensor& y, int64_t dim,
                    at::ScalarType input_dtype) {
  return has_float_rows(y, dim) && has_float_rows(gradient, dim) && gradient.sizes() == y.sizes() &&
         input_dtype == at::kFloat && are_short(y);
}

at::Tensor softmax(c10::DispatchKeySet keys, const at::Tensor& x, int64_t dim, bool half_to_float) {
  if (half_to_float || !has_float_rows(x, dim) || !(are_short(x) || are_long(x))) {
    return at::_ops::_softmax::redispatch(keys & kBelowReplicaKey, x, dim, half_to_float);
  }
  return over_rows(softmax_kernels().softmax, x);
}

at::Tensor log_softmax(c10::DispatchKeySet keys, const at::Tensor& x, int64_t dim,
                       bool half_to_float) {
  if (half_to_float || !has_float_rows(x, dim) || !(are_short(x) || are_long(x))) {
    return at::_ops::_log_softmax::redispatch(keys & kBelowReplicaKey, x, dim, half_to_float);
  }
  return over_rows(softmax_kernels().log_softmax, x);
}

at::Tensor softmax_backward(c10::DispatchKeySet keys, const at::Tensor& gradient,
                            const at::Tensor& y, int64_t dim, at::ScalarType input_dtype) {
  if (!takes_gradient(gradient, y, dim, input_dtype)) {
    return at::_ops::_softmax_backward_data::redispatch(keys & kBelowReplicaKey, gradient, y, dim,
                                                        input_dtype);
  }
  return over_rows(softmax_kernels().softmax_backward, gradient, y);
}

at::Tensor log_softmax_backward(c10::DispatchKeySet keys, const at::Tensor& gradient,
                                const at::Tensor& y, int64_t dim, at::ScalarType input_dtype) {
  if (!takes_gradient(gradient, y, dim, input_dtype)) {
    return at::_ops::_log_softmax_backward_data::redispatch(keys & kBelowReplicaKey, gradient, y,
                                                            dim, input_dtype);
  }
  return over_rows(softmax_kernels().log_softmax_backward, gradient, y);
}

}  // namespace

void register_softmax(torch::Library& library) {
  library.impl("_softmax", TORCH_FN(softmax));
  library.impl("_softmax_backward_data", TORCH_FN(softmax_backward));
  library.impl("_log_softmax", TORCH_FN(log_softmax));
  library.impl("_log_softmax_backward_data", TORCH_FN(log_softmax_backward));
}

}  // namespace strata::kernels
