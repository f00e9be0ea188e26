// TensorBoard's event files: an event by itself, and a file of records.
#include "summary/event_decoder.h"

#include "fuzz/fuzz_target.h"
#include "strata/summary/event_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::summary;
  const std::string_view bytes = strata::fuzz::text_of(data, size);
  (void)strata::fuzz::takes([&] {
    const Event event = detail::decode_event(bytes);
    (void)scalars_of({event});
  });
  (void)strata::fuzz::takes([&] {
    EventReader reader(strata::fuzz::file_of(bytes));
    std::vector<Event> events;
    for (Event event; reader.next(event);) events.push_back(event);
    (void)scalars_of(events);
    strata::fuzz::expect(reader.cut_bytes() <= bytes.size(), "no more is cut than there is");
  });
  return 0;
}
