// Something happens to a job whose sums go over NCCL, at a moment that the seed chooses: a worker
// is killed or stopped, a call of NCCL fails, or never ends. No process hangs, the failed worker is
// named in time, and the elastic job ends with the weights of a run without a fault.
//
// STRATA_SOAK_GPU_FAULTS=200 takes as many seeds; STRATA_SOAK_SEED=n others.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <string>

#include "gpu/gpu_job.h"
#include "strata/core/str_cat.h"
#include "support/killed_program.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using cluster::TaskId;
using test::GpuJob;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLiveness = 1500ms;
constexpr auto kTimeout = 3s;   // of a collective
constexpr auto kBusy = 1500ms;  // other tests run on this machine's cores at the same time
const TaskId kSurvivor{"worker", 0};
const TaskId kVictim{"worker", 1};

/// @param sharded  The cards share the optimizer's state out: a lost worker takes some of it along.
test::Environment settings(bool sharded = false) {
  test::Environment environment = {{"STRATA_TEST_LIVENESS_MS", std::to_string(kLiveness / 1ms)},
                                   {"STRATA_TEST_TIMEOUT_MS", std::to_string(kTimeout / 1ms)}};
  if (sharded) environment["STRATA_TEST_SHARD"] = "1";
  return environment;
}

/// The SHA-256 of the weights of a run without a fault.
const std::string& undisturbed() {
  static const std::string digest = [] {
    const test::TempFolder folder;
    GpuJob job(2, {"loop", "2", folder.path(), "elastic"}, settings());
    job.start();
    return test::line_of(job.wait(kSurvivor, 240s).output, "sha256 ");
  }();
  return digest;
}

void expect_undisturbed(const test::ProcessCluster::Exit& exit) {
  EXPECT_TRUE(exit.in_time) << exit.output;
  EXPECT_EQ(exit.code, 0) << exit.output;
  EXPECT_EQ(test::line_of(exit.output, "sha256 "), undisturbed()) << exit.output;
}

/// A process is lost: killed, or so that only its silence tells.
void lose_a_worker(int step, int signal, Clock::duration limit, bool sharded) {
  const test::TempFolder folder;
  GpuJob job(2, {"loop", "2", folder.path(), "elastic"}, settings(sharded));
  job.start();
  ASSERT_TRUE(job.wait_for_output(kVictim, str_cat("\nstep ", step, "\n"))) << job.output(kVictim);
  const auto begin = Clock::now();
  job.kill(kVictim, signal);
  // It is named where the survivor says why its step has failed.
  EXPECT_TRUE(job.wait_for_output(kSurvivor, kVictim.to_string(), 60s)) << job.output(kSurvivor);
  const std::chrono::duration<double> took = Clock::now() - begin;
  std::printf("named after %.2f s\n", took.count());
  EXPECT_LE(took, limit + kBusy) << job.output(kSurvivor);
  expect_undisturbed(job.wait(kSurvivor, 240s));
  if (signal != SIGKILL) job.kill(kVictim);
}

/// A call of NCCL goes wrong, in processes that live: of the first communicator of gradients, or of
/// other values. A process has two ranks, and makes its communicators in their order.
void break_a_call(const std::string& what, int rank, int call, bool of_values, bool sharded) {
  const test::TempFolder folder;
  test::Environment environment = settings(sharded);
  environment["STRATA_FAKE_NCCL"] =
      str_cat(what, ":rank=", rank, ",call=", call, ",comm=", rank % 2 + (of_values ? 3 : 1));
  GpuJob job(2, {"loop", "2", folder.path(), "elastic"}, environment);
  job.start();
  for (const auto& [task, exit] : job.wait(240s)) expect_undisturbed(exit);
}

// In the 18th step's checkpoint, which gathers the momentum on the cards outside of any run: the
// last call of the step, that of the checkpoint, and the first of the next step.
TEST(GpuWorkerFaultsTest, AnErrorWhileACheckpointIsGatheredIsRecoveredFrom) {
  ASSERT_NE(undisturbed(), "");
  for (const int call : {131, 132, 133}) {
    SCOPED_TRACE(call);
    break_a_call("error", /*rank=*/3, call, /*of_values=*/false, /*sharded=*/true);
  }
}

TEST(GpuWorkerFaultsTest, EndWithTheWeightsOfAJobThatNobodyDisturbed) {
  const int seeds = test::from_environment("STRATA_SOAK_GPU_FAULTS", 20);
  const int first = test::from_environment("STRATA_SOAK_SEED", 1);
  ASSERT_NE(undisturbed(), "");
  for (int seed = first; seed < first + seeds; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto draw = [&](int least, int most) {
      return std::uniform_int_distribution<int>(least, most)(random);
    };
    const int step = draw(3, 45);
    const int rank = draw(0, 3);
    const int call = draw(1, 200);
    const bool sharded = seed / 4 % 2 == 1;
    SCOPED_TRACE(sharded ? "sharded" : "unsharded");
    const bool of_values = draw(0, 1) == 1;
    const std::string where = str_cat("call ", call, of_values ? " of values" : " of gradients");
    switch (seed % 4) {
      case 0: {
        SCOPED_TRACE(str_cat("seed ", seed, ": killed behind step ", step));
        lose_a_worker(step, SIGKILL, 2s, sharded);
        break;
      }
      case 1: {
        SCOPED_TRACE(str_cat("seed ", seed, ": stopped behind step ", step));
        lose_a_worker(step, SIGSTOP, kLiveness + 1s, sharded);
        break;
      }
      case 2: {
        SCOPED_TRACE(str_cat("seed ", seed, ": an error of rank ", rank, " in ", where));
        break_a_call("error", rank, call, of_values, sharded);
        break;
      }
      default: {
        SCOPED_TRACE(str_cat("seed ", seed, ": rank ", rank, " stalls in ", where));
        break_a_call("stall", rank, call, of_values, sharded);
        break;
      }
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace strata
