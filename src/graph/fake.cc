// Tensors of a trace: sizes, strides and a dtype, but no elements.
#include "graph/fake.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/strides.h>

#include <string_view>

namespace strata::graph {
namespace {

constexpr const char* kAccess =
    "[graph] the elements of a tensor were asked for while a function is traced, which computes "
    "nothing";

}  // namespace

c10::Storage make_fake_memory(int64_t bytes, c10::Device device) {
  c10::Storage memory(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes),
                      at::DataPtr(nullptr, device), /*allocator=*/nullptr, /*resizable=*/false);
  memory.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(kAccess);
  return memory;
}

at::Tensor tensor_in(const c10::Storage& memory, at::IntArrayRef sizes, at::IntArrayRef strides,
                     int64_t offset, at::ScalarType dtype) {
  const c10::DispatchKey key = c10::computeDispatchKey(dtype, at::kStrided, memory.device());
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(memory), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

int64_t extent(at::IntArrayRef sizes, at::IntArrayRef strides) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

at::Tensor fake_like(const at::Tensor& tensor) {
  const int64_t elements = extent(tensor.sizes(), tensor.strides());
  const c10::Storage memory =
      make_fake_memory(elements * static_cast<int64_t>(tensor.element_size()), tensor.device());
  return tensor_in(memory, tensor.sizes(), tensor.strides(), 0, tensor.scalar_type());
}

at::Tensor fake_contiguous(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device) {
  const auto strides = c10::contiguous_strides(sizes);
  const int64_t bytes = extent(sizes, strides) * static_cast<int64_t>(c10::elementSize(dtype));
  return tensor_in(make_fake_memory(bytes, device), sizes, strides, 0, dtype);
}

bool is_access_to_fake(const c10::Error& error) {
  return std::string_view(error.what()).find(kAccess) != std::string_view::npos;
}

}  // namespace strata::graph
