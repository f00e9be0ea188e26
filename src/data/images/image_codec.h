#pragma once

#include "core/checked_size.h"
#include "strata/core/error.h"
#include "strata/data/image_codec.h"

namespace strata::data::detail {

/// "[data] decode_jpeg: cat.jpg, offset 17: "
inline std::string where(const char* call, std::string_view name, size_t offset) {
  return str_cat("[data] ", call, ": ", name, name.empty() ? "" : ", ", "offset ", offset, ": ");
}

/// An image of no more values than this may come from any number of bytes.
constexpr int64_t kHarmless = int64_t{1} << 26;

/// Before memory is asked for.
inline void check_size(const char* call, std::string_view bytes, size_t offset, int64_t height,
                       int64_t width, int64_t channels, const DecodeOptions& options) {
  const std::string_view name = options.name;
  STRATA_CHECK(height > 0 && width > 0, kDataLoss, where(call, name, offset), "got an image of ",
               height, " x ", width, "; expected at least one pixel");
  const auto values = strata::detail::checked_product({height, width, channels});
  STRATA_CHECK(values && *values < options.max_values, kResourceExhausted,
               where(call, name, offset), "got an image of ", height, " x ", width, " x ", channels,
               "; expected fewer than ", options.max_values,
               " values (DecodeOptions::max_values raises it)");
  const auto size = static_cast<int64_t>(bytes.size());
  STRATA_CHECK(*values <= kHarmless || *values / options.max_values_per_byte <= size,
               kResourceExhausted, where(call, name, offset), "got an image of ", height, " x ",
               width, " x ", channels, " in ", size, " bytes; expected at most ",
               options.max_values_per_byte,
               " values a byte (DecodeOptions::max_values_per_byte raises it)");
}

/// jpeg.cc or no_jpeg.cc.
ImageInfo jpeg_info(std::string_view bytes, std::string_view name);

/// png.cc or no_png.cc.
ImageInfo png_info(std::string_view bytes, std::string_view name);

/// Checks what both encoders need. @return the image, contiguous.
at::Tensor image_to_encode(const char* call, const at::Tensor& image, int64_t max_channels);

}  // namespace strata::data::detail
