// What a user can get wrong in TF_CONFIG, each through real processes: it ends within its deadline,
// with an error that quotes the part. docs/clusters.md shows the same messages.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <ostream>
#include <regex>

#include "strata/core/str_cat.h"
#include "support/process_cluster.h"
#include "support/source_path.h"
#include "wire/tcp/socket_transport.h"

namespace strata::test {
namespace {

using cluster::TaskId;

constexpr int kDeadlineMs = 2000;
// A busy machine may start threads late; a wait without a deadline would take minutes.
constexpr int kLatestMs = kDeadlineMs + 3000;

struct BadCluster {
  const char* name;
  // What the tasks get, from worker 0 on. P0 to P3 are free ports, P9 one that is in use.
  std::vector<std::string> tf_configs;
  // What the last of them says. In the document the ports are 2220 to 2223 and 2229.
  std::string code;
  std::string message;
  std::vector<std::string> secrets = {};  // of the job; empty: none
};

std::ostream& operator<<(std::ostream& out, const BadCluster& bad) { return out << bad.name; }

std::string replaced(std::string text, const std::vector<int>& ports) {
  for (size_t i = 0; i < ports.size(); ++i) {
    const std::string name = str_cat("P", i == 4 ? 9 : i);
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos;) {
      text.replace(at, name.size(), std::to_string(ports[i]));
    }
  }
  return text;
}

std::string document() {
  std::ifstream file(source_path("docs/clusters.md"));
  return {std::istreambuf_iterator<char>(file), {}};
}

class BadClustersTest : public testing::TestWithParam<BadCluster> {};

TEST_P(BadClustersTest, EndsInTimeAndQuotesThePart) {
  const BadCluster& bad = GetParam();
  const auto occupant = wire::make_socket_transport();
  const wire::Address taken =
      occupant->listen({.host = "127.0.0.1", .port = 0}, {"strata", "/job:other/task:0", 0, ""});
  std::vector<int> ports = free_ports(4);
  ports.push_back(taken.port);

  const auto count = static_cast<int>(bad.tf_configs.size());
  ProcessCluster cluster(STRATA_CLUSTER_TASK, {"rounds", "1"}, {{"worker", count}});
  for (int i = 0; i < count; ++i) {
    const std::string& config = bad.tf_configs[static_cast<size_t>(i)];
    cluster.set_environment({"worker", i}, "TF_CONFIG", replaced(config, ports));
    cluster.set_environment({"worker", i}, "STRATA_START_MS", std::to_string(kDeadlineMs));
    if (bad.secrets.empty() || bad.secrets[static_cast<size_t>(i)].empty()) continue;
    cluster.set_environment({"worker", i}, "STRATA_JOB_SECRET",
                            bad.secrets[static_cast<size_t>(i)]);
  }
  cluster.start();
  for (const auto& [task, exit] : cluster.wait(std::chrono::seconds(60))) {
    EXPECT_TRUE(exit.in_time) << task.to_string();
    EXPECT_EQ(exit.code, 1) << exit.output;
    std::smatch found;
    ASSERT_TRUE(
        std::regex_search(exit.output, found, std::regex("error ([A-Z_]+) after (\\d+) ms: ")))
        << exit.output;
    EXPECT_LT(std::stoi(found[2]), kLatestMs) << exit.output;
    if (task.index + 1 < count) continue;
    EXPECT_EQ(found[1], bad.code);
    EXPECT_NE(exit.output.find(replaced(bad.message, ports)), std::string::npos) << exit.output;
  }
  const std::string shown = replaced(bad.message, {2220, 2221, 2222, 2223, 2229});
  EXPECT_NE(document().find(shown), std::string::npos) << "docs/clusters.md lacks: " << shown;
}

const std::vector<BadCluster>& bad_clusters() {
  static const std::vector<BadCluster> kAll = {
      {"NotJson",
       {"{'cluster': {'worker': ['host1:2222']}}"},
       "INVALID_ARGUMENT",
       "[cluster] TF_CONFIG is not JSON: got ''cluster': {' at byte 1; expected a member's name; "
       "TF_CONFIG is \"{'cluster': {'worker': ['host1:2222']}}\"; JSON has double quotes"},
      {"NoTask",
       {R"({"cluster": {"worker": ["host1:2222", "host2:2222"]}})"},
       "INVALID_ARGUMENT",
       "[cluster] TF_CONFIG: got ClusterSpec({'worker': ['host1:2222', 'host2:2222']}), but "
       "nothing that names the task of this process; expected a task, {\"type\": "
       "\"worker\", \"index\": 0} in TF_CONFIG"},
      {"IndexOutOfRange",
       {R"({"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 2}})"},
       "INVALID_ARGUMENT",
       "[cluster] TF_CONFIG: got task index 2, but \"worker\" has 2 tasks, "
       "[\"host1:2222\",\"host2:2222\"]; expected 0 to 1"},
      {"TwoChiefs",
       {R"({"cluster": {"chief": ["host1:2222", "host2:2222"]}, "task": {"type": "chief", "index": 0}})"},
       "INVALID_ARGUMENT",
       "[cluster] TF_CONFIG: got 2 tasks of job \"chief\" ([\"host1:2222\",\"host2:2222\"]); "
       "expected one at most; move the others to \"worker\""},
      {"DuplicateAddresses",
       {R"({"cluster": {"worker": ["host1:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}})"},
       "INVALID_ARGUMENT",
       "[cluster] TF_CONFIG: got \"host1:2222\" for both /job:worker/task:0 and "
       "/job:worker/task:1; give each its own port"},
      {"UnknownRole",
       {R"({"cluster": {"wroker": ["host1:2222", "host2:2222"]}, "task": {"type": "wroker", "index": 0}})"},
       "INVALID_ARGUMENT",
       "[cluster] TF_CONFIG: got a job \"wroker\" in the cluster; expected chief, worker, ps or "
       "evaluator; did you mean \"worker\"?"},
      {"DifferentSpecs",
       {R"({"cluster": {"worker": ["127.0.0.1:P0", "127.0.0.1:P1", "127.0.0.1:P3"]}, "task": {"type": "worker", "index": 0}})",
        R"({"cluster": {"worker": ["127.0.0.1:P0", "127.0.0.1:P2", "127.0.0.1:P3"]}, "task": {"type": "worker", "index": 1}})"},
       "INVALID_ARGUMENT",
       "[cluster] rendezvous: got two cluster specs: for /job:worker/task:1 the leader "
       "/job:worker/task:0 has \"127.0.0.1:P1\", /job:worker/task:1 has \"127.0.0.1:P2\"; give all "
       "tasks the same one"},
      {"AnAddressInUse",
       {R"({"cluster": {"worker": ["127.0.0.1:P9", "127.0.0.1:P0"]}, "task": {"type": "worker", "index": 0}})"},
       "ALREADY_EXISTS",
       "[cluster] /job:worker/task:0 cannot listen at 127.0.0.1:P9: [wire] listen: got "
       "127.0.0.1:P9: Address already in use; port 0 takes a free one; end the process that has "
       "it, or give this task another port"},
      {"AnOwnNameThatIsNotKnown",
       {R"({"cluster": {"worker": ["no-such-host.invalid:2222", "127.0.0.1:P0"]}, "task": {"type": "worker", "index": 0}})"},
       "INVALID_ARGUMENT",
       "[cluster] /job:worker/task:0 cannot listen at no-such-host.invalid:2222: the name "
       "\"no-such-host.invalid\" is not known"},
      {"ALeadersNameThatIsNotKnown",
       {R"({"cluster": {"worker": ["no-such-host.invalid:2222", "127.0.0.1:P0"]}, "task": {"type": "worker", "index": 1}})"},
       "DEADLINE_EXCEEDED",
       "[cluster] rendezvous: /job:worker/task:1 could not reach the leader /job:worker/task:0 at "
       "no-such-host.invalid:2222: "},
      {"SomebodyDoesNotCome",
       {R"({"cluster": {"worker": ["127.0.0.1:P0", "127.0.0.1:P1"]}, "task": {"type": "worker", "index": 0}})"},
       "DEADLINE_EXCEEDED",
       "[cluster] rendezvous: /job:worker/task:1 at 127.0.0.1:P1 did not join within "},
      {"ATaskWithoutTheSecret",
       {R"({"cluster": {"worker": ["127.0.0.1:P0", "127.0.0.1:P1"]}, "task": {"type": "worker", "index": 0}})",
        R"({"cluster": {"worker": ["127.0.0.1:P0", "127.0.0.1:P1"]}, "task": {"type": "worker", "index": 1}})"},
       "UNAUTHENTICATED",
       "[cluster] rendezvous: /job:worker/task:1 could not reach the leader /job:worker/task:0 at "
       "127.0.0.1:P0: [wire] connect: /job:worker/task:0 at 127.0.0.1:P0 refused: "
       "/job:worker/task:1 has no job secret, and /job:worker/task:0 asks for one; set "
       "STRATA_JOB_SECRET_FILE to a copy of the same file for all tasks (or STRATA_JOB_SECRET, or "
       "the option job_secret)",
       {"the secret of this job", ""}},
      {"ATaskWithAnotherSecret",
       {R"({"cluster": {"worker": ["127.0.0.1:P0", "127.0.0.1:P1"]}, "task": {"type": "worker", "index": 0}})",
        R"({"cluster": {"worker": ["127.0.0.1:P0", "127.0.0.1:P1"]}, "task": {"type": "worker", "index": 1}})"},
       "UNAUTHENTICATED",
       "refused: the job secrets of /job:worker/task:1 and /job:worker/task:0 differ, or something "
       "between them changes what they send; set STRATA_JOB_SECRET_FILE to a copy of the same file "
       "for all tasks (or STRATA_JOB_SECRET, or the option job_secret)",
       {"the secret of this job", "the secret of another job"}},
  };
  return kAll;
}

INSTANTIATE_TEST_SUITE_P(All, BadClustersTest, testing::ValuesIn(bad_clusters()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace strata::test
