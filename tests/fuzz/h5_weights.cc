// Keras's weights in HDF5.
#include "fuzz/fuzz_target.h"
#include "keras_files/weights_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::keras_files;
  (void)strata::fuzz::takes([&] {
    const WeightsGroup group = parse_weights(std::as_bytes(std::span(data, size)), "input.h5");
    (void)group.num_bytes();
  });
  return 0;
}
