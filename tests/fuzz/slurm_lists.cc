// SLURM's short forms of lists.
#include "fuzz/fuzz_target.h"
#include "strata/cluster/slurm_resolver.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::cluster;
  const std::string_view text = strata::fuzz::text_of(data, size);
  (void)strata::fuzz::takes([&] { (void)expand_host_list(text); });
  (void)strata::fuzz::takes([&] { (void)expand_tasks_per_node(text); });
  return 0;
}
