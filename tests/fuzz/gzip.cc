// Packed files: gzip and zlib. Up to 16 MiB of what they unpack to are read.
#include "data/files/byte_reader.h"
#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::data;
  const std::string path = strata::fuzz::file_of(strata::fuzz::text_of(data, size));
  for (const Compression compression :
       {Compression::kAuto, Compression::kGzip, Compression::kZlib}) {
    (void)strata::fuzz::takes([&] {
      const auto reader = strata::data::detail::open_byte_reader(path, compression);
      std::string bytes(1 << 16, '\0');
      uint64_t total = 0;
      while (total < (16u << 20)) {
        const size_t got = reader->read(bytes.data(), bytes.size());
        total += got;
        if (got < bytes.size()) break;
      }
      strata::fuzz::expect(total <= reader->size_bound(), "no more bytes than the bound says");
    });
  }
  return 0;
}
