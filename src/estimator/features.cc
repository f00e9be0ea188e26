#include "strata/estimator/features.h"

#include "strata/core/error.h"
#include "strata/data/texts.h"

namespace strata::estimator {

Feature text_feature(std::span<const std::string> rows) {
  return {.values = data::text_tensor(rows), .is_text = true};
}

std::string text_at(const Feature& feature, int64_t row, int64_t index) {
  const at::Tensor& values = feature.values;
  STRATA_CHECK(
      feature.is_text && values.defined() && values.scalar_type() == at::kByte && values.dim() >= 2,
      kInvalidArgument, "[estimator] text_at: got a feature that is no text; expected ",
      "is_text and uint8 [rows, ..., width]");
  const at::Tensor texts = values.cpu().contiguous().reshape({values.size(0), -1, values.size(-1)});
  STRATA_CHECK(row >= 0 && row < texts.size(0) && index >= 0 && index < texts.size(1),
               kInvalidArgument, "[estimator] text_at: got row ", row, ", index ", index,
               "; expected rows below ", texts.size(0), " and indices below ", texts.size(1));
  const int64_t width = texts.size(2);
  const auto* from = reinterpret_cast<const char*>(texts.const_data_ptr<uint8_t>()) +
                     (row * texts.size(1) + index) * width;
  const std::string_view padded(from, static_cast<size_t>(width));
  return std::string(padded.substr(0, padded.find_last_not_of('\0') + 1));
}

}  // namespace strata::estimator
