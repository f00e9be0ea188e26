// With nothing set but the seed, a job's replicas and bits do not depend on what starts it.
// STRATA_SOAK_DEFAULTS=1 tries every way for each model.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "strata/runtime/devices.h"
#include "support/mpirun.h"

namespace strata {
namespace {

using test::Outcome;
using test::ProcessCluster;
using test::run_program;

const std::string kTrainer = STRATA_DEFAULTS_TRAINER;
using Environment = std::map<std::string, std::string>;

const Environment kLibtorchs = {{"STRATA_KERNELS", "libtorch"}};

/// The lines "replicas <n>" and "sha256 <digest>" of a process.
std::string report_of(const std::string& output) {
  const size_t replicas = output.find("replicas ");
  const size_t digest = output.find("sha256 ");
  if (replicas == std::string::npos || digest == std::string::npos) return "none: " + output;
  return output.substr(replicas, output.find('\n', replicas) + 1 - replicas) +
         output.substr(digest, 7 + 64);
}

/// What a model's job ends with, however it is started.
class Job {
 public:
  Job(std::string model, Environment environment)
      : model_(std::move(model)), environment_(std::move(environment)) {}

  std::string alone(int replicas, int threads = 0) const {
    std::vector<std::string> arguments = {"-c", "exec /usr/bin/env \"$@\" 2>&1", "sh"};
    for (const auto& [name, value] : environment_) arguments.push_back(name + "=" + value);
    for (const std::string& word :
         {kTrainer, model_, std::to_string(replicas), std::to_string(threads)}) {
      arguments.push_back(word);
    }
    return report_of(run_program("/bin/sh", arguments).output);
  }
  /// By `strata launch`; each worker names so many devices, or none.
  std::string launched(int workers, int replicas) const {
    std::vector<std::string> arguments = {"launch", "-n", std::to_string(workers)};
    for (const auto& [name, value] : environment_) {
      arguments.insert(arguments.end(), {"--env", name + "=" + value});
    }
    arguments.insert(arguments.end(), {"--", kTrainer, model_, std::to_string(replicas)});
    const Outcome outcome = run_program(STRATA_COMMAND, arguments);
    std::string of_chief;
    size_t begin = 0;
    while (begin < outcome.output.size()) {
      const size_t end = std::min(outcome.output.find('\n', begin), outcome.output.size());
      const std::string line = outcome.output.substr(begin, end - begin);
      if (line.starts_with("[worker:0] ")) of_chief += line.substr(11) + "\n";
      begin = end + 1;
    }
    return outcome.exit_code == 0 ? report_of(of_chief) : outcome.output;
  }
  /// As in shells: TF_CONFIG, and nothing else.
  std::string by_hand(const std::vector<int>& replicas) const {
    ProcessCluster cluster(kTrainer, {model_}, {{"worker", static_cast<int>(replicas.size())}});
    size_t worker = 0;
    for (const cluster::TaskId& task : cluster.tasks()) {
      cluster.set_arguments(task, {std::to_string(replicas[worker++])});
      for (const auto& [name, value] : environment_) cluster.set_environment(task, name, value);
    }
    cluster.start();
    std::string report;
    for (const auto& [task, exit] : cluster.wait(std::chrono::seconds(120))) {
      const std::string one = report_of(exit.output);
      EXPECT_EQ(report.empty() ? one : report, one);
      report = one;
    }
    return report;
  }
#if defined(STRATA_MPIRUN)
  std::string by_mpirun(int workers, int replicas,
                        const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments = options;
    arguments.insert(arguments.end(),
                     {"-n", std::to_string(workers), kTrainer, model_, std::to_string(replicas)});
    return report_of(test::run_with_mpi(arguments, environment_).output);
  }
#endif

 private:
  const std::string model_;
  const Environment environment_;
};

std::string with_replicas(const std::string& report, int replicas) {
  EXPECT_TRUE(report.starts_with("replicas " + std::to_string(replicas) + "\n")) << report;
  return report;
}

// Two workers, no devices named: two shells and mpirun make the replicas that the launcher's make.
TEST(DefaultsTest, AJobHasTheSameReplicasAndBitsHoweverItIsStarted) {
  const Job job("cnn", {});
  const std::string expected =
      with_replicas(job.launched(2, 0), num_cores() >= 2 ? num_cores() : 2);
  EXPECT_EQ(job.by_hand({0, 0}), expected);
#if defined(STRATA_MPIRUN)
  EXPECT_EQ(job.by_mpirun(2, 0), expected);
#endif
}

class DefaultDigestsTest : public testing::TestWithParam<const char*> {};

TEST_P(DefaultDigestsTest, OneDigestForAModelAndItsKernels) {
  const bool every_way = std::getenv("STRATA_SOAK_DEFAULTS") != nullptr;
  for (const Environment& kernels : {Environment{}, kLibtorchs}) {
    const Job job(GetParam(), kernels);
    const std::string four = with_replicas(job.alone(4), 4);
    EXPECT_EQ(job.alone(4, 3), four);
    EXPECT_EQ(job.by_hand({1, 3}), four);
    EXPECT_EQ(job.launched(2, 2), four);
    if (!every_way) continue;
    for (const int threads : {1, 2, 4}) EXPECT_EQ(job.alone(4, threads), four) << threads;
    EXPECT_EQ(job.launched(4, 1), four);
    EXPECT_EQ(job.by_hand({2, 2}), four);
    const std::string three = with_replicas(job.alone(3), 3);
    EXPECT_NE(three, four);
    EXPECT_EQ(job.alone(3, 3), three);
    EXPECT_EQ(job.launched(3, 1), three);
    EXPECT_EQ(job.by_hand({1, 2}), three);
#if defined(STRATA_MPIRUN)
    EXPECT_EQ(job.by_mpirun(2, 2), four);
    EXPECT_EQ(job.by_mpirun(3, 1), three);
#endif
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DefaultDigestsTest,
                         testing::Values("mlp", "cnn", "lstm", "transformer"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace strata
