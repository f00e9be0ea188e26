#include "strata/checkpoint/checkpoint_manager.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "strata/core/file_system.h"
#include "strata/core/log.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

/// Names without their folder.
std::vector<std::string> names(const std::vector<std::string>& paths) {
  std::vector<std::string> result;
  for (const std::string& path : paths) result.push_back(std::filesystem::path(path).filename());
  return result;
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> result;
  for (const std::string& name : local_file_system().list(folder)) {
    if (local_file_system().info(folder + "/" + name)->is_folder) result.push_back(name);
  }
  return result;
}

using Names = std::vector<std::string>;

class ManagerTest : public testing::Test {
 protected:
  test::TempFolder folder_;
  std::string run_ = folder_.path() + "/run";
  int64_t step_ = 0;
  Checkpoint checkpoint_{{{"step", step_}}};
};

TEST_F(ManagerTest, KeepsTheNewest) {
  CheckpointManager manager(checkpoint_, run_, {.max_to_keep = 2});
  EXPECT_FALSE(manager.latest_checkpoint().has_value());
  for (step_ = 1; step_ <= 4; ++step_) EXPECT_TRUE(manager.save().has_value());
  EXPECT_EQ(names(manager.checkpoints()), (Names{"ckpt-3", "ckpt-4"}));
  EXPECT_EQ(folders_in(run_), (Names{"ckpt-3", "ckpt-4"}));
  EXPECT_EQ(*manager.latest_checkpoint(), run_ + "/ckpt-4");
  EXPECT_EQ(*latest_checkpoint(run_), run_ + "/ckpt-4");
  EXPECT_FALSE(latest_checkpoint(run_, "other").has_value());
}

TEST_F(ManagerTest, KeepsAllOnRequest) {
  CheckpointManager manager(checkpoint_, run_, {.max_to_keep = 0, .checkpoint_name = "model"});
  for (int i = 0; i < 12; ++i) (void)manager.save();
  EXPECT_EQ(manager.checkpoints().size(), 12U);
  EXPECT_EQ(*manager.latest_checkpoint(), run_ + "/model-12");  // by time, not by name
}

TEST_F(ManagerTest, StateSurvivesRestarts) {
  {
    CheckpointManager manager(checkpoint_, run_, {.max_to_keep = 2});
    for (step_ = 1; step_ <= 3; ++step_) (void)manager.save();
  }
  int64_t step = 0;
  Checkpoint checkpoint({{"step", step}});
  CheckpointManager manager(checkpoint, run_, {.max_to_keep = 2});
  EXPECT_EQ(*manager.restore_or_initialize(), run_ + "/ckpt-3");
  EXPECT_EQ(step, 3);
  EXPECT_EQ(manager.status().number(), 3);
  (void)manager.save();
  EXPECT_EQ(names(manager.checkpoints()), (Names{"ckpt-3", "ckpt-4"}));
}

TEST_F(ManagerTest, InitializesWhereThereIsNothing) {
  int calls = 0;
  CheckpointManager manager(checkpoint_, run_, {.init_fn = [&] { ++calls; }});
  EXPECT_FALSE(manager.restore_or_initialize().has_value());
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"nothing was restored"},
                     [&] { (void)manager.status(); }));
  (void)manager.save();
  EXPECT_TRUE(manager.restore_or_initialize().has_value());
  EXPECT_EQ(calls, 1);
}

TEST_F(ManagerTest, NumbersOfOnesOwnAndTheNewestByTime) {
  CheckpointManager manager(checkpoint_, run_);
  (void)manager.save({.number = 100});
  (void)manager.save({.number = 20});  // a run that was taken back
  EXPECT_EQ(*manager.latest_checkpoint(), run_ + "/ckpt-20");
  EXPECT_EQ(names(manager.checkpoints()), (Names{"ckpt-100", "ckpt-20"}));
}

TEST_F(ManagerTest, AClockThatGoesBackDoesNotMatter) {
  double now = 1000;
  CheckpointManager manager(checkpoint_, run_, {.now = [&] { return now; }});
  (void)manager.save();
  now = 500;
  (void)manager.save();
  EXPECT_EQ(names(manager.checkpoints()), (Names{"ckpt-1", "ckpt-2"}));
  CheckpointManager again(checkpoint_, run_, {.now = [&] { return now; }});
  (void)again.save();
  EXPECT_EQ(names(again.checkpoints()), (Names{"ckpt-1", "ckpt-2", "ckpt-3"}));
}

TEST_F(ManagerTest, KeepsOneEverySoManyHours) {
  double now = 0;
  const CheckpointManagerOptions options{
      .max_to_keep = 1, .keep_checkpoint_every_n_hours = 2, .now = [&] { return now; }};
  {
    CheckpointManager manager(checkpoint_, run_, options);
    for (int hour = 1; hour <= 3; ++hour) {
      now = hour * 3600;
      (void)manager.save();
    }
    // ckpt-1 was an hour old, ckpt-2 two.
    EXPECT_EQ(folders_in(run_), (Names{"ckpt-2", "ckpt-3"}));
    EXPECT_EQ(names(manager.checkpoints()), Names{"ckpt-3"});
  }
  CheckpointManager manager(checkpoint_, run_, options);
  EXPECT_EQ(names(manager.checkpoints()), Names{"ckpt-3"});
  for (int hour = 4; hour <= 7; ++hour) {
    now = hour * 3600;
    (void)manager.save();
  }
  EXPECT_EQ(folders_in(run_), (Names{"ckpt-2", "ckpt-4", "ckpt-6", "ckpt-7"}));
  // A state file that is not one is passed over.
  std::ofstream(run_ + "/ckpt-manager.json") << "{";
  CheckpointManager without(checkpoint_, run_, options);
  EXPECT_EQ(without.checkpoints().size(), 4U);
}

TEST_F(ManagerTest, KeepsTheBest) {
  for (const auto best :
       {CheckpointManagerOptions::Best::kMin, CheckpointManagerOptions::Best::kMax}) {
    const bool min = best == CheckpointManagerOptions::Best::kMin;
    const std::string run = run_ + (min ? "/min" : "/max");
    Checkpoint checkpoint({{"step", step_}});
    const CheckpointManagerOptions options{.max_to_keep = 2, .best_metric = "loss", .best = best};
    CheckpointManager manager(checkpoint, run, options);
    EXPECT_FALSE(manager.best_checkpoint().has_value());
    for (const double loss : {0.5, 0.2, 0.9, 0.4, 0.3}) {
      (void)manager.save({.metrics = {{"loss", loss}}});
    }
    EXPECT_EQ(*manager.best_checkpoint(), run + (min ? "/ckpt-2" : "/ckpt-3"));
    EXPECT_EQ(folders_in(run),
              min ? (Names{"ckpt-2", "ckpt-4", "ckpt-5"}) : (Names{"ckpt-3", "ckpt-4", "ckpt-5"}));
    CheckpointManager again(checkpoint, run, options);
    EXPECT_EQ(*again.best_checkpoint(), *manager.best_checkpoint());
    EXPECT_TRUE(again.restore_or_initialize().has_value());
    EXPECT_EQ(again.status().metrics().at("loss"), 0.3);
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got no metric 'loss'"},
                       [&] { (void)manager.save(); }));
  }
}

TEST_F(ManagerTest, SavesAtIntervals) {
  CheckpointManager manager(checkpoint_, run_,
                            {.checkpoint_interval = 10, .step_counter = [&] { return step_; }});
  std::vector<int64_t> saved;
  for (step_ = 1; step_ <= 32; ++step_) {
    if (manager.save()) saved.push_back(step_);
  }
  EXPECT_EQ(saved, (std::vector<int64_t>{1, 11, 21, 31}));
  EXPECT_TRUE(manager.save({.check_interval = false}).has_value());
}

TEST_F(ManagerTest, OptionsThatCannotBe) {
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"checkpoint_interval 10 without step_counter"},
                     [&] { CheckpointManager(checkpoint_, run_, {.checkpoint_interval = 10}); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got max_to_keep -1"},
                     [&] { CheckpointManager(checkpoint_, run_, {.max_to_keep = -1}); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got checkpoint_name 'a/b'"},
                     [&] { CheckpointManager(checkpoint_, run_, {.checkpoint_name = "a/b"}); }));
}

TEST_F(ManagerTest, ACheckpointThatDoesNotFitIsNotPassedOver) {
  CheckpointManager manager(checkpoint_, run_);
  (void)manager.save();
  std::string text;
  Checkpoint other({{"step", text}});
  CheckpointManager wrong(other, run_);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"'step'", "expected a string"},
                     [&] { (void)wrong.restore_or_initialize(); }));
}

TEST_F(ManagerTest, IsForCrossReplicaContext) {
  set_logical_devices("cpu", 2);
  MirroredStrategy strategy({.devices = cpus(2)});
  CheckpointManager manager(checkpoint_, run_);
  constexpr auto kRefused = ErrorCode::kFailedPrecondition;
  EXPECT_TRUE(throws(kRefused, {"CheckpointManager::save"},
                     [&] { strategy.run([&] { (void)manager.save(); }); }));
  EXPECT_EQ(checkpoint_.save_counter(), 0);
  EXPECT_TRUE(manager.save().has_value());
  EXPECT_TRUE(throws(kRefused, {"CheckpointManager::restore_or_initialize"},
                     [&] { strategy.run([&] { (void)manager.restore_or_initialize(); }); }));
}

}  // namespace
}  // namespace strata
