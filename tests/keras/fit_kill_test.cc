// A program that calls fit with every callback (fit_trainer_main.cc) is killed at random moments
// and started again until it ends: it ends with the same weights, optimizer, history, log, best
// checkpoint, early-stopping decision and learning rate as one that nobody disturbed.
//
// STRATA_SOAK_KILLS=200 kills as often; STRATA_SOAK_SEED=n repeats a run's choices.
#include <gtest/gtest.h>

#include <random>

#include "support/killed_program.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::Outcome;

TEST(FitKillTest, EndsWithTheBitsOfARunThatNobodyDisturbed) {
  const test::TempFolder whole_folder;
  const Outcome whole = test::run_program(STRATA_FIT_TRAINER, {whole_folder.path()});
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  ASSERT_EQ(whole.first_step(), 0);

  const int wanted = test::from_environment("STRATA_SOAK_KILLS", 20);
  const int seed = test::from_environment("STRATA_SOAK_SEED", 1);
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto draw = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  int kills = 0;
  int runs = 0;
  long resumed_from = 0;
  for (; kills < wanted; ++runs) {
    const test::TempFolder folder;
    for (int here = 0;;) {
      const std::vector<std::string> arguments = {folder.path(), std::to_string(draw(4))};
      std::optional<int> after_ms;
      if (kills < wanted && here < 6) after_ms = draw(250);
      const Outcome outcome = test::run_program(STRATA_FIT_TRAINER, arguments, after_ms);
      resumed_from += outcome.first_step();
      if (outcome.signal == SIGKILL) {
        ++kills;
        ++here;
        continue;
      }
      ASSERT_EQ(outcome.exit_code, 0) << outcome.output << " seed " << seed;
      ASSERT_EQ(outcome.sha256(), whole.sha256()) << "run " << runs << ", seed " << seed;
      break;
    }
  }
  EXPECT_GT(resumed_from, 0);  // or nothing was ever restored
  std::printf("%d kills in %d runs\n", kills, runs);
}

}  // namespace
}  // namespace strata
