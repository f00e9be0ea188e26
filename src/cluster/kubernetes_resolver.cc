#include "strata/cluster/resolvers.h"

#include <charconv>

#include "cluster/most_tasks.h"
#include "cluster/split.h"
#include "strata/core/error.h"

namespace strata::cluster {
namespace {

std::map<std::string, int> jobs_of(const KubernetesOptions& options,
                                   const Environment& environment) {
  if (options.jobs) return *options.jobs;
  const auto text = environment.get("STRATA_KUBERNETES_JOBS");
  STRATA_CHECK(text.has_value(), kInvalidArgument,
               "[cluster] Kubernetes: got no STRATA_KUBERNETES_JOBS; set it to how many tasks each "
               "job has, as in worker=4,ps=2, in the pod's template");
  std::map<std::string, int> jobs;
  int64_t total = 0;
  for (const std::string& entry : split(*text, ',')) {
    const size_t equals = entry.find('=');
    int count = 0;
    const char* last = entry.data() + entry.size();
    const auto parsed = equals == std::string::npos
                            ? std::from_chars_result{last, std::errc::invalid_argument}
                            : std::from_chars(entry.data() + equals + 1, last, count);
    STRATA_CHECK(parsed.ec == std::errc() && parsed.ptr == last && count > 0, kInvalidArgument,
                 "[cluster] Kubernetes: got STRATA_KUBERNETES_JOBS=\"", *text, "\" with \"", entry,
                 "\"; expected numbers of tasks, worker=4,ps=2");
    total += count;
    STRATA_CHECK(total <= kMostTasks, kInvalidArgument,
                 "[cluster] Kubernetes: got STRATA_KUBERNETES_JOBS=\"", *text,
                 "\"; expected at most ", kMostTasks, " tasks");
    jobs[entry.substr(0, equals)] = count;
  }
  return jobs;
}

struct Pod {
  std::string job;  // the Kubernetes object's name: "train-worker"
  int index;
};

// "train-worker-2". An indexed Job's pods have a random part behind in their names, but not in
// their host names.
Pod pod_of(const Environment& environment) {
  const auto host = environment.get("HOSTNAME");
  STRATA_CHECK(host.has_value(), kInvalidArgument,
               "[cluster] Kubernetes: got no HOSTNAME; Kubernetes sets it in every container");
  const auto index = environment.get_number("JOB_COMPLETION_INDEX");
  const size_t dash = host->rfind('-');
  int ordinal = -1;
  if (dash != std::string::npos) {
    const char* last = host->data() + host->size();
    const auto parsed = std::from_chars(host->data() + dash + 1, last, ordinal);
    if (parsed.ec != std::errc() || parsed.ptr != last) ordinal = -1;
  }
  STRATA_CHECK(
      dash != std::string::npos && ordinal >= 0 && index.value_or(ordinal) == ordinal,
      kInvalidArgument, "[cluster] Kubernetes: got HOSTNAME=\"", *host, "\"",
      index ? str_cat(" and JOB_COMPLETION_INDEX=", *index) : std::string(),
      "; expected a name that ends in the task's index, train-worker-2: use a StatefulSet "
      "or a Job with completionMode: Indexed, without hostNetwork or a hostname of its own");
  return {host->substr(0, dash), ordinal};
}

std::string listed(const std::map<std::string, int>& jobs) {
  std::string text;
  for (const auto& [job, count] : jobs) text += str_cat(text.empty() ? "" : ",", job, "=", count);
  return text;
}

}  // namespace

KubernetesResolver::KubernetesResolver(KubernetesOptions options) : options_(std::move(options)) {}

Resolution KubernetesResolver::do_resolve() const {
  const Environment environment =
      options_.environment ? *options_.environment : Environment::of_process();
  const auto jobs = jobs_of(options_, environment);
  const Pod pod = pod_of(environment);
  Resolution resolution;
  resolution.source = "Kubernetes";
  std::string name = pod.job;
  for (const auto& job : jobs) {
    if (!pod.job.ends_with("-" + job.first)) continue;
    resolution.task_type = job.first;
    name = pod.job.substr(0, pod.job.size() - job.first.size() - 1);
  }
  const bool own_name = !resolution.task_type && jobs.size() == 1;
  if (own_name) resolution.task_type = jobs.begin()->first;
  STRATA_CHECK(resolution.task_type.has_value(), kInvalidArgument,
               "[cluster] Kubernetes: got a pod of \"", pod.job, "\" and jobs ", listed(jobs),
               "; expected a name that ends in -<job>, as in train-worker");
  resolution.task_id = pod.index;

  const std::string service =
      options_.service.value_or(environment.get("STRATA_KUBERNETES_SERVICE").value_or(name));
  const auto space =
      options_.pod_namespace ? options_.pod_namespace : environment.get("POD_NAMESPACE");
  const std::string domain = space ? str_cat(service, ".", *space, ".svc") : service;
  std::map<std::string, std::vector<std::string>> spec;
  for (const auto& [job, count] : jobs) {
    const std::string base = own_name ? pod.job : str_cat(name, "-", job);
    for (int i = 0; i < count; ++i) {
      spec[job].push_back(str_cat(base, "-", i, ".", domain, ":", options_.port));
    }
  }
  resolution.spec = ClusterSpec(spec);
  return resolution;
}

}  // namespace strata::cluster
