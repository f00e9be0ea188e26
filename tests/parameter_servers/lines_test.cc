// Parameter servers and workers on hosts of their own with shaped lines: how near steps come to
// what the lines carry, and what a slow worker means to the others. The figures that count are
// those of `strata bench network`; here the machine is busy and the time short.
#include <gtest/gtest.h>

#include <string>

#include "suites/ps_link_model.h"
#include "support/temp_folder.h"

namespace strata::bench {
namespace {

constexpr double kLine = 1e8;  // bits a second

class LinesTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = NetworkTestbed::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }

  void expect_the_law(const PsLinkModel::Hosts& hosts) {
    constexpr int64_t kBytes = 2'000'000;
    PsLinkModel lines(STRATA_BENCH_PROGRAM, hosts, folder_.path());
    const double law = lines.law(kBytes);
    const double step = step_of(lines.run({.bytes = kBytes, .seconds = 4 * law}), hosts.workers);
    EXPECT_LT(step, 1.3 * law) << law;
    // Behind a pause a line lets 256 kB through at once.
    EXPECT_GT(step, 0.8 * lines.shortest(kBytes)) << law;
  }

  const test::TempFolder folder_;
};

TEST_F(LinesTest, AStepTakesWhatItsBytesTakeOnTheLines) { expect_the_law({4, 4, kLine, kLine}); }

// 2 S / (p B): with a fast line of its own a worker finds all servers' lines free at once.
TEST_F(LinesTest, AWorkerUsesTheLinesOfAllServersAtOnce) {
  expect_the_law({1, 4, 4 * kLine, kLine});
}

TEST_F(LinesTest, ASlowWorkerDoesNotKeepTheOthers) {
  PsLinkModel lines(STRATA_BENCH_PROGRAM, {4, 4, kLine, kLine}, folder_.path());
  PsTraining training = {.bytes = 1'000'000, .compute = 0.1, .seconds = 1.5};
  const double alike = step_of(lines.run(training), 3);
  training.slow = 5;
  EXPECT_LT(step_of(lines.run(training), 3), 1.2 * alike) << alike;
  // Where workers wait for each other it does: this test could tell.
  training.consistency = "synchronous";
  EXPECT_GT(step_of(lines.run(training), 3), 1.5 * alike) << alike;
}

}  // namespace
}  // namespace strata::bench
