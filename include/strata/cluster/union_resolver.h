#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/cluster/cluster_resolver.h"

namespace strata::cluster {

struct UnionOptions {
  /// replaces the first resolver's; the others likewise
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
  std::optional<std::string> rpc_layer = {};
};

/// Unites the jobs of several clusters. If several have the same job, its lists are concatenated;
/// if one of them is sparse, indices are kept, and no index may occur twice. Task, rpc layer,
/// accelerators and master are the first resolver's.
/// Source: tf.distribute.cluster_resolver.UnionResolver, which ignores a task_id of 0 given here.
class STRATA_API UnionResolver final : public ClusterResolver {
 public:
  /// @throws Error  kInvalidArgument: no resolver.
  explicit UnionResolver(std::vector<std::shared_ptr<const ClusterResolver>> resolvers,
                         UnionOptions options = {});

 private:
  Resolution do_resolve() const override;
  std::string do_master(const Resolution& resolution, const std::optional<std::string>& task_type,
                        const std::optional<int>& task_id) const override;

  std::vector<std::shared_ptr<const ClusterResolver>> resolvers_;
  UnionOptions options_;
};

}  // namespace strata::cluster
