// Over UCX; only where this build has it.
#include <gtest/gtest.h>

#include "ps/coordinator_processes.h"

namespace strata::test {
namespace {

TEST(CoordinatorUcxTest, AllWorkAndEndWell) {
  auto cluster = coordinator_processes({"run", "200", "0", "2"}, 2);
  set_all(cluster, "STRATA_WIRE", "ucx");
  cluster.start();
  for (const auto& [task, exit] : cluster.wait()) expect_done(exit, task);
}

}  // namespace
}  // namespace strata::test
