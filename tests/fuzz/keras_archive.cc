// .keras archives: zip, JSON, and HDF5 in it.
#include "keras_files/keras_archive.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::keras_files;
  (void)strata::fuzz::takes(
      [&] { (void)parse_keras_archive(std::as_bytes(std::span(data, size)), "input.keras"); });
  return 0;
}
