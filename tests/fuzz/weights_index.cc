// The index that Keras writes beside weights in several files; each of those has the same bytes.
#include "fuzz/fuzz_target.h"
#include "keras_files/weights_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata;
  const std::string path = fuzz::file_of(fuzz::text_of(data, size)) + ".weights.json";
  (void)fuzz::takes([&] { (void)keras_files::load_weights_file(path); });
  return 0;
}
