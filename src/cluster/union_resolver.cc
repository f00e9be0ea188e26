#include "strata/cluster/resolvers.h"

#include <set>

#include "cluster/master_url.h"
#include "strata/core/error.h"

namespace strata::cluster {
namespace {

bool dense(const ClusterSpec& spec, const std::string& job) {
  const auto indices = spec.task_indices(job);
  return !indices.empty() && indices.back() + 1 == static_cast<int>(indices.size());
}

ClusterSpec merged(const std::vector<ClusterSpec>& specs) {
  std::set<std::string> sparse;
  for (const ClusterSpec& spec : specs) {
    for (const std::string& job : spec.jobs()) {
      if (!dense(spec, job)) sparse.insert(job);
    }
  }
  std::map<std::string, ClusterSpec::Tasks> jobs;
  for (const ClusterSpec& spec : specs) {
    for (const std::string& job : spec.jobs()) {
      ClusterSpec::Tasks& tasks = jobs[job];
      const int first = sparse.contains(job) ? 0 : static_cast<int>(tasks.size());
      for (const int index : spec.task_indices(job)) {
        const auto [found, fresh] = tasks.emplace(first + index, spec.task_address(job, index));
        STRATA_CHECK(fresh, kInvalidArgument, "[cluster] UnionResolver: got two tasks ", index,
                     " of \"", job, "\", ", found->second, " and ", spec.task_address(job, index),
                     "; indices of a sparse job may come once");
      }
    }
  }
  return ClusterSpec::sparse(std::move(jobs));
}

}  // namespace

UnionResolver::UnionResolver(std::vector<std::shared_ptr<const ClusterResolver>> resolvers,
                             UnionOptions options)
    : resolvers_(std::move(resolvers)), options_(std::move(options)) {
  STRATA_CHECK(!resolvers_.empty(), kInvalidArgument,
               "[cluster] UnionResolver: got no resolver; expected one at least");
}

Resolution UnionResolver::do_resolve() const {
  Resolution resolution = resolvers_.front()->resolve();
  std::vector<ClusterSpec> specs = {resolution.spec};
  for (size_t i = 1; i < resolvers_.size(); ++i) specs.push_back(resolvers_[i]->cluster_spec());
  resolution.spec = merged(specs);
  if (options_.task_type) resolution.task_type = options_.task_type;
  if (options_.task_id) resolution.task_id = options_.task_id;
  if (options_.rpc_layer) resolution.rpc_layer = *options_.rpc_layer;
  resolution.session_master.reset();  // the first resolver's own business: do_master asks it
  return resolution;
}

std::string UnionResolver::do_master(const Resolution& resolution,
                                     const std::optional<std::string>& task_type,
                                     const std::optional<int>& task_id) const {
  if (!task_type || !task_id) return resolvers_.front()->master();
  return with_rpc_layer(options_.rpc_layer.value_or(""),
                        resolution.spec.task_address(*task_type, *task_id));
}

}  // namespace strata::cluster
