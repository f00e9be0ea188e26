#include "strata/tensor/fingerprint.h"

#include "core/sha256.h"
#include "strata/core/str_cat.h"

namespace strata::tensor {

std::string fingerprint(const std::vector<at::Tensor>& tensors) {
  Sha256 hash;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor plain = tensor.detach().cpu().contiguous();
    const std::string head = str_cat(plain.scalar_type(), plain.sizes(), ";");
    hash.update(head.data(), head.size());
    hash.update(plain.const_data_ptr(), plain.nbytes());
  }
  return hash.hex_digest();
}

}  // namespace strata::tensor
