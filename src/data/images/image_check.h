#pragma once

#include <ATen/core/Tensor.h>

#include "strata/core/error.h"

namespace strata::data::detail {

struct ImageSizes {
  int64_t count;  ///< of images
  int64_t height;
  int64_t width;
  int64_t channels;
};

/// @throws Error kInvalidArgument: not an image, nor a batch of images.
inline ImageSizes check_image(const char* call, const at::Tensor& image) {
  const bool good = image.defined() && (image.dim() == 3 || image.dim() == 4) && image.is_cpu() &&
                    (image.scalar_type() == at::kByte || image.scalar_type() == at::kFloat) &&
                    image.numel() > 0;
  STRATA_CHECK(good, kInvalidArgument, "[data] ", call, ": got ",
               image.defined() ? str_cat(image.scalar_type(), " of shape ", image.sizes(), " on ",
                                         image.device())
                               : std::string("an undefined tensor"),
               "; expected Byte or Float of shape [height, width, channels] or [n, height, width, "
               "channels] on the CPU, none of them 0");
  return {image.dim() == 4 ? image.size(0) : 1, image.size(-3), image.size(-2), image.size(-1)};
}

}  // namespace strata::data::detail
