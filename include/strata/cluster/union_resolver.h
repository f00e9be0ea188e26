#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/cluster/cluster_resolver.h"

namespace strata::cluster {

struct UnionOptions {
  std::optional<std::string> task_type = {};  ///< instead of the first resolver's, as the others
  std::optional<int> task_id = {};
  std::optional<std::string> rpc_layer = {};
};

/// The jobs of several clusters as one. A job that several have: lists are put one behind the
/// other; if one of them is sparse, indices are kept, and none may come twice. Task, rpc layer,
/// accelerators and master are the first resolver's.
/// Source: tf.distribute.cluster_resolver.UnionResolver; there a task_id of 0 given here is passed
/// over.
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
