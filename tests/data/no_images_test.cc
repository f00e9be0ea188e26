#include <ATen/core/Tensor.h>

#include "data/elements.h"
#include "strata/data/image_codec.h"

namespace strata::data {
namespace {

TEST(NoImagesTest, SaysWhatIsMissing) {
  const std::string jpeg = "\xFF\xD8\xFF and so on", png = "\x89PNG\r\n\x1A\n and so on";
  const auto fails = [](const std::string& part, const std::function<void()>& call) {
    expect_error(ErrorCode::kUnimplemented, {part}, call);
  };
  fails("without libjpeg; install it (Debian: libjpeg-dev)", [&] { (void)decode_image(jpeg); });
  fails("without libjpeg", [&] { (void)image_info(jpeg); });
  fails("without libjpeg", [] { (void)encode_jpeg({}); });
  fails("without libpng; install it (Debian: libpng-dev)", [&] { (void)decode_image(png); });
  fails("without libpng", [&] { (void)image_info(png); });
  fails("without libpng", [] { (void)encode_png({}); });
}

}  // namespace
}  // namespace strata::data
