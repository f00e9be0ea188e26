#pragma once

#include <map>
#include <optional>
#include <string>

#include "strata/cluster/cluster_resolver.h"

namespace strata::cluster {

struct SimpleOptions {
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
  std::string rpc_layer = {};
  std::map<std::string, int> num_accelerators = {};
  std::string master = {};  ///< what `master()` returns if no task is named
};

/// A cluster that the program defines itself.
/// Source: tf.distribute.cluster_resolver.SimpleClusterResolver.
class STRATA_API SimpleResolver final : public ClusterResolver {
 public:
  explicit SimpleResolver(ClusterSpec spec, SimpleOptions options = {});

 private:
  Resolution do_resolve() const override;
  std::string do_master(const Resolution& resolution, const std::optional<std::string>& task_type,
                        const std::optional<int>& task_id) const override;

  ClusterSpec spec_;
  SimpleOptions options_;
};

}  // namespace strata::cluster
