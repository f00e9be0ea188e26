#pragma once

#include <optional>
#include <string>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/environment.h"

namespace strata::cluster {

struct TfConfigOptions {
  std::optional<std::string> task_type = {};  ///< replaces TF_CONFIG's task.type
  std::optional<int> task_id = {};            ///< replaces its task.index
  std::optional<std::string> rpc_layer = {};
  std::optional<Environment> environment = {};  ///< default: the process's
};

/// The cluster that the environment variable TF_CONFIG describes, as TensorFlow, Kubeflow and
/// cloud services write it:
///
///     {"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index":
///     0}}
///
/// Not set, `{}` or without "cluster": no cluster. The index may be text ("0"), as some services
/// write it. Other members are ignored. Source:
/// tf.distribute.cluster_resolver.TFConfigClusterResolver; stricter: a member named twice, a type
/// that is no text or an index that is no number is an error.
class STRATA_API TfConfigResolver final : public ClusterResolver {
 public:
  explicit TfConfigResolver(TfConfigOptions options = {});

 private:
  Resolution do_resolve() const override;
  std::string do_master(const Resolution& resolution, const std::optional<std::string>& task_type,
                        const std::optional<int>& task_id) const override;

  TfConfigOptions options_;
};

}  // namespace strata::cluster
