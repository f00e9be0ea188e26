// torch::optim's optimizers and DistributedDataParallel in jobs of several processes on emulated GPUs, with
// NCCL's interface between them: the bits of one process's cards, and no communication where there need be none.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "gpu/gpu_job.h"
#include "gpu/weights_file.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using cluster::TaskId;
using test::Environment;
using test::GpuJob;
using test::line_of;
using test::ProcessCluster;
using namespace std::chrono_literals;

GpuJob job_of(const std::string& mode, int processes, const Environment& environment = {}) {
  return {
      processes, {mode, std::to_string(4 / processes)}, environment, STRATA_GPU_INTEROP_TRAINER};
}

/// What all processes print of a training with 4 replicas. @param expected_log  That its log says.
std::string sha256_of(const std::string& mode, int processes, const Environment& environment = {},
                      const std::string& expected_log = "4 replicas on cards: NCCL 2.") {
  GpuJob job = job_of(mode, processes, environment);
  job.start();
  std::string digest;
  std::string buffers;
  for (const auto& [task, exit] : job.wait(240s)) {
    EXPECT_TRUE(exit.in_time && exit.code == 0)
        << task.to_string() << " (exit " << exit.code << ", signal " << exit.signal
        << "): " << exit.output;
    EXPECT_EQ(exit.output.find("[emulated_gpu]"), std::string::npos) << exit.output;
    if (processes > 1) {
      EXPECT_NE(exit.output.find(expected_log), std::string::npos) << exit.output;
    }
    const std::string here = line_of(exit.output, "sha256 ");
    if (digest.empty()) digest = here;
    EXPECT_EQ(here, digest) << task.to_string();
    const std::string buffers_here = line_of(exit.output, "buffers ");  // the chief's everywhere
    if (buffers.empty()) buffers = buffers_here;
    EXPECT_EQ(buffers_here, buffers) << task.to_string();
  }
  EXPECT_NE(digest, "");
  return digest;
}

TEST(GpuInteropWorkersTest, BitsOfTorchOptimizersDoNotDependOnWhereTheCardsAre) {
  const std::string one_process = sha256_of("torch", 1);
  EXPECT_EQ(sha256_of("torch", 2), one_process);
  EXPECT_EQ(sha256_of("torch", 4), one_process);
  const Environment hosts = {{"STRATA_NCCL", "/nowhere/libnccl.so.2"}};
  EXPECT_EQ(sha256_of("torch", 2, hosts, "gradients are summed on hosts: "), one_process);
}

TEST(GpuInteropWorkersTest, DataParallelModulesHaveTheBitsOfReplicasOfOneProcess) {
  const std::string one_process = sha256_of("torch_step", 1);
  EXPECT_EQ(sha256_of("ddp", 4), one_process);
  EXPECT_EQ(sha256_of("ddp", 4, {{"STRATA_TEST_IMPLEMENTATION", "NCCL"}}), one_process);
  const Environment hosts = {{"STRATA_NCCL", "/nowhere/libnccl.so.2"}};
  EXPECT_EQ(sha256_of("ddp", 4, hosts, "gradients are summed on hosts: "), one_process);
}

TEST(GpuInteropWorkersTest, DataParallelModulesInAnyOrderAreNearTheFixedOne) {
  const test::TempFolder folder;
  const auto weights = [&](const std::string& name, Environment environment) {
    environment["STRATA_TEST_WEIGHTS"] = folder.path() + "/" + name;
    sha256_of("ddp", 4, environment);
    return test::weights_in(folder.path() + "/" + name);
  };
  const std::vector<double> fixed = weights("fixed", {});
  const std::vector<double> any = weights("any", {{"STRATA_TEST_ANY_ORDER", "1"}});
  ASSERT_FALSE(fixed.empty());
  EXPECT_NE(any, fixed);
  EXPECT_LE(test::largest_difference(any, fixed), 1e-5);
}

/// Of a job that adds gradients of several batches up.
void expect_quiet_batches(const std::string& mode, int processes) {
  GpuJob job = job_of(mode, processes, {{"STRATA_TEST_STEPS", "4"}});
  job.start();
  for (const auto& [task, exit] : job.wait(120s)) {
    EXPECT_EQ(exit.code, 0) << exit.output;
    EXPECT_EQ(line_of(exit.output, "sent "), "sent some") << exit.output;
    size_t quiet = 0;
    for (size_t at = 0; (at = exit.output.find("quiet ", at)) != std::string::npos; ++at) {
      EXPECT_EQ(exit.output.substr(at, 8), "quiet 0\n") << exit.output;
      ++quiet;
    }
    EXPECT_EQ(quiet, 4u) << exit.output;
  }
}

TEST(GpuInteropWorkersTest, NothingIsSentWithoutSync) { expect_quiet_batches("quiet", 4); }

TEST(GpuInteropWorkersTest, BackwardsBeforeMinimizeSendNothing) {
  expect_quiet_batches("accumulate", 2);
  EXPECT_EQ(sha256_of("accumulate", 2), sha256_of("accumulate", 1));
}

TEST(GpuInteropWorkersTest, DataParallelModulesNameAPeerThatDies) {
  GpuJob job = job_of("ddp", 4, {{"STRATA_TEST_STEPS", "100000"}});
  job.start();
  const TaskId victim{"worker", 1};
  ASSERT_TRUE(job.wait_for_output(victim, "\nstep 20")) << job.output(victim);
  job.kill(victim);
  for (const int survivor : {0, 2, 3}) {
    const ProcessCluster::Exit exit = job.wait(TaskId{"worker", survivor}, 60s);
    EXPECT_TRUE(exit.in_time);
    EXPECT_EQ(exit.code, 1) << exit.output;
    EXPECT_NE(exit.output.find(victim.to_string()), std::string::npos) << exit.output;
  }
}

TEST(GpuInteropWorkersTest, NcclThatIsMissingIsAnErrorWhereItIsAskedFor) {
  GpuJob job = job_of(
      "ddp", 4, {{"STRATA_NCCL", "/nowhere/libnccl.so.2"}, {"STRATA_TEST_IMPLEMENTATION", "NCCL"}});
  job.start();
  for (const auto& [task, exit] : job.wait(60s)) {
    EXPECT_EQ(exit.code, 1) << exit.output;
    EXPECT_NE(exit.output.find("got implementation NCCL, and "), std::string::npos) << exit.output;
  }
}

TEST(GpuInteropWorkersTest, DataParallelModulesOnOneGpuAreAnErrorThatNamesBoth) {
  GpuJob job = job_of("ddp", 4, {{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}});
  job.start();
  for (const auto& [task, exit] : job.wait(60s)) {
    EXPECT_EQ(exit.code, 1) << exit.output;
    for (const int index : {0, 1}) {
      const std::string name = TaskId{"worker", index}.to_string();
      EXPECT_NE(exit.output.find(name + " (gpu:0 there)"), std::string::npos) << exit.output;
    }
  }
}

}  // namespace
}  // namespace strata
