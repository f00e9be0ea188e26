// PNG images. The first byte chooses the channels.
#include "fuzz/fuzz_target.h"
#include "strata/data/image_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::data;
  static constexpr int kChannels[] = {0, 1, 3, 4};
  strata::fuzz::Input input(data, size);
  const int channels = kChannels[input.below(4)];
  const std::string_view bytes = input.rest();
  (void)strata::fuzz::takes([&] { (void)decode_png(bytes, {.channels = channels}); });
  (void)strata::fuzz::takes([&] { (void)image_info(bytes); });
  return 0;
}
