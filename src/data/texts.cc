#include "strata/data/texts.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

#include "strata/core/error.h"

namespace strata::data {

at::Tensor text_tensor(std::span<const std::string> texts) {
  size_t width = 1;
  for (const std::string& text : texts) width = std::max(width, text.size());
  at::Tensor tensor =
      at::zeros({static_cast<int64_t>(texts.size()), static_cast<int64_t>(width)}, at::kByte);
  auto* to = tensor.mutable_data_ptr<uint8_t>();
  for (const std::string& text : texts) {
    std::memcpy(to, text.data(), text.size());
    to += width;
  }
  return tensor;
}

std::vector<std::string> texts_of(const at::Tensor& tensor) {
  STRATA_CHECK(tensor.defined() && tensor.scalar_type() == at::kByte && tensor.dim() > 0,
               kInvalidArgument, "[data] texts_of: got ",
               tensor.defined() ? toString(tensor.scalar_type()) : "no tensor", " of ",
               tensor.defined() ? tensor.dim() : 0,
               " dimensions; expected uint8 [..., width], as text_tensor makes it");
  const at::Tensor bytes = tensor.detach().cpu().contiguous();
  const auto width = static_cast<size_t>(bytes.size(-1));
  size_t count = 1;
  for (int64_t axis = 0; axis + 1 < bytes.dim(); ++axis) {
    count *= static_cast<size_t>(bytes.size(axis));
  }
  std::vector<std::string> texts(count);
  const auto* from = reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>());
  for (std::string& text : texts) {
    const std::string_view padded(from, width);
    text = padded.substr(0, padded.find_last_not_of('\0') + 1);
    from += width;
  }
  return texts;
}

}  // namespace strata::data
