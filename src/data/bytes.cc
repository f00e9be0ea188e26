#include "strata/data/example.h"

#include <cstring>

#include "data/bytes.h"
#include "strata/core/error.h"

namespace strata::data {

at::Tensor bytes_tensor(std::string_view bytes) {
  at::Tensor tensor = detail::empty_tensor({static_cast<int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string_view bytes_of(const at::Tensor& tensor) {
  STRATA_CHECK(tensor.defined() && tensor.scalar_type() == at::kByte && tensor.dim() == 1 &&
                   tensor.is_cpu() && tensor.is_contiguous(),
               kInvalidArgument, "[data] bytes_of: got ",
               tensor.defined() ? str_cat(tensor.scalar_type(), " of shape ", tensor.sizes())
                                : std::string("an undefined tensor"),
               "; expected the bytes of a string, contiguous Byte of shape [length] on the CPU");
  return {static_cast<const char*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.numel())};
}

std::string to_string(const at::Tensor& tensor) { return std::string(bytes_of(tensor)); }

}  // namespace strata::data
