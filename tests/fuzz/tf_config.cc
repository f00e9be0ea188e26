// TF_CONFIG, up to the cluster that it makes.
#include "strata/cluster/resolvers.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::cluster;
  const std::string text(strata::fuzz::text_of(data, size));
  const TfConfigResolver resolver({.environment = Environment({{"TF_CONFIG", text}})});
  (void)strata::fuzz::takes([&] { (void)resolve_cluster(resolver); });
  // It reads the same text: errors take most of the time, and one in eight will do.
  if (size % 8 == 0) (void)strata::fuzz::takes([&] { (void)resolver.master(); });
  return 0;
}
