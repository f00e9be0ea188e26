// TFRecord files, plain or packed: with damage as an error, or passed over; the length says which.
#include "strata/data/tf_record.h"

#include "fuzz/fuzz_target.h"

namespace {

using namespace strata::data;

void read(const std::string& path, bool skip_damaged, size_t most) {
  (void)strata::fuzz::takes([&] {
    const Dataset dataset = tf_records({path}, {.skip_damaged = skip_damaged, .buffer_size = 64});
    Iterator iterator = dataset.iterator(0);
    bool more = true;
    // Behind an error the iterator goes on with the next record.
    for (size_t calls = 0; more && calls < most; ++calls) {
      (void)strata::fuzz::takes([&] { more = iterator.next().has_value(); });
    }
    strata::fuzz::expect(!more, "a file has no more records than bytes");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = strata::fuzz::file_of(strata::fuzz::text_of(data, size));
  const size_t most = 100 * size + 10;  // packed ones, too
  read(path, size % 2 == 1, most);
  return 0;
}
