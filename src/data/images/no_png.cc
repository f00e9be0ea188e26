#include "data/images/image_codec.h"

namespace strata::data {
namespace {

[[noreturn]] void throw_no_png(const char* call) {
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[data] ", call,
                      ": this strata was built without libpng; install it (Debian: "
                      "libpng-dev) and build again"));
}

}  // namespace

at::Tensor decode_png(std::string_view, const DecodeOptions&) { throw_no_png("decode_png"); }
ImageInfo detail::png_info(std::string_view, std::string_view) { throw_no_png("image_info"); }
std::string encode_png(const at::Tensor&, int) { throw_no_png("encode_png"); }

}  // namespace strata::data
