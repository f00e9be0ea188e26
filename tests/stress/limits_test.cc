// Jobs that are short of memory, of disk, of file descriptors, or whose clock jumps: they end with
// the bits of one that nobody disturbed, or with an error that names the cause; never in a crash,
// and no checkpoint is lost.
//
// STRATA_SOAK_LIMITS=100 tries as many limits of memory; STRATA_SOAK_SEED=n repeats a run's
// choices.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "core/thread.h"
#include "stress/job.h"
#include "support/process_cluster.h"
#include "support/soak_setting.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::Outcome;
using test::ProcessCluster;
using test::report_of;
using test::run_in_shell;
using test::undisturbed;

const std::string kLimitedTrainer = STRATA_MULTI_WORKER_TRAINER;

bool says_no_memory(const std::string& output) {
  return output.find("memory") != std::string::npos ||
         output.find("bad_alloc") != std::string::npos ||
         output.find("Resource temporarily unavailable") != std::string::npos;  // a thread's stack
}

int lines_of(const std::string& text) { return static_cast<int>(std::ranges::count(text, '\n')); }

TEST(LimitsTest, WantOfMemoryIsAnError) {
  const auto seed = static_cast<unsigned>(test::soak_setting("STRATA_SOAK_SEED", 5));
  std::mt19937 random(seed);
  int short_of_it = 0;
  for (uint64_t i = 0; i < test::soak_setting("STRATA_SOAK_LIMITS", 10); ++i) {
    // Before main, while libtorch and this library are loaded (455 MB), nothing can catch an error.
    const int megabytes = 460 + static_cast<int>(random() % 600);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(megabytes) + " MB");
    const Outcome outcome =
        run_in_shell("ulimit -v " + std::to_string(megabytes * 1024) + "; exec \"$@\"",
                     {kLimitedTrainer, "fit", "8"});
    EXPECT_EQ(outcome.signal, 0) << outcome.output;
    if (outcome.exit_code == 0) {
      EXPECT_EQ(report_of(outcome.output), undisturbed("fit"));
      continue;
    }
    ++short_of_it;
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_TRUE(says_no_memory(outcome.output)) << outcome.output;
  }
  RecordProperty("short_of_memory", short_of_it);
}

// One worker has too little memory: it says so, and the other names it.
TEST(LimitsTest, AWorkerWithoutMemoryIsNamedByTheOther) {
  ProcessCluster cluster("/bin/sh", {}, {{"worker", 2}});
  cluster.set_arguments({"worker", 0}, {"-c", "exec \"$@\"", "sh", kLimitedTrainer, "fit", "4"});
  cluster.set_arguments({"worker", 1},
                        {"-c", "ulimit -v 640000; exec \"$@\"", "sh", kLimitedTrainer, "fit", "4"});
  cluster.start();
  const auto exits = cluster.wait(100s);
  const auto& starved = exits.at({"worker", 1});
  EXPECT_EQ(starved.signal, 0) << starved.output;
  EXPECT_EQ(starved.code, 1) << starved.output;
  EXPECT_TRUE(says_no_memory(starved.output)) << starved.output;
  const auto& other = exits.at({"worker", 0});
  EXPECT_EQ(other.code, 1) << other.output;
  EXPECT_NE(other.output.find("/job:worker/task:1"), std::string::npos) << other.output;
}

/// A file system of its own and little room; unmounted at the end.
class SmallDisk {
 public:
  explicit SmallDisk(int kilobytes) {
    const std::string options = "size=" + std::to_string(kilobytes) + "k";
    mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  std::string path() const { return folder_.path(); }

 private:
  const test::TempFolder folder_;
  bool mounted_ = false;
};

// In a backup, a best model, an event file, a log: said once, and what was saved before is whole.
TEST(LimitsTest, AFullDiskLosesNothingThatWasSaved) {
  if (!SmallDisk(64).mounted()) GTEST_SKIP() << "mounting a tmpfs is not permitted";
  std::mt19937 random(static_cast<unsigned>(test::soak_setting("STRATA_SOAK_SEED", 3)));
  for (uint64_t i = 0; i < test::soak_setting("STRATA_SOAK_LIMITS", 6); ++i) {
    const int kilobytes = 30 + static_cast<int>(random() % 400);
    SCOPED_TRACE(std::to_string(kilobytes) + " KB");
    const SmallDisk disk(kilobytes);
    const test::TempFolder large;
    const Outcome outcome = run_in_shell("exec \"$@\"", {kLimitedTrainer, "fit", "8", disk.path()});
    EXPECT_EQ(outcome.signal, 0) << outcome.output;
    if (outcome.exit_code == 0) continue;
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_NE(outcome.output.find("No space left on device"), std::string::npos) << outcome.output;
    // With room it goes on from what is there, and ends as ever.
    fs::copy(disk.path(), large.path(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    const Outcome again = run_in_shell("exec \"$@\"", {kLimitedTrainer, "fit", "8", large.path()});
    EXPECT_EQ(again.exit_code, 0) << again.output;
    EXPECT_EQ(again.sha256(), undisturbed("fit").substr(7, 64)) << again.output;
  }
}

/// Connections that say nothing.
class IdleConnections {
 public:
  /// To a port of 127.0.0.1, while something listens there.
  IdleConnections(int port, int count) {
    for (int i = 0; i < count; ++i) {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in to = {};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<uint16_t>(port));
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
        sockets_.push_back(fd);
      } else {
        ::close(fd);
      }
    }
  }
  ~IdleConnections() {
    for (const int fd : sockets_) ::close(fd);
  }
  IdleConnections(const IdleConnections&) = delete;
  IdleConnections& operator=(const IdleConnections&) = delete;

  size_t count() const { return sockets_.size(); }

 private:
  std::vector<int> sockets_;
};

TEST(LimitsTest, IdleConnectionsAndFewDescriptorsDisturbNoJob) {
  const auto start = std::chrono::steady_clock::now();
  ProcessCluster cluster("/bin/sh", {}, {{"worker", 2}});
  for (const cluster::TaskId& task : cluster.tasks()) {
    // A job of two workers that is not disturbed takes less than 40.
    cluster.set_arguments(task,
                          {"-c", "ulimit -n 64; exec \"$@\"", "sh", kLimitedTrainer, "loop", "4"});
  }
  cluster.start();
  ASSERT_TRUE(cluster.wait_for_output({"worker", 0}, "step 1\n"));
  const std::string& address = cluster.spec().task_address({"worker", 0});
  const IdleConnections idle(std::stoi(address.substr(address.find(':') + 1)), 200);
  EXPECT_GT(idle.count(), 50U);
  const auto exits = cluster.wait(100s);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  for (const auto& [task, exit] : exits) {
    EXPECT_EQ(exit.code, 0) << exit.output;
    EXPECT_EQ(report_of(exit.output), undisturbed("loop"));
    int warnings = 0;
    for (size_t at = 0; (at = exit.output.find("\nW ", at)) != std::string::npos; ++at) ++warnings;
    EXPECT_LT(warnings, 10 * took.count() + 10) << exit.output;
  }
}

/// A moment for the fake clock, written for as long as it lives: a day forth, a day back.
class JumpingClock {
 public:
  explicit JumpingClock(std::string file) : file_(std::move(file)) {
    set("+0d");
    jumper_ = Thread("jumper", [this](std::stop_token stop) {
      std::mutex mutex;
      std::condition_variable_any never;
      for (bool forth = true; !stop.stop_requested(); forth = !forth) {
        set(forth ? "+1d" : "-1d");
        std::unique_lock lock(mutex);
        never.wait_for(lock, stop, 50ms, [] { return false; });
      }
    });
  }

 private:
  void set(const std::string& offset) const {
    const std::string next = file_ + ".next";
    std::ofstream(next) << offset << '\n';
    fs::rename(next, file_);
  }

  const std::string file_;
  Thread jumper_;
};

// Deadlines and heartbeats take the steady clock; what the wall clock says matters to names of
// files, and to logs.
TEST(LimitsTest, AClockThatJumpsDisturbsNoJob) {
  const std::string library = STRATA_LIBFAKETIME;
  if (!fs::exists(library)) GTEST_SKIP() << library << " is not there";
  const test::TempFolder folder;
  const JumpingClock clock(folder.path() + "/clock");
  ProcessCluster cluster(kLimitedTrainer, {"fit"}, {{"worker", 2}});
  for (const cluster::TaskId& task : cluster.tasks()) {
    cluster.set_arguments(task, {"4", folder.path() + "/state"});
    cluster.set_environment(task, "LD_PRELOAD", library);
    cluster.set_environment(task, "FAKETIME_TIMESTAMP_FILE", folder.path() + "/clock");
    cluster.set_environment(task, "FAKETIME_NO_CACHE", "1");
    cluster.set_environment(task, "FAKETIME_DONT_FAKE_MONOTONIC", "1");
  }
  cluster.start();
  for (const auto& [task, exit] : cluster.wait(100s)) {
    EXPECT_EQ(exit.code, 0) << exit.output;
    EXPECT_NE(exit.output.find(undisturbed("fit").substr(0, 71)), std::string::npos) << exit.output;
    EXPECT_LT(lines_of(exit.output), 300) << exit.output;
  }
}

}  // namespace
}  // namespace strata
