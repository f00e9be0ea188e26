// IDX files, gzipped ones too.
#include "strata/data/mnist.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = strata::fuzz::file_of(strata::fuzz::text_of(data, size));
  (void)strata::fuzz::takes([&] { (void)strata::data::read_idx_file(path); });
  return 0;
}
