// What started this process, as its environment says: lines NAME=VALUE.
#include "strata/cluster/launcher_resolvers.h"

#include <map>

#include "cluster/wire_environment.h"
#include "fuzz/fuzz_target.h"
#include "strata/cluster/tls_environment.h"

namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

bool any_begins_with(const Variables& variables, std::string_view prefix) {
  const auto found = variables.lower_bound(prefix);
  return found != variables.end() && found->first.starts_with(prefix);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::cluster;
  Variables variables;
  std::string_view text = strata::fuzz::text_of(data, size);
  const bool whole = strata::fuzz::one_in_64(data, size);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t equals = std::min(line.find('='), line.size());
    const std::string name(line.substr(0, equals));
    // Files of the machine are not part of the input.
    if (name.find("FILE") != name.npos || name.find("CERT") != name.npos) continue;
    const std::string_view value = line.substr(std::min(equals + 1, line.size()));
    const bool list = name.find("LIST") != name.npos || name.find("PER_NODE") != name.npos;
    variables[name] = whole  ? std::string(value)
                      : list ? strata::fuzz::with_few_hosts(value)
                             : strata::fuzz::with_short_numbers(value, 2);
  }
  const bool slurm = any_begins_with(variables, "SLURM_");
  const bool mpi = any_begins_with(variables, "OMPI_") || any_begins_with(variables, "PMI_");
  const Environment environment(std::move(variables));
  if (slurm) {
    (void)strata::fuzz::takes(
        [&] { (void)resolve_cluster(SlurmResolver({.environment = environment})); });
    (void)strata::fuzz::takes(
        [&] { (void)resolve_cluster(TfSlurmResolver({.environment = environment})); });
  }
  if (mpi || slurm) {  // it asks SLURM, too
    (void)strata::fuzz::takes(
        [&] { (void)resolve_cluster(MpiResolver({.environment = environment})); });
  }
  if (!slurm && !mpi) {
    (void)strata::fuzz::takes(
        [&] { (void)resolve_cluster(KubernetesResolver({.environment = environment})); });
    (void)strata::fuzz::takes(
        [&] { (void)resolve_cluster(TorchrunResolver({.environment = environment})); });
  }
  return 0;
}
