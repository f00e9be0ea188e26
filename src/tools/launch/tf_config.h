#pragma once

#include <string>

#include "strata/cluster/cluster_spec.h"

namespace strata::tools {

/// The environment variable TF_CONFIG of one task.
std::string tf_config(const cluster::ClusterSpec& spec, const cluster::TaskId& task);

}  // namespace strata::tools
