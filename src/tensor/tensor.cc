#include "strata/tensor/tensor.h"

#include <ATen/ops/empty_like.h>

namespace strata::detail {

at::Tensor filled_like(const at::Scalar& value, const at::Tensor& tensor) {
  return at::empty_like(tensor, at::MemoryFormat::Preserve).fill_(value);
}

}  // namespace strata::detail
