#include "ps/tables/request_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include "core/nontemporal_copy.h"

namespace strata::ps {

RequestMemory::RequestMemory()
    : pool_(std::make_shared<BufferPool>([this](size_t bytes) { return fresh_block(bytes); })) {}

BufferPool::Block RequestMemory::fresh_block(size_t bytes) {
  BufferPool::Block block = shared_ ? segments_.take(bytes) : nullptr;
  if (block) return block;
  return {new std::byte[bytes], std::default_delete<std::byte[]>()};
}

at::Tensor RequestMemory::make_tensor(at::IntArrayRef sizes, c10::ScalarType dtype) {
  const at::TensorOptions options = at::TensorOptions().dtype(dtype);
  if (!shared_) return at::empty(sizes, options);
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(dtype);
  auto buffer = std::make_shared<BufferPool::Buffer>(pool_->take(bytes));
  return at::from_blob(
      buffer->data(), sizes, [buffer, pool = pool_](void*) mutable { buffer.reset(); }, options);
}

at::Tensor RequestMemory::within_reach(const at::Tensor& tensor) {
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  if (!shared_ || segments_.find({data, tensor.nbytes()})) return tensor;
  at::Tensor copy = make_tensor(tensor.sizes(), tensor.scalar_type());
  strata::detail::nontemporal_copy(static_cast<std::byte*>(copy.mutable_data_ptr()), data,
                                   static_cast<int64_t>(tensor.nbytes()));
  strata::detail::nontemporal_fence();
  return copy;
}

at::Tensor RequestMemory::make_buffer(int64_t elements, c10::ScalarType dtype) {
  const at::TensorOptions options = at::TensorOptions().dtype(dtype);
  const size_t bytes = static_cast<size_t>(elements) * c10::elementSize(dtype);
  const auto block = shared_ ? segments_.take(bytes) : nullptr;
  if (!block) return at::zeros({elements}, options);
  return at::from_blob(
      block.get(), {elements}, [block](void*) {}, options);
}

}  // namespace strata::ps
