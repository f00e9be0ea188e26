#include "runtime/parameter_store.h"

#include <ATen/ops/zeros.h>

namespace strata {

ParameterStore::~ParameterStore() = default;
ParameterStore::Table::~Table() = default;

at::Tensor ParameterStore::make_buffer(int64_t elements, c10::ScalarType dtype) {
  return at::zeros({elements}, at::TensorOptions().dtype(dtype));
}

}  // namespace strata
