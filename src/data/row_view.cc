#include "data/row_view.h"

#include <ATen/ops/select.h>

namespace strata::data::detail {

at::Tensor row_view(const at::Tensor& tensor, int64_t index) {
  // What is not a plain tensor of its own backend, the dispatcher knows better.
  if (tensor.requires_grad() || tensor.layout() != at::kStrided || tensor.is_inference() ||
      tensor.is_quantized() || tensor.is_conj() || tensor.is_neg())
    return at::select(tensor, 0, index);
  at::Tensor row = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype());
  c10::TensorImpl* impl = row.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes().slice(1), tensor.strides().slice(1),
                              tensor.storage_offset() + index * tensor.stride(0));
  impl->set_version_counter(tensor.unsafeGetTensorImpl()->version_counter());
  return row;
}

}  // namespace strata::data::detail
