#pragma once

#include "strata/core/error.h"
#include "strata/data/image_codec.h"

namespace strata::data::detail {

/// Images of this many values or more are refused, before memory is asked for.
inline constexpr int64_t kMaxImageValues = int64_t{1} << 29;

/// "[data] decode_jpeg: cat.jpg, offset 17: "
inline std::string where(const char* call, std::string_view name, size_t offset) {
  return str_cat("[data] ", call, ": ", name, name.empty() ? "" : ", ", "offset ", offset, ": ");
}

inline void check_size(const char* call, std::string_view name, size_t offset, int64_t height,
                       int64_t width, int64_t channels) {
  STRATA_CHECK(height > 0 && width > 0 && height * width < kMaxImageValues / channels, kDataLoss,
               where(call, name, offset), "got an image of ", height, " x ", width, " x ", channels,
               "; expected fewer than 2^29 values");
}

/// jpeg.cc or no_jpeg.cc.
ImageInfo jpeg_info(std::string_view bytes, std::string_view name);

/// png.cc or no_png.cc.
ImageInfo png_info(std::string_view bytes, std::string_view name);

/// Checks what both encoders need. @return the image, contiguous.
at::Tensor image_to_encode(const char* call, const at::Tensor& image, int64_t max_channels);

}  // namespace strata::data::detail
