// JPEG images, whole and reduced, of up to 65,536 values: larger ones are slow, and say nothing
// new. The first byte chooses the options.
#include "fuzz/fuzz_target.h"
#include "strata/data/image_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::data;
  strata::fuzz::Input input(data, size);
  const uint8_t choice = input.byte();
  const std::string_view bytes = input.rest();
  (void)strata::fuzz::takes([&] {
    (void)decode_jpeg(bytes, {.channels = (choice & 1) != 0   ? 3
                                          : (choice & 2) != 0 ? 1
                                                              : 0,
                              .min_height = (choice & 4) != 0 ? 8 : 0,
                              .min_width = (choice & 4) != 0 ? 8 : 0,
                              .accurate_dct = (choice & 8) != 0,
                              .fancy_upsampling = (choice & 16) != 0,
                              .strict = (choice & 32) != 0,
                              .max_values = 1 << 16});
  });
  (void)strata::fuzz::takes([&] { (void)image_info(bytes); });
  return 0;
}
