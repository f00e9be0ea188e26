// Names in a folder that others may write to: whose unfinished files they are.
#include "core/scratch.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata;
  const auto scratch = detail::parse_scratch_name(fuzz::text_of(data, size));
  if (!scratch) return 0;
  const auto again =
      detail::parse_scratch_name(detail::make_scratch_name(scratch->kind, scratch->name));
  fuzz::expect(again && again->kind == scratch->kind && again->name == scratch->name,
               "parse(make(parse(text))) == parse(text)");
  return 0;
}
