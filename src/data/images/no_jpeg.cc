#include "data/images/image_codec.h"

namespace strata::data {
namespace {

[[noreturn]] void throw_no_jpeg(const char* call) {
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[data] ", call,
                      ": this strata was built without libjpeg; install it (Debian: "
                      "libjpeg-dev) and build again"));
}

}  // namespace

at::Tensor decode_jpeg(std::string_view, const DecodeOptions&) { throw_no_jpeg("decode_jpeg"); }
ImageInfo detail::jpeg_info(std::string_view, std::string_view) { throw_no_jpeg("image_info"); }
std::string encode_jpeg(const at::Tensor&, const JpegOptions&) { throw_no_jpeg("encode_jpeg"); }

}  // namespace strata::data
