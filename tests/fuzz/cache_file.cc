// A cache of elements on the disk.
#include "data/files/cache_file.h"

#include <algorithm>

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::data::detail;
  const std::string path = strata::fuzz::file_of(strata::fuzz::text_of(data, size));
  (void)strata::fuzz::takes([&] {
    const auto file = CacheFile::open(path);
    if (file == nullptr) return;
    CacheFile::Window window;
    for (int64_t i = 0; i < std::min<int64_t>(file->size(), 100); ++i) {
      (void)strata::fuzz::takes([&] { (void)file->read(i, window); });
    }
  });
  return 0;
}
