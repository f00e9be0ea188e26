// JSON: what is taken is written, and read as the same again.
#include "strata/core/json.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::Json;
  Json json;
  if (!strata::fuzz::takes([&] { json = Json::parse(strata::fuzz::text_of(data, size)); }))
    return 0;
  const std::string text = json.dump();
  strata::fuzz::expect(Json::parse(text) == json, "parse(dump(json)) == json");
  strata::fuzz::expect(Json::parse(json.dump(2)) == json, "parse(dump(json, 2)) == json");
  return 0;
}
