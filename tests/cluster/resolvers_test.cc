// SLURM, MPI, Kubernetes, and which of them is at work.
#include <gtest/gtest.h>

#include <cstdlib>

#include "strata/cluster/resolvers.h"
#include "support/expect_error.h"

namespace strata::cluster {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;
using Names = std::vector<std::string>;

TEST(HostListTest, ExpandsWhatTensorFlowCannot) {
  EXPECT_EQ(expand_host_list("r[1-2]n[1-2]"), (Names{"r1n1", "r1n2", "r2n1", "r2n2"}));
  EXPECT_EQ(expand_host_list("n[1-2]-ib,m"), (Names{"n1-ib", "n2-ib", "m"}));
  EXPECT_EQ(expand_host_list("n[001-003,7],m5"), (Names{"n001", "n002", "n003", "n7", "m5"}));
}

TEST(HostListTest, ErrorsQuoteThePart) {
  const std::pair<const char*, const char*> lists[] = {
      {"", "an empty name in \"\""},
      {"n1,", "an empty name in \"n1,\""},
      {"n[1-2", "no ']' in \"n[1-2\""},
      {"n1]", "']' without '[' in \"n1]\""},
      {"n[[1]]", "'[' inside of [ ] in \"n[[1]]\""},
      {"m,n[a]", "\"a\" for a number in \"n[a]\""},
      {"n[3-1]", "\"3-1\", which runs backwards, in \"n[3-1]\""},
      {"n[0-99999999]", "more hosts than can be in \"n[0-99999999]\""},
      {"n[1-2000][1-2000]", "more hosts than can be in \"n[1-2000][1-2000]\""},
  };
  for (const auto& [list, what] : lists) {
    expect_error([&, list = list] { (void)expand_host_list(list); },
                 str_cat("[cluster] expand_host_list: got \"", list, "\" with ", what,
                         "; expected a list such as n[001-003,7],m5"));
  }
  expect_error([] { (void)expand_tasks_per_node("2(x2),x"); },
               "[cluster] expand_tasks_per_node: got \"2(x2),x\" with \"x\"; expected a list such "
               "as 2(x2),1");
}

// A few bytes that ask for more than a machine has.
TEST(HostListTest, ShortListsMakeNoMoreThanSlurmHas) {
  const auto repeated = [](const std::string& part, int times) {
    std::string list = part;
    for (int i = 1; i < times; ++i) list += "," + part;
    return list;
  };
  EXPECT_EQ(expand_host_list("n[1-65536]").size(), 65536u);
  EXPECT_EQ(expand_tasks_per_node("1(x65536)").size(), 65536u);
  for (const std::string& list :
       {"n[" + repeated("1-65536", 3000) + "]", repeated("n[1-65536]", 3000),
        "n[" + std::string(100'000, '0') + "-65535]", "n[1-60000]" + std::string(100'000, 'x'),
        "n[1-60000]" + repeated("[1]", 1) + std::string(1000, 'x') + "[1]"}) {
    try {
      (void)expand_host_list(list);
      ADD_FAILURE() << list.substr(0, 40) << " was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find("more hosts than can be"), std::string::npos);
    }
  }
  expect_error([] { (void)expand_tasks_per_node("1(x65536),1"); },
               "[cluster] expand_tasks_per_node: got more than 65536 nodes in \"1(x65536),1\"; "
               "expected at most as many as SLURM has");
}

Variables step(int rank, int tasks, const std::string& nodes, const std::string& per_node) {
  return {{"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_STEP_NUM_TASKS", std::to_string(tasks)},
          {"SLURM_STEP_NODELIST", nodes},
          {"SLURM_STEP_TASKS_PER_NODE", per_node}};
}

Resolution slurm(Variables variables, SlurmOptions options = {}) {
  options.environment = Environment(std::move(variables));
  return SlurmResolver(options).resolve();
}

// Numbers from the environment are held against what there can be before names are made of them.
TEST(SlurmResolverTest, MoreThanThereCanBeIsRefused) {
  expect_error([] { (void)slurm(step(0, 3, "n[1-3]", "2000000000(x3)")); },
               "[cluster] SLURM: got 6000000000 tasks; expected at most 65536");
  auto variables = step(0, 1, "n1", "1");
  variables["SLURM_GPUS_ON_NODE"] = "2000000000";
  expect_error([&] { (void)slurm(variables); },
               "[cluster] SLURM: got 2000000000 GPUs on a node; expected at most 65536");
  // A node with many tasks among many nodes with one: as many steps as tasks.
  variables = step(0, 60'000, "n[1-30000]", "30001,1(x29999)");
  variables["SLURM_DISTRIBUTION"] = "cyclic";
  EXPECT_EQ(slurm(variables).spec.num_tasks("worker"), 60'000);
}

TEST(SlurmResolverTest, RanksFollowSlurmsOrderOfNodes) {
  const auto resolution = slurm(step(1, 3, "n[9-11]", "1(x3)"));
  EXPECT_EQ(resolution.spec, ClusterSpec({{"worker", {"n9:8888", "n10:8888", "n11:8888"}}}));
  EXPECT_EQ(resolution.task(), (TaskId{"worker", 1}));
}

TEST(SlurmResolverTest, RanksFollowTheDistribution) {
  auto variables = step(0, 5, "n[1-2]", "3,2");
  variables["SLURM_DISTRIBUTION"] = "cyclic";
  EXPECT_EQ(slurm(variables).spec,
            ClusterSpec({{"worker", {"n1:8888", "n2:8888", "n1:8889", "n2:8889", "n1:8890"}}}));
  variables["SLURM_DISTRIBUTION"] = "plane";
  variables["SLURM_DIST_PLANESIZE"] = "2";
  EXPECT_EQ(slurm(variables).spec,
            ClusterSpec({{"worker", {"n1:8888", "n1:8889", "n2:8888", "n2:8889", "n1:8890"}}}));
  variables["SLURM_DISTRIBUTION"] = "block:cyclic";
  EXPECT_EQ(slurm(variables).spec,
            ClusterSpec({{"worker", {"n1:8888", "n1:8889", "n1:8890", "n2:8888", "n2:8889"}}}));
  variables["SLURM_DISTRIBUTION"] = "arbitrary";
  expect_error([&] { (void)slurm(variables); },
               "[cluster] SLURM: got SLURM_DISTRIBUTION=\"arbitrary\"; expected block, cyclic or "
               "plane: pass srun --distribution=block");
  variables["SLURM_DISTRIBUTION"] = "plane";
  variables.erase("SLURM_DIST_PLANESIZE");
  expect_error([&] { (void)slurm(variables); },
               "[cluster] SLURM: got SLURM_DISTRIBUTION=plane without SLURM_DIST_PLANESIZE");
}

TEST(SlurmResolverTest, OwnPlaceIsChecked) {
  auto variables = step(2, 3, "n[1-2]", "2,1");
  variables["SLURM_NODEID"] = "1";
  variables["SLURM_LOCALID"] = "0";
  EXPECT_EQ(slurm(variables).task(), (TaskId{"worker", 2}));
  variables["SLURM_NODEID"] = "0";
  expect_error([&] { (void)slurm(variables); },
               "[cluster] SLURM: got SLURM_PROCID=2 with SLURM_NODEID=0 and SLURM_LOCALID=0; "
               "expected node 1 and local task 0 from the numbers of tasks a node: the variables "
               "are of different steps, or tasks do not match SLURM_DISTRIBUTION; "
               "pass srun --distribution=block");
}

TEST(SlurmResolverTest, VariablesOfTheStepComeFirst) {
  Variables variables = {
      {"SLURM_PROCID", "1"}, {"SLURM_JOB_NODELIST", "n[1-4]"}, {"SLURM_TASKS_PER_NODE", "1(x4)"}};
  EXPECT_EQ(slurm(variables).spec.num_tasks("worker"), 4);
  variables.merge(step(1, 2, "n[3-4]", "1(x2)"));
  EXPECT_EQ(slurm(variables).spec, ClusterSpec({{"worker", {"n3:8888", "n4:8888"}}}));
}

TEST(SlurmResolverTest, EachTaskGetsItsShareOfTheGpusItSees) {
  using Gpus = std::optional<Names>;
  auto variables = step(1, 2, "n1", "2");
  EXPECT_EQ(slurm(variables).visible_gpus, std::nullopt);
  EXPECT_EQ(slurm(variables).num_accelerators.at("GPU"), 0);
  variables["CUDA_VISIBLE_DEVICES"] = "4,5,GPU-a,GPU-b";
  EXPECT_EQ(slurm(variables).visible_gpus, (Gpus{Names{"GPU-a", "GPU-b"}}));
  EXPECT_EQ(slurm(variables).num_accelerators.at("GPU"), 2);
  // More tasks than GPUs: these ones work on the processor.
  variables["CUDA_VISIBLE_DEVICES"] = "0";
  EXPECT_EQ(slurm(variables).visible_gpus, Gpus{Names{}});
  // Not told which, only how many.
  variables.erase("CUDA_VISIBLE_DEVICES");
  variables["SLURM_GPUS_ON_NODE"] = "4";
  EXPECT_EQ(slurm(variables).visible_gpus, (Gpus{Names{"2", "3"}}));
  // srun --gpus-per-task has divided them.
  variables["CUDA_VISIBLE_DEVICES"] = "1,2";
  EXPECT_EQ(slurm(variables).visible_gpus, std::nullopt);
  EXPECT_EQ(slurm(variables).num_accelerators.at("GPU"), 2);
  variables["SLURM_GPUS_PER_TASK"] = "h100:2";
  EXPECT_EQ(slurm(variables).visible_gpus, std::nullopt);
  // It has not: srun --gpus-per-task=1 --gpu-bind=none.
  variables["SLURM_GPUS_PER_TASK"] = "1";
  variables["CUDA_VISIBLE_DEVICES"] = "0,1,2,3";
  EXPECT_EQ(slurm(variables).visible_gpus, (Gpus{Names{"1"}}));
  EXPECT_EQ(slurm(variables).num_accelerators.at("GPU"), 1);
}

TEST(SlurmResolverTest, ErrorsNameTheVariable) {
  const auto without = [](const char* name) {
    auto variables = step(0, 2, "n[1-2]", "1(x2)");
    variables.erase(name);
    return variables;
  };
  const std::string hint = "; not in a SLURM step? Start the program with srun";
  expect_error([&] { (void)slurm(without("SLURM_PROCID")); },
               "[cluster] SLURM: got no SLURM_PROCID" + hint);
  expect_error([&] { (void)slurm(without("SLURM_STEP_NODELIST")); },
               "[cluster] SLURM: got neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST" + hint);
  expect_error(
      [&] { (void)slurm(without("SLURM_STEP_TASKS_PER_NODE")); },
      "[cluster] SLURM: got neither SLURM_STEP_TASKS_PER_NODE nor SLURM_TASKS_PER_NODE" + hint);
  expect_error(
      [&] {
        (void)slurm({{"SLURM_PROCID", "x"}});
      },
      "[cluster] environment: got SLURM_PROCID=\"x\"; expected a number from 0 up");
  expect_error([&] { (void)slurm(step(0, 2, "n[1-3]", "1(x2)")); },
               "[cluster] SLURM: got 3 nodes and numbers of tasks for 2 of them; the variables are "
               "of different steps");
  expect_error([&] { (void)slurm(step(2, 2, "n[1-2]", "1(x2)")); },
               "[cluster] SLURM: got SLURM_PROCID=2, but the step has 2 tasks; the variables are "
               "of different steps");
  expect_error(
      [&] {
        (void)slurm(step(0, 2, "n[1-2]", "1(x2)"), {.jobs = {{{"worker", 3}}}});
      },
      "[cluster] SLURM: got jobs for 3 tasks, but the step has 2; start it with srun "
      "--ntasks=3");
  expect_error(
      [&] { (void)slurm(step(0, 2, "n1", "2"), {.gpus_per_node = 1, .gpus_per_task = 1}); },
      "[cluster] SLURM: got 1 GPUs a task for 2 tasks on a node with 1 GPUs; ask for fewer a task "
      "(gpus_per_task) or start fewer tasks a node");
}

Resolution mpi(Variables variables, MpiOptions options = {}) {
  options.environment = Environment(std::move(variables));
  return MpiResolver(options).resolve();
}

TEST(MpiResolverTest, MoreRanksThanThereCanBeAreRefused) {
  expect_error(
      [] {
        (void)mpi({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2000000000"}});
      },
      "[cluster] MPI: got OMPI_COMM_WORLD_SIZE=2000000000; expected at most 65536");
}

TEST(MpiResolverTest, OneHostNeedsNoLeader) {
  const auto resolution = mpi({{"OMPI_COMM_WORLD_RANK", "2"},
                               {"OMPI_COMM_WORLD_SIZE", "3"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}});
  EXPECT_EQ(resolution.spec,
            ClusterSpec({{"worker", {"127.0.0.1:8888", "127.0.0.1:0", "127.0.0.1:0"}}}));
  EXPECT_EQ(resolution.task(), (TaskId{"worker", 2}));
}

TEST(MpiResolverTest, SeveralHostsMeetAtTheLeader) {
  const Variables ranks = {{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  const auto leader = [&](const char* name, const char* value, const char* expected) {
    auto variables = ranks;
    variables[name] = value;
    EXPECT_EQ(mpi(variables).spec, ClusterSpec({{"worker", {expected, ":0"}}})) << value;
  };
  leader("STRATA_LEADER", "head:2222", "head:2222");
  leader("STRATA_LEADER", "head", "head:8888");
  leader("STRATA_LEADER", "[fe80::1]", "[fe80::1]:8888");
  leader("STRATA_LEADER", "[fe80::1]:7", "[fe80::1]:7");
  leader("SLURM_JOB_NODELIST", "n[003-004]", "n003:8888");
  EXPECT_EQ(mpi(ranks, {.leader = "head", .port_base = 7}).spec,
            ClusterSpec({{"worker", {"head:7", ":0"}}}));
  expect_error([&] { (void)mpi(ranks); },
               "[cluster] MPI: got 2 ranks on several hosts, and no address of rank 0; pass it: "
               "mpirun -x STRATA_LEADER=host:port, or MpiOptions{.leader}");
}

TEST(MpiResolverTest, OtherLaunchers) {
  EXPECT_EQ(mpi({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}}).task(),
            (TaskId{"worker", 1}));
  EXPECT_EQ(mpi(step(1, 2, "n[1-2]", "1(x2)")).spec, ClusterSpec({{"worker", {"n1:8888", ":0"}}}));
  expect_error(
      [] {
        (void)mpi({{"PMI_RANK", "1"}});
      },
      "[cluster] MPI: got neither OMPI_COMM_WORLD_RANK and _SIZE nor PMI_RANK and "
      "PMI_SIZE; not started by mpirun, mpiexec or srun?");
  expect_error(
      [] {
        (void)mpi({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}});
      },
      "[cluster] MPI: got PMI_RANK=2 and PMI_SIZE=2; expected a rank below the size");
}

Resolution kubernetes(Variables variables, KubernetesOptions options = {}) {
  options.environment = Environment(std::move(variables));
  return KubernetesResolver(options).resolve();
}

TEST(KubernetesResolverTest, AnIndexedJob) {
  const auto resolution = kubernetes({{"HOSTNAME", "mnist-1"},
                                      {"JOB_COMPLETION_INDEX", "1"},
                                      {"STRATA_KUBERNETES_JOBS", "worker=2"},
                                      {"STRATA_KUBERNETES_SERVICE", "net"},
                                      {"POD_NAMESPACE", "team"}});
  EXPECT_EQ(resolution.spec,
            ClusterSpec({{"worker", {"mnist-0.net.team.svc:8470", "mnist-1.net.team.svc:8470"}}}));
  EXPECT_EQ(resolution.task(), (TaskId{"worker", 1}));
}

TEST(KubernetesResolverTest, AStatefulSetAJob) {
  const Variables variables = {{"HOSTNAME", "big-net-ps-0"},
                               {"STRATA_KUBERNETES_JOBS", "worker=2,ps=1"}};
  const ClusterSpec spec(
      {{"ps", {"big-net-ps-0.big-net:8470"}},
       {"worker", {"big-net-worker-0.big-net:8470", "big-net-worker-1.big-net:8470"}}});
  EXPECT_EQ(kubernetes(variables).spec, spec);
  EXPECT_EQ(kubernetes(variables).task(), (TaskId{"ps", 0}));
  auto worker = variables;
  worker["HOSTNAME"] = "big-net-worker-1";
  EXPECT_EQ(kubernetes(worker).spec, spec);
  EXPECT_EQ(kubernetes(worker).task(), (TaskId{"worker", 1}));
  EXPECT_EQ(kubernetes(worker, {.service = "s", .pod_namespace = "n", .port = 1})
                .spec.task_address("ps", 0),
            "big-net-ps-0.s.n.svc:1");
}

TEST(KubernetesResolverTest, MoreTasksThanThereCanBeAreRefused) {
  expect_error(
      [] {
        (void)kubernetes({{"STRATA_KUBERNETES_JOBS", "worker=65536,ps=1"}, {"HOSTNAME", "t-ps-0"}});
      },
      "[cluster] Kubernetes: got STRATA_KUBERNETES_JOBS=\"worker=65536,ps=1\"; expected at most "
      "65536 tasks");
}

TEST(KubernetesResolverTest, ErrorsNameTheVariable) {
  expect_error(
      [] {
        (void)kubernetes({{"HOSTNAME", "a-0"}});
      },
      "[cluster] Kubernetes: got no STRATA_KUBERNETES_JOBS; set it to how many tasks each "
      "job has, as in worker=4,ps=2, in the pod's template");
  for (const char* text : {"worker", "worker=", "worker=x", "worker=0", "worker=2,,ps=1"}) {
    expect_error_containing(
        [&] {
          (void)kubernetes({{"STRATA_KUBERNETES_JOBS", text}});
        },
        ErrorCode::kInvalidArgument,
        str_cat("[cluster] Kubernetes: got STRATA_KUBERNETES_JOBS=\"", text, "\" with \""));
  }
  const Variables jobs = {{"STRATA_KUBERNETES_JOBS", "worker=2,ps=1"}};
  expect_error([&] { (void)kubernetes(jobs); },
               "[cluster] Kubernetes: got no HOSTNAME; Kubernetes sets it in every container");
  auto variables = jobs;
  const std::string hint =
      "; expected a name that ends in the task's index, train-worker-2: use a StatefulSet or a Job "
      "with completionMode: Indexed, without hostNetwork or a hostname of its own";
  for (const char* name : {"node7", "train-worker-x8z9k", "train-worker-"}) {
    variables["HOSTNAME"] = name;
    expect_error([&] { (void)kubernetes(variables); },
                 str_cat("[cluster] Kubernetes: got HOSTNAME=\"", name, "\"", hint));
  }
  variables["HOSTNAME"] = "train-worker-1";
  variables["JOB_COMPLETION_INDEX"] = "2";
  expect_error(
      [&] { (void)kubernetes(variables); },
      "[cluster] Kubernetes: got HOSTNAME=\"train-worker-1\" and JOB_COMPLETION_INDEX=2" + hint);
  variables = jobs;
  variables["HOSTNAME"] = "train-1";
  expect_error([&] { (void)kubernetes(variables); },
               "[cluster] Kubernetes: got a pod of \"train\" and jobs ps=1,worker=2; expected a "
               "name that ends in -<job>, as in train-worker");
}

/// Variables of this process, as they were when it goes.
class ProcessVariables {
 public:
  ~ProcessVariables() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  void set(const Variables& variables) {
    for (const auto& [name, value] : variables) {
      ::setenv(name.c_str(), value.c_str(), 1);
      names_.push_back(name);
    }
  }

 private:
  Names names_;
};

std::string detected() {
  const auto resolver = detect_cluster_resolver();
  return resolver ? resolver->resolve().source : "none";
}

TEST(DetectTest, WhatStartedTheProcessDecides) {
  const Variables srun = step(1, 2, "n[1-2]", "1(x2)");
  const Variables mpirun = {{"OMPI_COMM_WORLD_RANK", "0"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  const Variables pods = {{"HOSTNAME", "a-0"}, {"STRATA_KUBERNETES_JOBS", "worker=2"}};
  EXPECT_EQ(detected(), "none");
  EXPECT_FALSE(resolve_cluster().has_value());
  ProcessVariables variables;
  variables.set(pods);
  EXPECT_EQ(detected(), "Kubernetes");
  // mpiexec's helper under srun: the ranks are MPI's.
  variables.set({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "4"}});
  variables.set(srun);
  EXPECT_EQ(detected(), "MPI");
  EXPECT_EQ(resolve_cluster()->task, (TaskId{"worker", 3}));
  // srun speaks PMI, too: then both say the same, and SLURM knows the hosts.
  variables.set({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(detected(), "SLURM");
  variables.set(mpirun);
  EXPECT_EQ(detected(), "MPI");
  variables.set({{"TF_CONFIG", R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}})"}});
  EXPECT_EQ(detected(), "TF_CONFIG");
  EXPECT_EQ(resolve_cluster()->task, (TaskId{"worker", 0}));
}

TEST(DetectTest, ABatchScriptIsOneProcess) {
  ProcessVariables variables;
  variables.set({{"SLURM_PROCID", "0"},
                 {"SLURM_NTASKS", "4"},
                 {"SLURM_JOB_NODELIST", "n[1-4]"},
                 {"SLURM_TASKS_PER_NODE", "1(x4)"}});
  EXPECT_EQ(detected(), "none");
}

}  // namespace
}  // namespace strata::cluster
