// A training run (trainer_main.cc) is killed at random moments, during saving too, and started
// again until it ends: it ends with the same SHA-256 of weights, slots, statistics and history as a
// run that nobody disturbed. Resumed with other permits, storage and kinds of saving.
//
// STRATA_SOAK_KILLS=300 kills as often; STRATA_SOAK_SEED=n repeats a run's choices.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/object_store/object_file_system.h"
#include "object_store/store_server.h"
#include "support/killed_program.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::from_environment;
using test::Outcome;

Outcome run_trainer(const std::vector<std::string>& arguments,
                    std::optional<int> after_ms = std::nullopt, int signal = SIGKILL) {
  return test::run_program(STRATA_TRAINER, arguments, after_ms, signal);
}

const std::string& undisturbed() {
  static const std::string digest = [] {
    const test::TempFolder folder;
    const Outcome outcome = run_trainer({folder.path() + "/run"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_EQ(outcome.first_step(), 0);
    return outcome.sha256();
  }();
  return digest;
}

TEST(KillTest, EndsWithTheBitsOfARunThatNobodyDisturbed) {
  const int wanted = from_environment("STRATA_SOAK_KILLS", 20);
  const int seed = from_environment("STRATA_SOAK_SEED", 1);
  RecordProperty("seed", seed);
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto draw = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  int kills = 0;
  int while_saving = 0;
  int runs = 0;
  long resumed_from = 0;
  for (; kills < wanted; ++runs) {
    const test::TempFolder folder;
    for (int here = 0;;) {
      std::vector<std::string> arguments = {folder.path() + "/run",
                                            "--permits",
                                            std::to_string(draw(4)),
                                            "--strategy",
                                            draw(2) == 0 ? "mirrored" : "unshared",
                                            "--asynchronous",
                                            std::to_string(draw(2)),
                                            "--calls",
                                            std::to_string(draw(4)),
                                            "--prefetch",
                                            std::to_string(1 + draw(3))};
      // Some operations of a save, of which there are 13 or so, or some time of the run.
      std::optional<int> after_ms;
      const bool kill = kills < wanted && here < 6;
      if (kill && draw(3) > 0) {
        arguments.insert(arguments.end(), {"--kill_at", std::to_string(draw(60))});
        ++while_saving;
      } else if (kill) {
        after_ms = draw(200);
      }
      const Outcome outcome = run_trainer(arguments, after_ms);
      resumed_from += outcome.first_step();
      if (outcome.signal == SIGKILL) {
        ++kills;
        ++here;
        continue;
      }
      ASSERT_EQ(outcome.exit_code, 0) << outcome.output << " seed " << seed;
      ASSERT_EQ(outcome.sha256(), undisturbed()) << "run " << runs << ", seed " << seed;
      break;
    }
  }
  EXPECT_GT(resumed_from, 0);  // or nothing was ever restored
  std::printf("%d kills, up to %d of them at an operation on the disk, in %d runs\n", kills,
              while_saving, runs);
}

// Exactly: every operation of the third save.
TEST(KillTest, EveryOperationOfASave) {
  const test::TempFolder folder;
  int killed = 0;
  const int stride = from_environment("STRATA_SOAK_KILLS", 0) > 0 ? 1 : 4;
  for (int at = 0; at < 200; at += stride) {
    const std::string run = folder.path() + "/run" + std::to_string(at);
    const std::vector<std::string> short_run = {run, "--steps", "9", "--every", "3"};
    std::vector<std::string> killed_run = short_run;
    killed_run.insert(killed_run.end(), {"--kill_at", std::to_string(at)});
    const Outcome first = run_trainer(killed_run);
    if (first.signal != SIGKILL) break;  // a run has fewer operations
    ++killed;
    const Outcome second = run_trainer(short_run);
    ASSERT_EQ(second.exit_code, 0) << second.output;
    static const std::string whole = [&] {
      return run_trainer({folder.path() + "/whole", "--steps", "9", "--every", "100"}).sha256();
    }();
    ASSERT_EQ(second.sha256(), whole) << at;
  }
  EXPECT_GE(killed, 8);
}

struct StoreCase {
  const char* name;
  test::StoreMaker maker;
  std::string folder;
  std::vector<std::string> options;
  std::vector<std::pair<const char*, std::string>> variables;
  const char* endpoint;  // the variable that names it
};

class StoreKillTest : public testing::TestWithParam<StoreCase> {};

// The folder is in an object store that spoils one of twenty requests.
TEST_P(StoreKillTest, EndsWithTheBitsOfARunThatNobodyDisturbed) {
  const StoreCase& of = GetParam();
  if (of.maker == test::StoreMaker::kMoto && test::StoreServer::python_of_moto().empty()) {
    GTEST_SKIP() << test::StoreServer::kNoMoto;
  }
  std::vector<std::string> options = {"--faults", "5", "--silence", "3"};
  options.insert(options.end(), of.options.begin(), of.options.end());
  test::StoreServer server(options, of.maker);
  std::vector<std::unique_ptr<test::VariableGuard>> variables;
  const auto set = [&](const char* name, const std::string& value) {
    variables.push_back(std::make_unique<test::VariableGuard>(name, value));
  };
  set(of.endpoint, server.endpoint());
  set("STRATA_STORE_STALL_S", "1");
  for (const auto& [name, value] : of.variables) set(name, value);
  const int wanted = from_environment("STRATA_SOAK_KILLS", 4);
  std::mt19937 random(static_cast<unsigned>(from_environment("STRATA_SOAK_SEED", 1)));
  int kills = 0, runs = 0;
  long resumed_from = 0;
  while (kills < wanted || runs == 0) {
    const std::string folder = of.folder + "/run" + std::to_string(runs++);
    // What a process leaves that is killed in its first save.
    object_store::make_file_system(of.folder.substr(0, 2))
        ->create(folder + "/ckpt-1/model-00000-0badcafe.safetensors")
        ->close();
    for (int here = 0;;) {
      std::optional<int> after_ms;
      if (kills < wanted && here < 6) after_ms = static_cast<int>(random() % 1000);
      const Outcome outcome =
          run_trainer({folder, "--asynchronous", std::to_string(random() % 2)}, after_ms);
      resumed_from += outcome.first_step();
      if (outcome.signal == SIGKILL) {
        ++kills;
        ++here;
        continue;
      }
      ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
      ASSERT_EQ(outcome.sha256(), undisturbed());
      break;
    }
  }
  EXPECT_GT(resumed_from, 0);
  std::printf("%d kills in %d runs; %s\n", kills, runs, server.stop().c_str());
}

INSTANTIATE_TEST_SUITE_P(
    , StoreKillTest,
    testing::Values(StoreCase{"s3",
                              test::StoreMaker::kOurs,
                              "s3://bucket/a folder",
                              {"--key", "id", "--secret", "s"},
                              {{"AWS_ACCESS_KEY_ID", "id"}, {"AWS_SECRET_ACCESS_KEY", "s"}},
                              "AWS_ENDPOINT_URL"},
                    StoreCase{"gs",
                              test::StoreMaker::kOurs,
                              "gs://bucket/folder",
                              {"--token", "t"},
                              {{"GOOGLE_OAUTH_ACCESS_TOKEN", "t"}},
                              "STORAGE_EMULATOR_HOST"},
                    StoreCase{"moto",
                              test::StoreMaker::kMoto,
                              "s3://bucket/folder",
                              {},
                              {{"AWS_ACCESS_KEY_ID", "id"}, {"AWS_SECRET_ACCESS_KEY", "s"}},
                              "AWS_ENDPOINT_URL"}),
    [](const auto& info) { return info.param.name; });

TEST(KillTest, OneDeviceAndMirroredStrategiesTakeOver) {
  const auto with = [](const std::string& folder, const std::string& strategy,
                       const std::string& steps) {
    return run_trainer(
        {folder + "/run", "--replicas", "1", "--strategy", strategy, "--steps", steps});
  };
  const test::TempFolder whole, parts;
  const Outcome reference = with(whole.path(), "mirrored", "40");
  ASSERT_EQ(reference.exit_code, 0) << reference.output;
  (void)with(parts.path(), "mirrored", "13");
  (void)with(parts.path(), "one_device", "26");
  const Outcome last = with(parts.path(), "mirrored", "40");
  EXPECT_EQ(last.first_step(), 24);
  EXPECT_EQ(last.sha256(), reference.sha256());
}

TEST(KillTest, AnotherNumberOfReplicasGoesOn) {
  const test::TempFolder folder;
  const auto with = [&](const char* replicas, const char* steps) {
    return run_trainer({folder.path() + "/run", "--replicas", replicas, "--steps", steps});
  };
  ASSERT_EQ(with("4", "12").exit_code, 0);
  for (const auto& [replicas, steps] : {std::pair("2", "18"), {"1", "24"}, {"3", "30"}}) {
    const Outcome outcome = with(replicas, steps);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_EQ(outcome.first_step(), std::atol(steps) - 6);
  }
}

TEST(KillTest, TerminationSavesAndExitsWith42) {
  const test::TempFolder folder;
  const std::vector<std::string> arguments = {folder.path() + "/run", "--every", "1000"};
  const Outcome first = run_trainer(arguments, 20, SIGTERM);
  if (first.exit_code == 0) GTEST_FAIL() << "the run ended before the signal: " << first.output;
  EXPECT_EQ(first.exit_code, 42) << first.output;
  const Outcome second = run_trainer(arguments);
  EXPECT_GT(second.first_step(), 0);
  EXPECT_EQ(second.sha256(), undisturbed());
}

}  // namespace
}  // namespace strata
