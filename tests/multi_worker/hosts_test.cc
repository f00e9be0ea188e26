// Four workers with two replicas each, every worker on a host of its own: network namespaces with
// shaped lines, which are cut and healed.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "multi_worker/reports.h"
#include "strata/core/str_cat.h"
#include "suites/netns_testbed.h"
#include "support/process_cluster.h"
#include "wire/ucx/ucx_transport.h"

namespace strata {
namespace {

using bench::NetworkTestbed;
using test::ProcessCluster;
using test::report_of;
using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr int kHosts = 4;
constexpr auto kLiveness = 2s;  // the trainer's
// What a busy machine may take to start and end processes.
constexpr auto kSlack = 3s;

cluster::TaskId worker(int host) { return {"worker", host}; }

class HostsTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = NetworkTestbed::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }

  void start(const std::string& mode, const bench::LinkShape& line = {},
             const std::map<std::string, std::string>& environment = {}) {
    testbed_.emplace(kHosts, line);
    std::vector<std::string> addresses;
    for (int i = 0; i < kHosts; ++i) addresses.push_back(testbed_->address(i) + ":2222");
    cluster_.emplace(STRATA_MULTI_WORKER_TRAINER, std::vector<std::string>{mode, "2"},
                     cluster::ClusterSpec({{"worker", addresses}}));
    for (int i = 0; i < kHosts; ++i) {
      cluster_->set_prefix(worker(i), testbed_->enter(i));
      for (const auto& [name, value] : environment) {
        cluster_->set_environment(worker(i), name, value);
      }
    }
    cluster_->start();
  }

  void expect_the_bits_of_one_process(const std::string& mode) {
    const std::string expected = test::one_process(mode);
    ASSERT_NE(expected, "");
    for (const auto& [task, exit] : cluster_->wait(180s)) {
      EXPECT_TRUE(exit.in_time && exit.code == 0)
          << task.to_string() << " (exit " << exit.code << ", signal " << exit.signal
          << "): " << exit.output;
      EXPECT_EQ(report_of(exit.output), expected) << task.to_string();
    }
  }

  /// Waits until the job is in the middle of its first epoch.
  void run_into_the_job() {
    for (int i = 0; i < kHosts; ++i) {
      ASSERT_TRUE(cluster_->wait_for_output(worker(i), "\nstep 7\n", 120s))
          << cluster_->output(worker(i));
    }
  }

  /// All but `lost` end in time with an error that holds `text`.
  void expect_all_to_say(const std::string& text, SteadyClock::time_point since, int lost = -1) {
    for (int i = 0; i < kHosts; ++i) {
      if (i == lost) continue;
      const auto limit = std::chrono::ceil<std::chrono::milliseconds>(since + kLiveness + kSlack -
                                                                      SteadyClock::now());
      const ProcessCluster::Exit exit = cluster_->wait(worker(i), std::max(limit, 0ms));
      EXPECT_TRUE(exit.in_time && exit.code == 1) << worker(i).to_string() << exit.output;
      EXPECT_NE(exit.output.find(text), std::string::npos)
          << worker(i).to_string() << " does not say " << text << ": " << exit.output;
    }
  }

  void cut_off(int host) {
    start("fit");
    run_into_the_job();
    const auto since = SteadyClock::now();
    testbed_->partition(host);
    expect_all_to_say(str_cat(worker(host).to_string(), " at ", testbed_->address(host), ":2222",
                              host == 0 ? ", the leader," : "", " is lost: it was silent for"),
                      since, host);
    // And that one, who has lost them all, does not hang.
    EXPECT_EQ(cluster_->wait(worker(host), 20s).code, 1);
  }

  std::optional<NetworkTestbed> testbed_;
  std::optional<ProcessCluster> cluster_;  // its processes go first
};

TEST_F(HostsTest, FitEndsWithTheSameBits) {
  start("fit", {.bits_per_second = 1e9}, {{"STRATA_LOG_LEVEL", "info"}});
  expect_the_bits_of_one_process("fit");
  EXPECT_NE(cluster_->output(worker(0)).find("4 workers, 8 replicas"), std::string::npos);
}

TEST_F(HostsTest, ACustomLoopEndsWithTheSameBits) {
  start("loop", {.bits_per_second = 100e6});
  expect_the_bits_of_one_process("loop");
}

TEST_F(HostsTest, OverUcxToo) {
  const std::string wire = wire::has_ucx_transport() ? "ucx" : "socket";
  start("loop", {.bits_per_second = 1e9}, {{"STRATA_WIRE", wire}});
  expect_the_bits_of_one_process("loop");
}

TEST_F(HostsTest, AHostThatIsCutOffIsNamedByAllOthers) { cut_off(3); }
TEST_F(HostsTest, ALeaderThatIsCutOffIsNamedByAllOthers) { cut_off(0); }

// Both ends still reach all others.
TEST_F(HostsTest, ALinkThatIsCutIsNamedByAll) {
  start("loop");
  run_into_the_job();
  const auto since = SteadyClock::now();
  testbed_->partition(1, 2);
  // Whoever of the two notices first names the other.
  expect_all_to_say(" lost /job:worker/task:", since);
  for (const int end : {1, 2}) {
    EXPECT_NE(cluster_->output(worker(0)).find(worker(end).to_string()), std::string::npos)
        << cluster_->output(worker(0));
  }
}

TEST_F(HostsTest, AShortCutThatHealsEndsNothing) {
  start("fit", {}, {{"STRATA_TEST_LIVENESS_MS", "10000"}});
  run_into_the_job();
  testbed_->partition(3);
  // Nothing moves meanwhile.
  EXPECT_FALSE(cluster_->wait_for_output(worker(0), "\nstep 30\n", 1s));
  testbed_->restore(3);
  expect_the_bits_of_one_process("fit");
}

}  // namespace
}  // namespace strata
