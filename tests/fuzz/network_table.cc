// A network's table of layers, which `strata simulate` reads from a file.
#include "simulate/network_table.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::simulate::NetworkTable;
  NetworkTable table;
  const std::string text(strata::fuzz::text_of(data, size));
  if (!strata::fuzz::takes([&] { table = NetworkTable::from_json(text); })) return 0;
  const std::string written = table.to_json().dump();
  strata::fuzz::expect(NetworkTable::from_json(written).to_json().dump() == written,
                       "to_json(from_json(text)) == text");
  strata::fuzz::expect(table.bytes() > 0 && table.step_seconds() > 0, "a step of variables");
  return 0;
}
