#pragma once

#include <gtest/gtest.h>

#include <string>

#include "strata/cluster/cluster_spec.h"
#include "support/process_cluster.h"

namespace strata::test {

inline void expect_good(const ProcessCluster::Exit& exit, const cluster::TaskId& task) {
  EXPECT_TRUE(exit.in_time && exit.code == 0) << task.to_string() << ": " << exit.output;
}

/// What a trainer printed of its weights.
inline std::string sha_of(const std::string& output) {
  const size_t at = output.find("sha256 ");
  return at == std::string::npos ? "none: " + output : output.substr(at, 7 + 64);
}

}  // namespace strata::test
