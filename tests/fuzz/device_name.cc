// Names of devices.
#include "strata/core/device_name.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::DeviceName;
  DeviceName name;
  if (!strata::fuzz::takes([&] { name = DeviceName::parse(strata::fuzz::text_of(data, size)); })) {
    return 0;
  }
  const std::string text = name.to_string();
  if (!text.empty()) {
    strata::fuzz::expect(DeviceName::parse(text) == name, "parse(to_string(name)) == name");
  }
  strata::fuzz::expect(name.matches(name), "a name matches itself");
  (void)name.short_name();
  return 0;
}
