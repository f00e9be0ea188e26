// Communicators between processes of this machine: their bits, and what happens when one is killed
// or stopped.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>

#include "collective/in_process/in_process.h"
#include "collective/replica_values.h"
#include "core/sha256.h"
#include "strata/core/str_cat.h"
#include "support/process_cluster.h"

namespace strata::collective {
namespace {

using namespace std::chrono_literals;
using cluster::TaskId;
using std::chrono::steady_clock;
using test::ProcessCluster;

constexpr int kReplicas = 8;

ProcessCluster make(std::vector<std::string> arguments, int workers) {
  return {STRATA_COLLECTIVE_TASK, std::move(arguments), {{"worker", workers}}};
}

std::string digest_of_one_process() {
  Sha256 digest;
  for (int twice = 0; twice < 2; ++twice) {
    for (const at::ScalarType dtype : kSummedDtypes) {
      for (const int64_t size : kSummedSizes) {
        std::vector<at::Tensor> values;
        for (int i = 0; i < kReplicas; ++i) values.push_back(replica_value(size, dtype, i));
        const at::Tensor sum = reduce_in_order(values, ReduceOp::kSum);
        digest.update(sum.const_data_ptr(), sum.nbytes());
      }
    }
  }
  return digest.hex_digest();
}

class CommunicatorProcessTest : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(BackEnds, CommunicatorProcessTest,
                         testing::Values("wire", "shared_memory"),
                         [](const auto& info) { return info.param; });

TEST_P(CommunicatorProcessTest, TheBitsAreThoseOfOneProcess) {
  const std::string expected = "sha256 " + digest_of_one_process();
  for (const int workers : {2, 3, 4, 8}) {  // of 3: (3, 3, 2)
    auto cluster = make({"sums", GetParam(), str_cat(kReplicas)}, workers);
    cluster.start();
    for (const auto& [task, exit] : cluster.wait(120s)) {
      EXPECT_TRUE(exit.in_time) << task.to_string();
      EXPECT_EQ(exit.code, 0) << task.to_string() << "\n" << exit.output;
      EXPECT_NE(exit.output.find(expected), std::string::npos)
          << task.to_string() << " of " << workers << "\n"
          << exit.output;
    }
  }
}

// @param limit  From the signal to the last survivor's end.
void expect_named(ProcessCluster& cluster, int victim, int signal, std::chrono::seconds limit) {
  cluster.start();
  for (const TaskId& task : cluster.tasks()) {
    ASSERT_TRUE(cluster.wait_for_output(task, "holding")) << cluster.output(task);
  }
  const auto start = steady_clock::now();
  cluster.kill({"worker", victim}, signal);
  for (const TaskId& task : cluster.tasks()) {
    if (task.index == victim) continue;
    const auto exit = cluster.wait(task);
    EXPECT_LT(steady_clock::now() - start, limit);
    EXPECT_EQ(exit.code, 1) << exit.output;
    for (const std::string& part :
         {std::string("error UNAVAILABLE"), TaskId{"worker", victim}.to_string(),
          std::string("gradients of dense")}) {
      EXPECT_NE(exit.output.find(part), std::string::npos) << part << "\n" << exit.output;
    }
  }
  cluster.kill({"worker", victim}, SIGKILL);
}

TEST_P(CommunicatorProcessTest, AKilledProcessIsNamedByAll) {
  for (const int killed : {0, 2}) {
    auto cluster = make({"hold", GetParam()}, 3);
    expect_named(cluster, killed, SIGKILL, 2s);
  }
}

TEST_P(CommunicatorProcessTest, AStoppedProcessIsNamedByAll) {
  auto cluster = make({"hold", GetParam()}, 3);
  for (const TaskId& task : cluster.tasks()) {
    cluster.set_environment(task, "STRATA_LIVENESS_MS", "1500");
  }
  expect_named(cluster, 1, SIGSTOP, 6s);
}

}  // namespace
}  // namespace strata::collective
