#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "checkpoint/describe.h"
#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/core/log.h"
#include "support/faulty_file_system.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::Fault;
using test::faulty_disk;

/// Stops whoever comes until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    waiting_ = true;
    changed_.notify_all();
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return open_; }));
  }
  void wait_for_visitor() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return waiting_; }));
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool waiting_ = false;
  bool open_ = false;
};

class AsyncTest : public testing::Test {
 protected:
  ~AsyncTest() override { faulty_disk().stop(); }

  /// The writer stops in the middle of its work.
  void hold_the_writer(Gate& gate) {
    faulty_disk().callback = [&gate] { gate.pass(); };
    faulty_disk().start(Fault::kCallback, 3);
  }
  double restored(const std::string& path) {
    Variable weight(at::zeros({1000}));
    Checkpoint(Checkpoint::Objects{{"weight", weight}}).restore(path).assert_consumed();
    return weight.value().max().item<double>();
  }

  test::TempFolder folder_;
  std::string run_ = test::on_faulty_disk(folder_.path());
  Variable weight_{at::full({1000}, 1.0F)};
};

TEST_F(AsyncTest, SavesTheStateOfTheCall) {
  Gate gate;
  hold_the_writer(gate);
  Checkpoint checkpoint({{"weight", weight_}}, {.asynchronous = true});
  checkpoint.prepare();
  EXPECT_FALSE(checkpoint.saving());
  const std::string path = checkpoint.save(run_ + "/ckpt");
  gate.wait_for_visitor();
  EXPECT_TRUE(checkpoint.saving());
  EXPECT_FALSE(is_checkpoint(path));
  weight_.assign(2.0);  // training goes on
  gate.open();
  checkpoint.wait();
  EXPECT_FALSE(checkpoint.saving());
  EXPECT_EQ(restored(path), 1);
  // The next one finds the memory of the first.
  EXPECT_EQ(restored((checkpoint.save(run_ + "/ckpt"), checkpoint.wait(), run_ + "/ckpt-2")), 2);
}

TEST_F(AsyncTest, OneInFlightTheNextWaits) {
  Gate gate;
  hold_the_writer(gate);
  Checkpoint checkpoint({{"weight", weight_}}, {.asynchronous = true});
  (void)checkpoint.save(run_ + "/ckpt");
  gate.wait_for_visitor();
  weight_.assign(2.0);
  std::thread opener([&] { gate.open(); });
  (void)checkpoint.save(run_ + "/ckpt");
  opener.join();
  EXPECT_TRUE(is_checkpoint(run_ + "/ckpt-1"));
  checkpoint.wait();
  EXPECT_EQ(restored(run_ + "/ckpt-1"), 1);
  EXPECT_EQ(restored(run_ + "/ckpt-2"), 2);
}

TEST_F(AsyncTest, OrIsSkipped) {
  Gate gate;
  hold_the_writer(gate);
  Checkpoint checkpoint({{"weight", weight_}},
                        {.asynchronous = true, .while_saving = CheckpointOptions::Busy::kSkip});
  CheckpointManager manager(checkpoint, run_);
  EXPECT_TRUE(manager.save().has_value());
  gate.wait_for_visitor();
  EXPECT_FALSE(manager.save().has_value());
  EXPECT_EQ(checkpoint.save_counter(), 1);
  gate.open();
  checkpoint.wait();
  EXPECT_EQ(*manager.save(), run_ + "/ckpt-2");
  checkpoint.wait();
  EXPECT_EQ(manager.checkpoints().size(), 2U);
}

TEST_F(AsyncTest, ErrorsComeOutAtTheNextCallOnce) {
  Checkpoint checkpoint({{"weight", weight_}}, {.asynchronous = true});
  for (const bool by_wait : {true, false}) {
    faulty_disk().start(Fault::kDiskFull, 3);
    (void)checkpoint.save(run_ + "/ckpt");
    while (checkpoint.saving()) std::this_thread::yield();
    faulty_disk().stop();
    EXPECT_TRUE(throws(ErrorCode::kResourceExhausted, {"No space left on device"}, [&] {
      if (by_wait) {
        checkpoint.wait();
      } else {
        (void)checkpoint.save(run_ + "/ckpt");
      }
    }));
    checkpoint.wait();
  }
  const std::string path = checkpoint.save(run_ + "/ckpt");
  checkpoint.wait();
  EXPECT_EQ(restored(path), 1);

  // A restore is not told of it.
  faulty_disk().start(Fault::kDiskFull, 3);
  (void)checkpoint.save(run_ + "/ckpt");
  checkpoint.restore(path).assert_consumed();
  faulty_disk().stop();
  EXPECT_TRUE(throws(ErrorCode::kResourceExhausted, {"No space left on device"},
                     [&] { checkpoint.wait(); }));
}

TEST_F(AsyncTest, TheLastOneIsWrittenToItsEnd) {
  std::string path;
  {
    Checkpoint checkpoint({{"weight", weight_}}, {.asynchronous = true});
    path = checkpoint.save(run_ + "/ckpt");
  }
  EXPECT_EQ(restored(path), 1);

  std::string log;
  const LogSink old =
      set_log_sink([&](const LogRecord& record) { log += std::string(record.message) + "\n"; });
  faulty_disk().start(Fault::kDiskFull, 3);
  {
    Checkpoint checkpoint({{"weight", weight_}}, {.asynchronous = true});
    (void)checkpoint.save(run_ + "/other");
  }
  set_log_sink(old);
  EXPECT_NE(log.find("the last asynchronous save failed: [core] write: "), std::string::npos)
      << log;
}

TEST_F(AsyncTest, OldOnesGoWhenTheNewOneIsWritten) {
  Checkpoint checkpoint({{"weight", weight_}}, {.asynchronous = true});
  CheckpointManager manager(checkpoint, run_, {.max_to_keep = 1});
  for (int i = 0; i < 4; ++i) (void)manager.save();
  checkpoint.wait();
  EXPECT_EQ(manager.checkpoints(), std::vector<std::string>{run_ + "/ckpt-4"});
}

}  // namespace
}  // namespace strata
