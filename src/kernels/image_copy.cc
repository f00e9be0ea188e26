// aten::clone where it makes planes of images with channels last, or the reverse: libtorch's copy
// takes single floats from far apart. Reshape and contiguous() come here too.
#include <ATen/core/Tensor.h>
#include <ATen/ops/clone_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "core/cpu_isa.h"
#include "kernels/dispatch_key.h"
#include "kernels/kernel_threads.h"
#include "kernels/plane_kernels.h"
#include "kernels/products.h"
#include "kernels/registration.h"

namespace strata::kernels {

const PlaneKernels& plane_kernels() { return STRATA_KERNELS_FOR(best_cpu_isa(), plane_kernels); }

namespace {

/// In memory [images][rows][columns]; by its sizes [images, columns..., rows...].
struct Transposed {
  int64_t images;
  int64_t rows;
  int64_t columns;
};

/// Whether the dimensions from `dim` to `end` lie in one piece whose elements are `stride` apart.
/// @return its size; 0: no.
int64_t size_of_piece(const at::Tensor& x, int64_t dim, int64_t end, int64_t stride) {
  int64_t size = 1;
  for (int64_t i = end - 1; i >= dim; --i) {
    if (x.size(i) != 1 && x.stride(i) != size * stride) return 0;
    size *= x.size(i);
  }
  return size;
}

std::optional<Transposed> transposed_images(const at::Tensor& x) {
  constexpr int64_t kLeast = 4;  // below, runs in memory are too short to gain anything
  if (!runs_here(KernelClass::kImageCopy) || !is_cpu_float(x) || x.dim() < 3 || x.dim() > 5 ||
      x.numel() == 0)
    return std::nullopt;
  const int64_t image = x.numel() / x.size(0);
  if (x.size(0) != 1 && x.stride(0) != image) return std::nullopt;
  for (int64_t split = 2; split < x.dim(); ++split) {
    const int64_t columns = size_of_piece(x, 1, split, 1);
    if (columns < kLeast) continue;
    const int64_t rows = size_of_piece(x, split, x.dim(), columns);
    if (rows >= kLeast) return Transposed{x.size(0), rows, columns};
  }
  return std::nullopt;
}

at::Tensor clone(c10::DispatchKeySet keys, const at::Tensor& x,
                 std::optional<at::MemoryFormat> memory_format) {
  const bool plain =
      memory_format == at::MemoryFormat::Contiguous && !x.is_neg() && !x._is_zerotensor();
  const auto images = plain ? transposed_images(x) : std::nullopt;
  if (!images) return at::_ops::clone::redispatch(keys & kBelowReplicaKey, x, memory_format);
  at::Tensor result = empty_float(x.sizes());
  const float* const from = x.const_data_ptr<float>();
  float* const to = result.mutable_data_ptr<float>();
  const int64_t image = images->rows * images->columns;
  parallel_for(0, images->images, std::max<int64_t>(1, kPartElements / image),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   plane_kernels().transpose(from + i * image, images->rows, images->columns,
                                             to + i * image);
                 }
               });
  return result;
}

}  // namespace

void register_image_copy(torch::Library& library) { library.impl("clone", TORCH_FN(clone)); }

}  // namespace strata::kernels
