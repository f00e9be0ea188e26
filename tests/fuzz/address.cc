// Addresses of tasks.
#include "wire/address.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::wire::Address;
  Address address;
  if (!strata::fuzz::takes([&] { address = Address::parse(strata::fuzz::text_of(data, size)); })) {
    return 0;
  }
  strata::fuzz::expect(Address::parse(address.to_string()) == address,
                       "parse(to_string(address)) == address");
  return 0;
}
