// Where an iterator was, as a checkpoint holds it.
#include "strata/data/iterator.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::data::Position;
  Position position;
  if (!strata::fuzz::takes(
          [&] { position = Position::from_string(strata::fuzz::text_of(data, size)); })) {
    return 0;
  }
  strata::fuzz::expect(Position::from_string(position.to_string()) == position,
                       "from_string(to_string(position)) == position");
  return 0;
}
