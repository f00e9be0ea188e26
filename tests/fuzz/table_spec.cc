// A table's spec as JSON, as a worker sends it: what is taken is checked, and what passes the check
// has sizes that fit.
#include <cstdint>

#include "fuzz/fuzz_target.h"
#include "strata/ps/table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::ps;
  TableSpec spec;
  if (!strata::fuzz::takes([&] {
        spec = table_from_json(strata::Json::parse(strata::fuzz::text_of(data, size)));
        check_table(spec, 2);
      })) {
    return 0;
  }
  int64_t elements = 0;
  int64_t bytes = 0;
  const bool fits = spec.is_flat()
                        ? !__builtin_mul_overflow(spec.parts.back().end, int64_t{8}, &bytes)
                        : !__builtin_mul_overflow(spec.rows, spec.width, &elements) &&
                              !__builtin_mul_overflow(elements, int64_t{8}, &bytes);
  strata::fuzz::expect(fits, "a table that passes the check has a size");
  (void)strata::fuzz::takes([&] {
    const std::string text = table_to_json(spec).dump();
    const TableSpec back = table_from_json(strata::Json::parse(text));
    strata::fuzz::expect(table_to_json(back).dump() == text, "to_json(from_json(text)) == text");
  });
  return 0;
}
