// Whole models in HDF5, as Keras 2 wrote them.
#include "keras_files/legacy_model.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::keras_files;
  (void)strata::fuzz::takes(
      [&] { (void)parse_legacy_model(std::as_bytes(std::span(data, size)), "input.h5"); });
  return 0;
}
