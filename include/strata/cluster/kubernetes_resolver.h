#pragma once

#include <map>
#include <optional>
#include <string>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/environment.h"

namespace strata::cluster {

struct KubernetesOptions {
  /// Tasks of each job. Left out: STRATA_KUBERNETES_JOBS, `worker=4,ps=2`.
  std::optional<std::map<std::string, int>> jobs = {};
  /// The headless Service that gives the pods their names. Left out: STRATA_KUBERNETES_SERVICE,
  /// else `name`, below.
  std::optional<std::string> service = {};
  /// Left out: POD_NAMESPACE; without it the pod's own search path finds the others.
  std::optional<std::string> pod_namespace = {};
  int port = 8470;  ///< the same in every pod
  std::optional<Environment> environment = {};
};

/// The cluster of pods with steady names behind a headless Service: an indexed Job (its pods'
/// JOB_COMPLETION_INDEX, `subdomain` set to the Service) or a StatefulSet (the number at the end of
/// the host name), one a job of the cluster. Only the pod's environment is read; no right to ask
/// Kubernetes is needed.
///
/// The Jobs are called `<name>-<job>`, as in `train-worker`; with one job in the cluster any name
/// will do. Task 2 of `train-worker` is `train-worker-2.<service>[.<namespace>.svc]:<port>`.
/// @throws Error (from `resolve`)  kInvalidArgument: a variable is missing or makes no sense.
/// Source: ours; TensorFlow's asks the API server, and does not say which task one is.
class STRATA_API KubernetesResolver final : public ClusterResolver {
 public:
  explicit KubernetesResolver(KubernetesOptions options = {});

 private:
  Resolution do_resolve() const override;

  KubernetesOptions options_;
};

}  // namespace strata::cluster
