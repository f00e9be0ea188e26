#include "strata/checkpoint/preemption.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <thread>

#include "strata/core/log.h"
#include "strata/strategies/strategy.h"
#include "support/fake_clock.h"
#include "support/faulty_file_system.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

class PreemptionTest : public ::testing::Test {
 protected:
  // What is logged as a warning is expected here.
  PreemptionTest() : old_(set_log_sink([](const LogRecord&) {})) {}
  ~PreemptionTest() override { set_log_sink(old_); }

  int64_t restored_step() {
    int64_t step = -1;
    Checkpoint checkpoint({{"step", step}});
    CheckpointManager manager(checkpoint, folder_.path());
    (void)manager.restore_or_initialize();
    return step;
  }

  test::TempFolder folder_;
  int64_t step_ = 0;
  Checkpoint checkpoint_{{{"step", step_}}};
  CheckpointManager manager_{checkpoint_, folder_.path()};
  LogSink old_;
};

// Rule 72: SIGTERM in step 7 of 20: saved after 8.
TEST_F(PreemptionTest, SavesAfterTheStepInWhichTheSignalComes) {
  int code = 0;
  {
    PreemptionCheckpointHandler handler(manager_);
    try {
      for (; step_ < 20;) {
        if (step_ == 7) ::raise(SIGTERM);
        handler.check(++step_);
      }
    } catch (const Preempted& preempted) {
      code = preempted.exit_code();
      EXPECT_EQ(preempted.code(), ErrorCode::kCancelled);
    }
    EXPECT_TRUE(handler.preempted());
  }
  EXPECT_EQ(code, 42);
  EXPECT_EQ(step_, 8);
  EXPECT_EQ(restored_step(), 8);
  PreemptionCheckpointHandler again(manager_);  // the flag is down again
  EXPECT_FALSE(again.preempted());
}

TEST_F(PreemptionTest, RunsStepsAndCountsThem) {
  PreemptionCheckpointHandler handler(checkpoint_, folder_.path() + "/ckpt", {.exit_code = 7});
  Strategy& strategy = default_strategy();
  const auto sum = handler.run(
      strategy, [&](int by) { return step_ += by; }, 1);
  EXPECT_EQ(sum.get(0), 1);
  handler.run(strategy, [&] { ++step_; });
  EXPECT_EQ(handler.total_run_calls(), 2);
  ::raise(SIGTERM);
  try {
    handler.run(strategy, [&] { ++step_; });
    ADD_FAILURE();
  } catch (const Preempted& preempted) {
    EXPECT_EQ(preempted.exit_code(), 7);
  }
  EXPECT_EQ(restored_step(), 3);
}

TEST_F(PreemptionTest, ExitFunctionInsteadOfAnException) {
  int code = 0;
  bool notice = false;
  PreemptionCheckpointHandler handler(manager_,
                                      {.exit_fn = [&](int exit_code) { code = exit_code; },
                                       .termination_watcher = [&] { return notice; }});
  handler.check(++step_);
  EXPECT_EQ(code, 0);
  notice = true;
  handler.check(++step_);
  EXPECT_EQ(code, 42);
  EXPECT_EQ(restored_step(), 2);
}

TEST_F(PreemptionTest, GracePeriodSavesTwice) {
  testing::FakeClock clock;
  PreemptionCheckpointHandler handler(manager_,
                                      {.grace_period = std::chrono::seconds(10), .clock = &clock});
  ::raise(SIGTERM);
  handler.check(++step_);
  EXPECT_EQ(restored_step(), 1);
  clock.advance(std::chrono::seconds(9));
  handler.check(++step_);
  EXPECT_EQ(restored_step(), 1);
  clock.advance(std::chrono::seconds(2));
  EXPECT_THROW(handler.check(++step_), Preempted);
  EXPECT_EQ(restored_step(), 3);
}

TEST_F(PreemptionTest, AsynchronousSavesAreOnTheMedium) {
  Checkpoint checkpoint({{"step", step_}}, {.asynchronous = true});
  CheckpointManager manager(checkpoint, folder_.path());
  PreemptionCheckpointHandler handler(manager);
  (void)manager.save();
  ::raise(SIGTERM);
  EXPECT_THROW(handler.check(step_ = 5), Preempted);
  EXPECT_FALSE(checkpoint.saving());
  EXPECT_EQ(restored_step(), 5);
}

TEST_F(PreemptionTest, AnEarlierFailureDoesNotPreventTheLastSave) {
  Checkpoint checkpoint({{"step", step_}}, {.asynchronous = true});
  CheckpointManager manager(checkpoint, test::on_faulty_disk(folder_.path()));
  PreemptionCheckpointHandler handler(manager);
  test::faulty_disk().start(test::Fault::kDiskFull, 3);
  (void)manager.save();
  while (checkpoint.saving()) std::this_thread::yield();
  test::faulty_disk().stop();
  ::raise(SIGTERM);
  EXPECT_THROW(handler.check(step_ = 6), Preempted);
  EXPECT_EQ(restored_step(), 6);
}

/// Workers that agree as several processes will: through one shared entry.
class SharedEntry final : public StopConsensus {
 public:
  explicit SharedEntry(std::optional<int64_t>& entry) : entry_(entry) {}
  std::optional<int64_t> agree(int64_t finished_steps, bool preempted) override {
    if (preempted && !entry_) entry_ = finished_steps + 1;
    return entry_;
  }

 private:
  std::optional<int64_t>& entry_;
};

TEST_F(PreemptionTest, WorkersSaveAtTheAgreedStep) {
  std::optional<int64_t> entry;
  PreemptionCheckpointHandler handler(manager_,
                                      {.agreement = std::make_shared<SharedEntry>(entry)});
  handler.check(++step_);
  entry = 3;  // another worker was preempted
  handler.check(++step_);
  EXPECT_THROW(handler.check(++step_), Preempted);
  EXPECT_EQ(restored_step(), 3);
}

TEST_F(PreemptionTest, OneAtATimeAndTheOldHandlerComesBack) {
  struct sigaction before = {};
  sigaction(SIGTERM, nullptr, &before);
  {
    PreemptionCheckpointHandler handler(manager_);
    EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"a second PreemptionCheckpointHandler"},
                       [&] { PreemptionCheckpointHandler(manager_, {}); }));
  }
  struct sigaction after = {};
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace
}  // namespace strata
