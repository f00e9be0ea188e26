// The environments and flags of other systems' launchers, as those write them.
#include "strata/cluster/launcher_resolvers.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "cluster/command_line_words.h"
#include "support/expect_error.h"

namespace strata::cluster {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;
using Words = std::vector<std::string>;

// As Kubeflow's training operator writes it for a TFJob.
TEST(TfJobTest, TheOperatorsTfConfigIsRead) {
  const Variables variables = {
      {"TF_CONFIG",
       R"({"cluster":{"chief":["mnist-chief-0.team.svc:2222"],"ps":["mnist-ps-0.team.svc:2222"],)"
       R"("worker":["mnist-worker-0.team.svc:2222","mnist-worker-1.team.svc:2222"]},)"
       R"("task":{"type":"worker","index":1},"environment":"cloud"})"}};
  const auto found = resolve_cluster(TfConfigResolver({.environment = Environment(variables)}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->task, (TaskId{"worker", 1}));
  EXPECT_EQ(found->spec.task_address("ps", 0), "mnist-ps-0.team.svc:2222");
}

Resolution torchrun(Variables variables, TorchrunOptions options = {}) {
  options.environment = Environment(std::move(variables));
  return TorchrunResolver(options).resolve();
}

Variables rank(const std::string& number, const std::string& size, const std::string& host) {
  return {{"RANK", number}, {"WORLD_SIZE", size}, {"MASTER_ADDR", host}, {"MASTER_PORT", "23456"}};
}

TEST(TorchrunResolverTest, SeveralHostsMeetAboveMasterPort) {
  const auto resolution = torchrun(rank("2", "3", "job-master-0"));
  EXPECT_EQ(resolution.spec, ClusterSpec({{"worker", {"job-master-0:23457", ":0", ":0"}}}));
  EXPECT_EQ(resolution.task(), (TaskId{"worker", 2}));
  EXPECT_EQ(torchrun(rank("0", "2", "fd00::1"), {.port = 7}).spec,
            ClusterSpec({{"worker", {"[fd00::1]:7", ":0"}}}));
}

TEST(TorchrunResolverTest, OneHost) {
  auto variables = rank("1", "2", "node7");
  variables["LOCAL_WORLD_SIZE"] = "2";
  EXPECT_EQ(torchrun(variables).spec, ClusterSpec({{"worker", {"node7:23457", "127.0.0.1:0"}}}));
  EXPECT_EQ(torchrun(rank("0", "2", "localhost")).spec,
            ClusterSpec({{"worker", {"localhost:23457", "127.0.0.1:0"}}}));
}

// The operator calls the master "localhost" in the master's own pod.
TEST(TorchrunResolverTest, APyTorchJobsMasterIsKnownByItsPodsName) {
  auto variables = rank("0", "2", "localhost");
  variables["HOSTNAME"] = "job-master-0";
  variables["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
  EXPECT_EQ(torchrun(variables).spec, torchrun(rank("1", "2", "job-master-0")).spec);
}

TEST(TorchrunResolverTest, APodThatRunsNoTorchrun) {
  const Variables variables = {{"PET_NODE_RANK", "1"},
                               {"PET_NNODES", "2"},
                               {"PET_NPROC_PER_NODE", "auto"},
                               {"PET_MASTER_ADDR", "job-worker-0"},
                               {"PET_MASTER_PORT", "29400"}};
  EXPECT_EQ(torchrun(variables).spec, ClusterSpec({{"worker", {"job-worker-0:29401", ":0"}}}));
  EXPECT_EQ(torchrun(variables).task(), (TaskId{"worker", 1}));
  // Under torchrun there are both, and the process's own count.
  auto both = rank("3", "4", "job-worker-0");
  both.insert(variables.begin(), variables.end());
  EXPECT_EQ(torchrun(both).task(), (TaskId{"worker", 3}));
}

TEST(TorchrunResolverTest, ErrorsNameTheVariable) {
  const auto without = [](const char* name) {
    auto variables = rank("0", "2", "h");
    variables.erase(name);
    return variables;
  };
  const std::string hint =
      "start the program with torchrun or as a PyTorchJob, or unset them to run as one process";
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_PORT"}) {
    expect_error(
        [&] { (void)torchrun(without(name)); },
        str_cat("[cluster] torchrun: got no ", name,
                ", but some of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; expected all "
                "four: ",
                hint));
  }
  expect_error([&] { (void)torchrun(without("MASTER_ADDR")); },
               "[cluster] torchrun: got RANK and WORLD_SIZE, but no MASTER_ADDR; expected the host "
               "of rank 0: " +
                   hint);
  expect_error([] { (void)torchrun(rank("2", "2", "h")); },
               "[cluster] torchrun: got RANK=2 and WORLD_SIZE=2; expected a rank below the size");
  expect_error([] { (void)torchrun(rank("0", "70000", "h")); },
               "[cluster] torchrun: got WORLD_SIZE=70000; expected at most 65536");
  auto variables = rank("0", "2", "h");
  variables["MASTER_PORT"] = "65535";
  expect_error(
      [&] { (void)torchrun(variables); },
      "[cluster] torchrun: got MASTER_PORT=65535; expected a lower one: rank 0 listens one "
      "port above it");
  expect_error(
      [] {
        (void)torchrun({{"PET_NODE_RANK", "0"}, {"PET_NNODES", "1:4"}});
      },
      "[cluster] environment: got PET_NNODES=\"1:4\"; expected a number from 0 up");
}

Resolution flags(Words words) {
  return HostFlagsResolver({.arguments = std::move(words)}).resolve();
}

TEST(HostFlagsResolverTest, TheStudysFlags) {
  const auto resolution =
      flags({"--model=resnet50", "--ps_hosts=n1:2230", "--worker_hosts=n1:2220,n2:2220",
             "--job_name=worker", "--task_index=1", "--batch_size", "64"});
  EXPECT_EQ(resolution.spec,
            ClusterSpec({{"ps", {"n1:2230"}}, {"worker", {"n1:2220", "n2:2220"}}}));
  EXPECT_EQ(resolution.task(), (TaskId{"worker", 1}));
  EXPECT_EQ(flags({"-job_name", "ps", "-ps_hosts", "a:1", "--worker_hosts", "b:1"}).task(),
            (TaskId{"ps", 0}));
  EXPECT_TRUE(flags({"--job_name=", "x"}).spec.empty());
  EXPECT_TRUE(flags({"--job_names=worker", "--", "--worker_hosts=a:1"}).spec.empty());
}

TEST(HostFlagsResolverTest, ErrorsNameTheFlag) {
  const auto expect = [](Words words, const std::string& message) {
    expect_error([&] { (void)resolve_cluster(HostFlagsResolver({.arguments = std::move(words)})); },
                 "[cluster] flags: got " + message);
  };
  expect({"--worker_hosts=a:1"},
         "--worker_hosts or --ps_hosts, but no --job_name; expected worker or ps");
  expect({"--job_name=controller"}, "--job_name=controller; expected worker or ps");
  expect({"--job_name=worker", "--task_index=0"},
         "--job_name=worker, but no --worker_hosts; expected all workers' addresses, "
         "host1:2220,host2:2220");
  expect({"--job_name=worker", "--worker_hosts=a:1,b:1"},
         "--job_name=worker without --task_index; expected this task's index among the 2 of "
         "--worker_hosts");
  expect({"--job_name=worker", "--task_index=x", "--worker_hosts=a:1"},
         "--task_index=x; expected a number from 0 up");
  expect({"--job_name=worker", "--worker_hosts"}, "--worker_hosts without a value");
  EXPECT_THROW(
      (void)resolve_cluster(HostFlagsResolver(
          {.arguments = Words{"--job_name=worker", "--task_index=2", "--worker_hosts=a:1,b:1"}})),
      Error);
}

Resolution study(const std::string& nodes, const std::string& tasks, int node, int local,
                 Variables more) {
  more.insert({{"SLURM_STEP_NODELIST", nodes},
               {"SLURM_STEP_TASKS_PER_NODE", tasks},
               {"SLURM_NODEID", std::to_string(node)},
               {"SLURM_LOCALID", std::to_string(local)}});
  return TfSlurmResolver({.environment = Environment(std::move(more))}).resolve();
}

// The addresses that the published launcher makes of the same variables.
TEST(TfSlurmResolverTest, ServersOnTheWorkersNodes) {
  const ClusterSpec spec(
      {{"ps", {"n1:2230", "n2:2230"}}, {"worker", {"n1:2220", "n2:2220", "n3:2220"}}});
  const Variables two = {{"TF_NUM_PS", "2"}};
  EXPECT_EQ(study("n[1-3]", "2(x2),1", 0, 0, two).spec, spec);
  EXPECT_EQ(study("n[1-3]", "2(x2),1", 0, 0, two).task(), (TaskId{"ps", 0}));
  EXPECT_EQ(study("n[1-3]", "2(x2),1", 1, 1, two).task(), (TaskId{"worker", 1}));
  EXPECT_EQ(study("n[1-3]", "2(x2),1", 2, 0, two).task(), (TaskId{"worker", 2}));
}

TEST(TfSlurmResolverTest, ServersOnNodesOfTheirOwnSeveralANode) {
  const Variables variables = {{"TF_NUM_PS", "3"},
                               {"TF_PS_PER_NODE", "2"},
                               {"TF_NUM_WORKERS", "3"},
                               {"TF_WORKER_PER_NODE", "2"},
                               {"TF_PS_IN_WORKER", "false"}};
  const auto resolution = study("n[9-12]", "2,1,2,1", 3, 0, variables);
  EXPECT_EQ(resolution.spec, ClusterSpec({{"ps", {"n9:2230", "n9:2231", "n10:2230"}},
                                          {"worker", {"n11:2220", "n11:2221", "n12:2220"}}}));
  EXPECT_EQ(resolution.task(), (TaskId{"worker", 2}));
  EXPECT_EQ(study("n[9-12]", "2,1,2,1", 1, 0, variables).task(), (TaskId{"ps", 2}));
  EXPECT_EQ(study("n[1-2]", "1(x2)", 1, 0, {{"TF_NUM_PS", "0"}}).spec,
            ClusterSpec({{"worker", {"n1:2220", "n2:2220"}}}));
}

TEST(TfSlurmResolverTest, ErrorsNameTheVariable) {
  const auto expect = [](const std::string& nodes, const std::string& tasks, Variables more,
                         const std::string& message) {
    expect_error_containing([&] { (void)study(nodes, tasks, 0, 0, std::move(more)); },
                            ErrorCode::kInvalidArgument, "[cluster] SLURM: got " + message);
  };
  expect("n[1-2]", "2(x2)", {{"TF_NUM_PS", "3"}},
         "2 nodes for 3 parameter servers (TF_NUM_PS), 1 a node (TF_PS_PER_NODE), and 2 workers "
         "(TF_NUM_WORKERS), 1 a node (TF_WORKER_PER_NODE), on the same nodes (TF_PS_IN_WORKER); "
         "expected 3 nodes");
  expect("n[1-2]", "1(x2)", {{"TF_NUM_PS", "2"}},
         "1 tasks on n1; expected 1 parameter servers and 1 workers there");
  expect("n1", "2", {{"TF_PS_IN_WORKER", "perhaps"}},
         "TF_PS_IN_WORKER=perhaps; expected true or false");
  expect("n1", "2", {{"TF_PS_PER_NODE", "0"}},
         "TF_PS_PER_NODE=0; expected a number from 1 to 65536");
  expect_error_containing(
      [] {
        (void)TfSlurmResolver({.environment = Environment(Variables{{"TF_NUM_PS", "1"}})})
            .resolve();
      },
      ErrorCode::kInvalidArgument,
      "[cluster] SLURM: got TF_NUM_PS or TF_NUM_WORKERS, but neither SLURM_STEP_NODELIST nor "
      "SLURM_JOB_NODELIST; not in a SLURM step? Start the program with srun");
}

TEST(LauncherDetectionTest, TheProgramsOwnWordsAreRead) {
  const Words words = command_line_words();  // GoogleTest's
  EXPECT_FALSE(has_host_flags(words));
  EXPECT_TRUE(has_host_flags({"x", "--worker_hosts=a:1"}));
  EXPECT_TRUE(has_host_flags({"-ps_hosts", "a:1"}));
  EXPECT_FALSE(has_host_flags({"worker_hosts", "--job_name=worker", "--worker_hosts_more"}));
}

TEST(LauncherDetectionTest, WhatStartedTheProcessDecides) {
  const auto detected = [](const Variables& variables) -> std::string {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    std::string source;
    try {
      const auto resolver = detect_cluster_resolver();
      const auto resolution = resolver ? std::optional(resolver->resolve()) : std::nullopt;
      source = !resolution ? "none"
                           : str_cat(resolution->source, " ",
                                     resolution->spec.has_job("ps") ? "ps" : "workers");
    } catch (const Error& error) {
      source = error.what();
    }
    for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
    return source;
  };
  EXPECT_EQ(detected(rank("0", "2", "h")), "torchrun workers");
  EXPECT_EQ(detected(rank("0", "1", "h")), "none");
  EXPECT_EQ(detected({{"PET_NODE_RANK", "0"}, {"PET_NNODES", "1"}}), "none");
  EXPECT_EQ(detected({{"MASTER_ADDR", "h"}}), "none");  // of a shell's start file, perhaps
  EXPECT_TRUE(detected({{"MASTER_ADDR", "h"}, {"WORLD_SIZE", "2"}})
                  .starts_with("[cluster] torchrun: got no RANK"));
  EXPECT_TRUE(detected({{"RANK", "0"}, {"WORLD_SIZE", "2"}})
                  .starts_with("[cluster] torchrun: got RANK and WORLD_SIZE, but no MASTER_ADDR"));
  const Variables step = {{"SLURM_PROCID", "1"},
                          {"SLURM_STEP_NUM_TASKS", "3"},
                          {"SLURM_STEP_NODELIST", "n[1-2]"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                          {"SLURM_NODEID", "0"},
                          {"SLURM_LOCALID", "1"}};
  EXPECT_EQ(detected(step), "SLURM workers");
  auto of_the_study = step;
  of_the_study["TF_NUM_PS"] = "1";
  EXPECT_EQ(detected(of_the_study), "SLURM ps");
}

}  // namespace
}  // namespace strata::cluster
