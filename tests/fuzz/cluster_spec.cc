// The spec of a cluster as JSON, as TF_CONFIG and a worker that joins have it.
#include "strata/cluster/cluster_spec.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::Json;
  using strata::cluster::ClusterSpec;
  ClusterSpec spec;
  if (!strata::fuzz::takes(
          [&] { spec = ClusterSpec::from_json(Json::parse(strata::fuzz::text_of(data, size))); })) {
    return 0;
  }
  const ClusterSpec back = ClusterSpec::from_json(spec.to_json());
  strata::fuzz::expect(back == spec, "from_json(to_json(spec)) == spec");
  strata::fuzz::expect(back.fingerprint() == spec.fingerprint(), "equal specs, equal fingerprints");
  strata::fuzz::expect(!first_difference(back, spec), "equal specs have no difference");
  (void)spec.to_string();
  return 0;
}
