// A worker that waits in a step says for whom, after the first 5 s.
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "multi_worker/spread.h"
#include "support/log_lines.h"

namespace strata {
namespace {

TEST(LongWaitsTest, InACallTheRankThatIsLateIsNamed) {
  test::LogLines lines;
  std::string line;
  MultiWorkerMirroredOptions options;
  options.communication_options.implementation = "WIRE";
  test::run_well(
      {1, 1},
      [&](Strategy& strategy, int worker) {
        strategy.run([&] {
          if (worker == 1) line = lines.await({"[collective] waits for /job:worker/task:1"});
          (void)get_replica_context()->all_reduce(ReduceOp::kSum, at::ones({10}));
        });
      },
      options);
  EXPECT_NE(line.find("worker-1"), std::string::npos) << line;
  EXPECT_NE(line.find("5 of "), std::string::npos) << line;
}

}  // namespace
}  // namespace strata
