#include "strata/checkpoint/checkpoint_manager.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/thread.h"
#include "strata/checkpoint/preemption.h"
#include "strata/core/interrupt.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using namespace std::chrono_literals;
using Numbers = std::vector<int64_t>;

class FollowTest : public testing::Test {
 protected:
  void save() { (void)manager_.save(); }
  FollowOptions options(std::chrono::milliseconds timeout = 60s) const {
    return {.timeout = timeout, .interval = 1ms, .stop = stop_.get_token()};
  }

  const test::TempFolder folder_;
  const std::string run_ = folder_.path() + "/run";
  int64_t step_ = 0;
  Checkpoint checkpoint_{{{"step", step_}}};
  CheckpointManager manager_{checkpoint_, run_, {.max_to_keep = 2}};
  std::stop_source stop_;
  Numbers seen_;
};

TEST_F(FollowTest, TheNewestIsTakenAndWhatCameMeanwhileIsPassedOver) {
  for (int i = 0; i < 3; ++i) save();
  EXPECT_TRUE(follow_checkpoints(
      run_,
      [&](const FollowedCheckpoint& each) {
        EXPECT_EQ(each.path, str_cat(run_, "/ckpt-", each.number));
        seen_.push_back(each.number);
        if (seen_.size() == 1) {
          save();
          save();
        }
        return each.number < 5;
      },
      options()));
  EXPECT_EQ(seen_, (Numbers{3, 5}));
}

TEST_F(FollowTest, ItWaitsForTheFolderAndForTheNext) {
  std::atomic<int64_t> last = 0;
  Thread trainer("trainer", [&] {
    for (int64_t number = 1; number <= 4; ++number) {
      save();
      while (last < number && !stop_.stop_requested()) std::this_thread::yield();
    }
  });
  EXPECT_TRUE(follow_checkpoints(
      run_,
      [&](const FollowedCheckpoint& each) {
        seen_.push_back(each.number);
        last = each.number;
        return each.number < 4;
      },
      options()));
  stop_.request_stop();
  trainer.join();
  EXPECT_EQ(seen_, (Numbers{1, 2, 3, 4}));
}

TEST_F(FollowTest, ThereIsADeadline) {
  const auto never = [](const FollowedCheckpoint&) { return true; };
  expect_error([&] { follow_checkpoints(run_, never, options(20ms)); },
               ErrorCode::kDeadlineExceeded,
               str_cat("[follow_checkpoints] no checkpoint ckpt-<number> came into ", run_,
                       " within 0.02 s; does the training job save there?"));
  save();
  std::filesystem::create_directory(run_ + "/ckpt-7");
  std::ofstream(run_ + "/ckpt-7/manifest.json") << "{";
  expect_error_containing(
      [&] { follow_checkpoints(run_, never, options(20ms)); }, ErrorCode::kDeadlineExceeded,
      str_cat("within 0.02 s; the last was ", run_, "/ckpt-1; passed over: ", run_, "/ckpt-7 ("));
  expect_error_containing([&] { follow_checkpoints(run_, never, options(0s)); },
                          ErrorCode::kInvalidArgument, "got a timeout of 0 ms");
}

TEST_F(FollowTest, ItCanBeToldToStop) {
  save();
  const auto body = [&](const FollowedCheckpoint& each) {
    seen_.push_back(each.number);
    stop_.request_stop();
    return true;
  };
  EXPECT_FALSE(follow_checkpoints(run_, body, options()));
  EXPECT_FALSE(follow_checkpoints(run_, body, options()));
  EXPECT_EQ(seen_, Numbers{1});
}

TEST_F(FollowTest, SigtermEndsItInOrder) {
  save();
  EXPECT_FALSE(follow_checkpoints(
      run_,
      [&](const FollowedCheckpoint& each) {
        std::raise(SIGTERM);
        seen_.push_back(each.number);
        return true;
      },
      options()));
  EXPECT_EQ(seen_, Numbers{1});
  const PreemptionCheckpointHandler handler(manager_);
  const auto body = [&](const FollowedCheckpoint&) { return false; };
  expect_error(
      [&] { follow_checkpoints(run_, body, options()); }, ErrorCode::kFailedPrecondition,
      "[follow_checkpoints] another handler of SIGTERM is installed; pass {.on_sigterm = false}");
  EXPECT_TRUE(follow_checkpoints(run_, body, {.on_sigterm = false}));
}

TEST_F(FollowTest, CtrlCEndsItWithAnError) {
  save();
  const InterruptGuard guard;
  expect_error_containing(
      [&] {
        follow_checkpoints(
            run_, [](const FollowedCheckpoint&) { return std::raise(SIGINT) == 0; }, options());
      },
      ErrorCode::kCancelled, "Ctrl-C");
}

// Whoever trains keeps the newest two.
TEST_F(FollowTest, OneThatIsRemovedWhileItIsReadIsPassedOver) {
  save();
  EXPECT_TRUE(follow_checkpoints(
      run_,
      [&](const FollowedCheckpoint& each) {
        seen_.push_back(each.number);
        if (each.number > 1) return false;
        for (int i = 0; i < 3; ++i) save();
        (void)checkpoint_.read(each.path);
        return true;
      },
      options()));
  EXPECT_EQ(seen_, (Numbers{1, 4}));
}

TEST_F(FollowTest, OtherErrorsAreTheCallers) {
  save();
  expect_error(
      [&] {
        follow_checkpoints(
            run_,
            [](const FollowedCheckpoint&) -> bool {
              throw Error(ErrorCode::kInvalidArgument, "does not fit");
            },
            options());
      },
      "does not fit");
}

TEST_F(FollowTest, FilesCountWhereTheirEndingIsGiven) {
  std::filesystem::create_directories(run_);
  for (const char* name : {"model-1.keras", "ckpt-2.txt", "ckpt-x.keras", "ckpt-.keras", "ckpt-3",
                           "ckpt-3.keras", "other.keras"}) {
    std::ofstream(run_ + "/" + name) << "file";
  }
  FollowOptions with_files = options();
  with_files.file_endings = {".weights.h5", ".keras"};
  EXPECT_TRUE(follow_checkpoints(
      run_,
      [&](const FollowedCheckpoint& each) {
        EXPECT_EQ(each.path, run_ + "/ckpt-3.keras");
        seen_.push_back(each.number);
        return false;
      },
      with_files));
  EXPECT_EQ(seen_, Numbers{3});
}

TEST_F(FollowTest, OfTwoThatWereSavedAtOnceTheHigherNumberIsTheNewer) {
  std::filesystem::create_directories(run_);
  for (const char* name : {"/ckpt-1.keras", "/ckpt-2.keras"}) std::ofstream(run_ + name) << "file";
  std::filesystem::last_write_time(run_ + "/ckpt-1.keras",
                                   std::filesystem::last_write_time(run_ + "/ckpt-2.keras"));
  FollowOptions with_files = options(20ms);
  with_files.file_endings = {".keras"};
  const auto body = [&](const FollowedCheckpoint& each) {
    seen_.push_back(each.number);
    return true;
  };
  expect_error_containing([&] { follow_checkpoints(run_, body, with_files); },
                          ErrorCode::kDeadlineExceeded, "ckpt-2.keras");
  EXPECT_EQ(seen_, Numbers{2});
}

}  // namespace
}  // namespace strata
