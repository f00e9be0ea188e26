#include "data/images/image_codec.h"

namespace strata::data {
namespace {

[[noreturn]] void fail(const char* call) {
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[data] ", call,
                      ": this strata was built without libpng; install it (Debian: "
                      "libpng-dev) and build again"));
}

}  // namespace

at::Tensor decode_png(std::string_view, const DecodeOptions&) { fail("decode_png"); }
ImageInfo detail::png_info(std::string_view, std::string_view) { fail("image_info"); }
std::string encode_png(const at::Tensor&, int) { fail("encode_png"); }

}  // namespace strata::data
