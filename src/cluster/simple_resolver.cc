#include "strata/cluster/resolvers.h"

#include "cluster/master_url.h"

namespace strata::cluster {

SimpleResolver::SimpleResolver(ClusterSpec spec, SimpleOptions options)
    : spec_(std::move(spec)), options_(std::move(options)) {}

Resolution SimpleResolver::do_resolve() const {
  Resolution resolution;
  resolution.spec = spec_;
  resolution.task_type = options_.task_type;
  resolution.task_id = options_.task_id;
  resolution.rpc_layer = options_.rpc_layer;
  resolution.num_accelerators = options_.num_accelerators;
  return resolution;
}

// As TensorFlow's: its own task does not stand in for one that is not named.
std::string SimpleResolver::do_master(const Resolution& resolution,
                                      const std::optional<std::string>& task_type,
                                      const std::optional<int>& task_id) const {
  const bool named = task_type && task_id;
  return with_rpc_layer(resolution.rpc_layer,
                        named ? spec_.task_address(*task_type, *task_id) : options_.master);
}

}  // namespace strata::cluster
