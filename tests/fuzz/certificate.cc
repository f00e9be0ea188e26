// Certificates in PEM form.
#include "wire/tls/certificates.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::wire;
  const std::string pem(strata::fuzz::text_of(data, size));
  (void)strata::fuzz::takes([&] { (void)inspect_certificate(pem); });
  // The first half against the second.
  (void)strata::fuzz::takes([&] {
    const std::string authority = pem.substr(pem.size() / 2);
    (void)verify_certificate({.certificate = pem.substr(0, pem.size() / 2), .key = pem}, authority,
                             {});
  });
  return 0;
}
