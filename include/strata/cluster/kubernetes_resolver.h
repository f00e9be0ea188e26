#pragma once

#include <map>
#include <optional>
#include <string>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/environment.h"

namespace strata::cluster {

struct KubernetesOptions {
  /// Number of tasks by job. Default: STRATA_KUBERNETES_JOBS, `worker=4,ps=2`.
  std::optional<std::map<std::string, int>> jobs = {};
  /// The headless Service that gives the pods their names. Default: STRATA_KUBERNETES_SERVICE, else
  /// `name`, below.
  std::optional<std::string> service = {};
  /// Default: POD_NAMESPACE; without it the pod's own search path finds the others.
  std::optional<std::string> pod_namespace = {};
  int port = 8470;  ///< the same in every pod
  std::optional<Environment> environment = {};
};

/// A cluster of pods with stable names behind a headless Service: each job of the cluster is an
/// indexed Job (with JOB_COMPLETION_INDEX in its pods and `subdomain` set to the Service) or a
/// StatefulSet (the number at the end of the host name). Only the pod's environment is read; no
/// right to query Kubernetes is needed.
///
/// The Jobs are called `<name>-<job>`, as in `train-worker`; a cluster with one job may use any
/// name. Task 2 of `train-worker` is `train-worker-2.<service>[.<namespace>.svc]:<port>`.
/// @throws Error (from `resolve`)  kInvalidArgument: a variable is missing or malformed.
/// Source: strata; TensorFlow's resolver asks the API server, and does not find the process's own
/// task.
class STRATA_API KubernetesResolver final : public ClusterResolver {
 public:
  explicit KubernetesResolver(KubernetesOptions options = {});

 private:
  Resolution do_resolve() const override;

  KubernetesOptions options_;
};

}  // namespace strata::cluster
