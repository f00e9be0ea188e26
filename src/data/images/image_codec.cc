#include "data/images/image_codec.h"

#include "strata/core/file_system.h"

namespace strata::data {
namespace {

bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xFF\xD8\xFF"); }
bool is_png(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1A\n"); }

[[noreturn]] void fail_unknown(const char* call, std::string_view bytes, std::string_view name) {
  const auto is = [&](const char* start) { return bytes.starts_with(start); };
  const char* got = bytes.empty()           ? "no bytes"
                    : is("GIF8")            ? "a GIF"
                    : is("BM")              ? "a BMP"
                    : is("RIFF")            ? "a WebP"
                    : is("II*") || is("MM") ? "a TIFF"
                    : std::string_view("\x89PNG\r\n\x1A\n").starts_with(bytes)
                        ? "the beginning of a PNG"
                        : "bytes of an unknown format";
  throw Error(ErrorCode::kDataLoss,
              str_cat(detail::where(call, name, 0), "got ", got, "; expected a JPEG or a PNG"));
}

}  // namespace

at::Tensor decode_image(std::string_view bytes, const DecodeOptions& options) {
  if (is_jpeg(bytes)) return decode_jpeg(bytes, options);
  if (is_png(bytes)) return decode_png(bytes, options);
  fail_unknown("decode_image", bytes, options.name);
}

at::Tensor load_image(const std::string& path, DecodeOptions options) {
  const std::string bytes = read_file(path);
  options.name = path;
  return decode_image(bytes, options);
}

ImageInfo image_info(std::string_view bytes, std::string_view name) {
  if (is_jpeg(bytes)) return detail::jpeg_info(bytes, name);
  if (is_png(bytes)) return detail::png_info(bytes, name);
  fail_unknown("image_info", bytes, name);
}

at::Tensor detail::image_to_encode(const char* call, const at::Tensor& image,
                                   int64_t max_channels) {
  STRATA_CHECK(image.defined() && image.scalar_type() == at::kByte && image.dim() == 3,
               kInvalidArgument, "[data] ", call, ": got ",
               image.defined() ? str_cat(image.scalar_type(), " of shape ", image.sizes())
                               : std::string("an undefined tensor"),
               "; expected Byte of shape [height, width, channels]");
  const int64_t channels = image.size(2);
  STRATA_CHECK(image.numel() > 0 && channels <= max_channels && (max_channels > 3 || channels != 2),
               kInvalidArgument, "[data] ", call, ": got shape ", image.sizes(),
               "; expected at least one pixel, and ",
               max_channels > 3 ? "1 to 4 channels" : "1 or 3 channels");
  constexpr int64_t kMaxSide = 65500;  // of a JPEG; PNGs of more pixels than that are refused too
  STRATA_CHECK(image.size(0) <= kMaxSide && image.size(1) <= kMaxSide, kInvalidArgument, "[data] ",
               call, ": got shape ", image.sizes(), "; expected at most ", kMaxSide,
               " rows and columns");
  return image.cpu().contiguous();
}

}  // namespace strata::data
