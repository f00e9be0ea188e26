// The workers of a job agree on their kernels, which decide bits in the last place.
#include <gtest/gtest.h>

#include <string>

#include "support/process_cluster.h"

namespace strata {
namespace {

using test::ProcessCluster;

/// Two workers, the second one with libtorch's products.
class WorkersKernelsTest : public testing::Test {
 protected:
  WorkersKernelsTest() : cluster_(STRATA_DEFAULTS_TRAINER, {"mlp", "1"}, {{"worker", 2}}) {
    cluster_.set_environment(cluster_.tasks()[0], "STRATA_KERNELS", "strata");
    cluster_.set_environment(cluster_.tasks()[1], "STRATA_KERNELS", "strata,relu=libtorch");
  }
  void set(size_t worker, const std::string& value) {
    cluster_.set_environment(cluster_.tasks()[worker], "STRATA_KERNELS_MISMATCH", value);
  }
  ProcessCluster cluster_;
};

TEST_F(WorkersKernelsTest, OtherOnesAreRefused) {
  set(1, "allow");  // one alone does not decide
  cluster_.start();
  for (const auto& [task, exit] : cluster_.wait(std::chrono::seconds(60))) {
    EXPECT_EQ(exit.code, 1) << exit.output;
    EXPECT_NE(exit.output.find("has the kernels '"), std::string::npos) << exit.output;
    EXPECT_NE(exit.output.find("relu=libtorch', which round otherwise; expected the same in all "
                               "workers: set STRATA_KERNELS alike"),
              std::string::npos)
        << exit.output;
  }
}

TEST_F(WorkersKernelsTest, AJobThatAllowsThemGoesOn) {
  set(0, "allow");
  set(1, "allow");
  cluster_.start();
  for (const auto& [task, exit] : cluster_.wait(std::chrono::seconds(120))) {
    EXPECT_EQ(exit.code, 0) << exit.output;
    EXPECT_NE(exit.output.find("bits depend on which worker has which replica"), std::string::npos)
        << exit.output;
    EXPECT_NE(exit.output.find("sha256 "), std::string::npos) << exit.output;
  }
}

}  // namespace
}  // namespace strata
