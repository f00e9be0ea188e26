#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/cluster/cluster_spec.h"

namespace strata::tools {

/// All tasks of jobs with so many each: `worker=4,ps=2`, also written `worker:4,ps:2`.
/// @param where  For messages: "[strata certs] --tasks".
/// @throws Error  kInvalidArgument: quotes the part that is wrong.
std::vector<cluster::TaskId> parse_task_list(std::string_view text, std::string_view where);

}  // namespace strata::tools
