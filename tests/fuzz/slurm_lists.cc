// SLURM's short forms of lists.
#include "fuzz/fuzz_target.h"
#include "strata/cluster/resolvers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::cluster;
  std::string text(strata::fuzz::text_of(data, size));
  if (!strata::fuzz::one_in_64(data, size)) text = strata::fuzz::with_few_hosts(text);
  (void)strata::fuzz::takes([&] {
    if (size % 4 == 0) {
      (void)expand_tasks_per_node(text);
    } else {
      (void)expand_host_list(text);
    }
  });
  return 0;
}
