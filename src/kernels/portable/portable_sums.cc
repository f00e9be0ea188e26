// Sums and means with the same bits on all processors.
#include <ATen/EmptyTensor.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/sum_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <bitset>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/kernel_threads.h"
#include "kernels/portable/portable_bits.h"
#include "kernels/portable/portable_kernels.h"
#include "kernels/portable/register_portable.h"

namespace strata::kernels {

const PortableKernels& portable_kernels() {
  return STRATA_KERNELS_FOR(best_cpu_isa(), portable_kernels);
}

namespace portable {

namespace {

using OptionalType = std::optional<at::ScalarType>;

template <typename T>
const PortableSums<T>& sums_of() {
  if constexpr (std::is_same_v<T, float>) {
    return portable_kernels().sums_f32;
  } else {
    return portable_kernels().sums_f64;
  }
}

/// Of contiguous x[outer, size, inner] over the middle.
template <typename T>
void sum_middle(const at::Tensor& x, int64_t outer, int64_t size, int64_t inner, at::Tensor& out) {
  const T* const from = x.const_data_ptr<T>();
  T* const to = out.mutable_data_ptr<T>();
  const int64_t grain = std::max<int64_t>(1, kPartElements / std::max<int64_t>(1, size * inner));
  if (inner == 1) {
    parallel_for(0, outer, grain, [&](int64_t begin, int64_t end) {
      sums_of<T>().rows(from + begin * size, end - begin, size, to + begin);
    });
    return;
  }
  parallel_for(0, outer, grain, [&](int64_t begin, int64_t end) {
    at::Tensor scratch = at::detail::empty_cpu({64 * inner}, x.scalar_type());
    for (int64_t i = begin; i < end; ++i) {
      sums_of<T>().columns(from + i * size * inner, size, inner, to + i * inner,
                           scratch.mutable_data_ptr<T>());
    }
  });
}

/// @param dims  Those that are added; none: all.
at::Tensor sum_over(const at::Tensor& given, at::OptionalIntArrayRef dims, bool keepdim) {
  const int64_t rank = given.dim();
  std::vector<bool> added(static_cast<size_t>(rank), !dims || dims->empty());
  if (dims) {
    for (const int64_t dim : *dims) {
      if (rank > 0) added[static_cast<size_t>(at::maybe_wrap_dim(dim, rank))] = true;
    }
  }
  at::DimVector kept_sizes, order, kept;
  int64_t size = 1;
  for (int64_t dim = 0; dim < rank; ++dim) {
    const bool gone = added[static_cast<size_t>(dim)];
    if (gone) {
      size *= given.size(dim);
    } else {
      kept.push_back(dim);
    }
    if (!gone || keepdim) kept_sizes.push_back(gone ? 1 : given.size(dim));
  }
  // What is added lies side by side, or is brought there: [kept before, added, kept behind].
  const auto first = std::find(added.begin(), added.end(), true);
  const auto last = std::find(added.rbegin(), added.rend(), true).base();
  int64_t outer = 1, inner = 1;
  at::Tensor x = given;
  if (std::find(first, last, false) == last) {
    for (auto it = added.begin(); it != first; ++it) outer *= given.size(it - added.begin());
    for (auto it = last; it < added.end(); ++it) inner *= given.size(it - added.begin());
  } else {
    order = kept;
    for (int64_t dim = 0; dim < rank; ++dim) {
      if (added[static_cast<size_t>(dim)]) order.push_back(dim);
    }
    for (const int64_t dim : kept) outer *= given.size(dim);
    x = given.permute(order);
  }
  x = x.contiguous();
  at::Tensor out = at::detail::empty_cpu(kept_sizes, given.scalar_type());
  if (out.numel() == 0) return out;
  if (given.scalar_type() == at::kDouble) {
    sum_middle<double>(x, outer, size, inner, out);
  } else {
    sum_middle<float>(x, outer, size, inner, out);
  }
  return out;
}

bool has_kernel(const at::Tensor& x) {
  return x.is_cpu() && x.layout() == at::kStrided &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
}

/// In the type of the result; none: whole numbers, which libtorch adds.
std::optional<at::Tensor> converted(const at::Tensor& x, OptionalType type) {
  const at::ScalarType wanted = type.value_or(x.scalar_type());
  if (!x.is_cpu() || (at::isIntegralType(wanted, true) && !x.is_floating_point())) {
    return std::nullopt;
  }
  at::Tensor y = wanted == x.scalar_type() ? x : x.to(wanted);
  if (!has_kernel(y)) refuse_operator("aten::sum");
  return y;
}

at::Tensor sum(c10::DispatchKeySet keys, const at::Tensor& x, OptionalType type) {
  if (const auto y = converted(x, type)) return sum_over(*y, at::OptionalIntArrayRef(), false);
  return at::_ops::sum::redispatch(keys & kBelowPortableKey, x, type);
}

at::Tensor sum_dims(c10::DispatchKeySet keys, const at::Tensor& x, at::OptionalIntArrayRef dims,
                    bool keepdim, OptionalType type) {
  if (const auto y = converted(x, type)) return sum_over(*y, dims, keepdim);
  return at::_ops::sum_dim_IntList::redispatch(keys & kBelowPortableKey, x, dims, keepdim, type);
}

at::Tensor& sum_dims_out(const at::Tensor& x, at::OptionalIntArrayRef dims, bool keepdim,
                         OptionalType type, at::Tensor& out) {
  const at::Tensor result = at::_ops::sum_dim_IntList::call(x, dims, keepdim, type);
  return out.resize_(result.sizes()).copy_(result);
}

at::Tensor mean_dims(const at::Tensor& x, at::OptionalIntArrayRef dims, bool keepdim,
                     OptionalType type) {
  const at::Tensor total = at::_ops::sum_dim_IntList::call(x, dims, keepdim, type);
  const int64_t count = total.numel() == 0 ? 1 : x.numel() / total.numel();
  return total.div(at::scalar_to_tensor(count).to(total.scalar_type()));
}

at::Tensor mean(const at::Tensor& x, OptionalType type) {
  return mean_dims(x, at::OptionalIntArrayRef(), false, type);
}

at::Tensor& mean_out(const at::Tensor& x, at::OptionalIntArrayRef dims, bool keepdim,
                     OptionalType type, at::Tensor& out) {
  const at::Tensor result = mean_dims(x, dims, keepdim, type);
  return out.resize_(result.sizes()).copy_(result);
}

}  // namespace

void register_sums(torch::Library& library) {
  library.impl("sum", TORCH_FN(sum));
  library.impl("sum.dim_IntList", TORCH_FN(sum_dims));
  library.impl("sum.IntList_out", TORCH_FN(sum_dims_out));
  library.impl("mean", TORCH_FN(mean));
  library.impl("mean.dim", TORCH_FN(mean_dims));
  library.impl("mean.out", TORCH_FN(mean_out));
}

}  // namespace portable
}  // namespace strata::kernels
