// train_and_evaluate as a chief, a worker and an evaluator.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "support/process_cluster.h"
#include "support/temp_folder.h"

namespace strata::test {
namespace {

TEST(EstimatorClusterTest, WorkersWithUnequalInputsEndTogetherAndTheEvaluatorBehindThem) {
  const TempFolder folder;
  ProcessCluster cluster(STRATA_ESTIMATOR_WORKER, {"mirrored", folder.path()},
                         {{"chief", 1}, {"worker", 1}, {"evaluator", 1}});
  cluster.start();
  const auto exits = cluster.wait(std::chrono::seconds(240));
  ASSERT_EQ(exits.size(), 3);
  for (const auto& [task, exit] : exits) {
    EXPECT_TRUE(exit.in_time && exit.code == 0) << task.to_string() << ": " << exit.output;
  }
  const std::string chief = exits.at({"chief", 0}).output;
  // The chief has five batches, the worker three: its replica has no rows in the last two steps.
  EXPECT_NE(chief.find("trained to 5: "), std::string::npos) << chief;
  EXPECT_EQ(exits.at({"worker", 0}).output, chief);
  EXPECT_NE(exits.at({"evaluator", 0}).output.find("evaluated 5: "), std::string::npos)
      << exits.at({"evaluator", 0}).output;
}

}  // namespace
}  // namespace strata::test
