#include <cstdlib>

#include "pjrt/client.h"
#include "strata/core/error.h"
#include "strata/strategies/tpu_strategy.h"

namespace strata {
namespace {

std::string plugin_path(const TPUClusterResolverOptions& options) {
  if (!options.plugin.empty() || pjrt::Plugin::path_from_environment()) return options.plugin;
  const char* const library = std::getenv("TPU_LIBRARY_PATH");
  return library == nullptr ? "" : library;
}

}  // namespace

TPUClusterResolver::TPUClusterResolver(const TPUClusterResolverOptions& options) {
  STRATA_CHECK(options.cpu_devices >= 0, kInvalidArgument,
               "[tpu_cluster_resolver] got cpu_devices ", options.cpu_devices,
               "; expected 0 or more");
  std::vector<pjrt::ClientOption> of_client;
  if (options.cpu_devices > 0) of_client.emplace_back("cpu_device_count", options.cpu_devices);
  client_ =
      std::make_shared<const pjrt::Client>(pjrt::Plugin::open(plugin_path(options)), of_client);
}

std::string TPUClusterResolver::platform() const { return client_->platform(); }
int64_t TPUClusterResolver::num_accelerators() const { return client_->num_devices(); }

}  // namespace strata
