// Bad TF_CONFIGs: each error quotes the offending part and says how to mend it.
#include <gtest/gtest.h>

#include "strata/cluster/resolvers.h"
#include "strata/cluster/roles.h"
#include "strata/core/log.h"
#include "support/expect_error.h"

namespace strata::cluster {
namespace {

constexpr const char* kForm =
    R"({"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}})";

std::optional<Cluster> resolved(std::string text) {
  return resolve_cluster(
      TfConfigResolver({.environment = Environment({{"TF_CONFIG", std::move(text)}})}));
}

std::string with_cluster(const std::string& cluster) {
  return str_cat("{\"cluster\": ", cluster, R"(, "task": {"type": "worker", "index": 0}})");
}

std::string with_task(const std::string& task) {
  return str_cat(R"({"cluster": {"worker": ["a:1", "b:2"]}, "task": )", task, "}");
}

void expect_message(const std::string& text, const std::string& message) {
  SCOPED_TRACE(text);
  expect_error([&] { (void)resolved(text); }, "[cluster] TF_CONFIG" + message);
}

TEST(TfConfigTest, AGoodOneIsTheClusterAndItsTask) {
  const auto cluster = resolved(with_task(R"({"type": "worker", "index": "1"})"));
  ASSERT_TRUE(cluster.has_value());
  EXPECT_EQ(cluster->task, (TaskId{"worker", 1}));
  EXPECT_EQ(cluster->spec, ClusterSpec({{"worker", {"a:1", "b:2"}}}));
  EXPECT_EQ(cluster->resolution.source, "TF_CONFIG");
}

TEST(TfConfigTest, ThatItNamesNoClusterIsSaidOnce) {
  std::vector<std::string> lines;
  const LogSink before =
      set_log_sink([&](const LogRecord& record) { lines.emplace_back(record.message); });
  const std::string misspelt = R"({"Cluster": {"worker": ["a:1", "b:2"]}, "task": {}})";
  EXPECT_FALSE(resolved(misspelt).has_value());
  EXPECT_FALSE(resolved(misspelt).has_value());
  EXPECT_FALSE(resolved("{}").has_value());  // asks for one process
  set_log_sink(before);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            str_cat("[cluster] TF_CONFIG has no \"cluster\" but \"Cluster\", \"task\": this "
                    "process works alone; write it as ",
                    kForm));
}

TEST(TfConfigTest, MembersThatNothingReadsAreNamedOnce) {
  std::vector<std::string> lines;
  const LogSink before =
      set_log_sink([&](const LogRecord& record) { lines.emplace_back(record.message); });
  const std::string misspelt =
      R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}, "Task": {}, "x": 1})";
  (void)resolved(misspelt);
  (void)resolved(misspelt);
  (void)resolved(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0},
                     "rpc_layer": "grpc", "session_master": "x", "environment": "cloud"})");
  set_log_sink(before);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "[cluster] TF_CONFIG: got \"Task\", \"x\", which nothing reads; expected "
            "\"cluster\", \"task\", \"rpc_layer\" and \"session_master\": is a name misspelt?");
}

TEST(TfConfigTest, WithoutAClusterTheProcessIsAlone) {
  EXPECT_FALSE(resolve_cluster(TfConfigResolver({.environment = Environment()})).has_value());
  for (const char* text :
       {"{}", R"({"task": {"type": "worker", "index": 0}})", R"({"cluster": {}})"}) {
    EXPECT_FALSE(resolved(text).has_value()) << text;
  }
}

TEST(TfConfigTest, TheOnlyTaskOfAJobNeedsNoIndex) {
  const auto cluster =
      resolved(R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief"}})");
  EXPECT_EQ(cluster->task, (TaskId{"chief", 0}));
}

TEST(TfConfigTest, AnEvaluatorMayBeInsideOrOutside) {
  for (const char* cluster :
       {R"({"worker": ["a:1"]})", R"({"worker": ["a:1"], "evaluator": ["e:1"]})"}) {
    for (const char* task : {R"({"type": "evaluator", "index": 0})", R"({"type": "evaluator"})"}) {
      const auto found = resolved(str_cat("{\"cluster\": ", cluster, ", \"task\": ", task, "}"));
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(found->task, (TaskId{"evaluator", 0}));
      EXPECT_TRUE(is_chief(found->spec, found->task));
      EXPECT_EQ(worker_count(found->spec, found->task), 1);
      EXPECT_EQ(id_in_cluster(found->spec, found->task), 0);
      EXPECT_EQ(members(found->spec), (std::vector<TaskId>{{"worker", 0}}));
    }
  }
}

TEST(TfConfigTest, NotJson) {
  expect_message("{'cluster': {}}",
                 " is not JSON: got ''cluster': {' at byte 1; expected a member's name; TF_CONFIG "
                 "is \"{'cluster': {}}\"; JSON has double quotes");
  expect_message("",
                 " is not JSON: got the end at byte 0; expected a value; TF_CONFIG is \"\"; "
                 "unset it to run as one process");
  expect_message("{\"cluster\": ",
                 str_cat(" is not JSON: got the end at byte 12; expected a value; TF_CONFIG is "
                         "\"{\"cluster\": \"; write it as ",
                         kForm));
  expect_message("worker:0" + std::string(300, 'x'),
                 str_cat(" is not JSON: got 'worker:0xxxx' at byte 0; expected a value; TF_CONFIG "
                         "is \"worker:0",
                         std::string(192, 'x'), "...\"; write it as ", kForm));
  expect_message("[]", str_cat(": got []; expected an object, ", kForm));
}

TEST(TfConfigTest, TwoMembersOfOneName) {
  expect_message(R"({"cluster": {"chief": ["a:1"], "chief": ["b:1"]}})",
                 str_cat(" is not JSON: got '}' at byte 48; expected the name 'chief' once in the "
                         "object before; TF_CONFIG is \"{\"cluster\": {\"chief\": [\"a:1\"], "
                         "\"chief\": [\"b:1\"]}}\"; write it as ",
                         kForm));
}

TEST(TfConfigTest, WrongShapes) {
  expect_message(
      with_cluster("[1]"),
      str_cat(": got cluster = [1]; expected an object from jobs to addresses, as in ", kForm));
  expect_message(with_cluster(R"({"worker": "a:1"})"),
                 ", cluster: got worker = \"a:1\"; expected a list of addresses, "
                 "[\"host1:2222\", \"host2:2222\"]");
  expect_message(with_cluster(R"({"worker": ["a:1", 2]})"),
                 ", cluster: got worker[1] = 2; expected an address as text, \"host:port\"");
  expect_message(with_task("\"worker\""),
                 R"(: got task = "worker"; expected {"type": "worker", "index": 0})");
  expect_message(with_task(R"({"type": 3, "index": 0})"),
                 ": got task.type = 3; expected text in double quotes");
  for (const char* index : {"-1", "1.5", "true", "\"one\"", "[0]", "4294967296"}) {
    expect_message(with_task(str_cat(R"({"type": "worker", "index": )", index, "}")),
                   str_cat(": got task.index = ", index, "; expected a number from 0 up"));
  }
  expect_message(R"({"rpc_layer": 1})", ": got rpc_layer = 1; expected text in double quotes");
}

TEST(TfConfigTest, NoTask) {
  for (const char* text : {R"({"cluster": {"worker": ["a:1", "b:2"]}})",
                           R"({"cluster": {"worker": ["a:1", "b:2"]}, "task": {}})",
                           R"({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"index": 0}})"}) {
    expect_message(text,
                   ": got ClusterSpec({'worker': ['a:1', 'b:2']}), but nothing that names the "
                   "task of this process; expected a task, {\"type\": \"worker\", \"index\": "
                   "0} in TF_CONFIG");
  }
  expect_message(with_task(R"({"type": "worker"})"),
                 ": got task type \"worker\" without an index; expected one from 0 to 1");
  expect_message(with_task(R"({"type": "chief"})"),
                 ": got task type \"chief\" without an index, which is no job of "
                 "ClusterSpec({'worker': ['a:1', 'b:2']})");
}

TEST(TfConfigTest, ATaskThatIsNotInTheCluster) {
  expect_message(with_task(R"({"type": "worker", "index": 2})"),
                 ": got task index 2, but \"worker\" has 2 tasks, [\"a:1\",\"b:2\"]; expected 0 to "
                 "1");
  expect_message(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}})",
                 ": got task index 1, but \"worker\" has 1 task, [\"a:1\"]; expected 0");
  expect_message(with_task(R"({"type": "ps", "index": 0})"),
                 ": got task type \"ps\", which is no job of ClusterSpec({'worker': ['a:1', "
                 "'b:2']}); add its address there");
  expect_message(with_task(R"({"type": "evaluator", "index": 1})"),
                 ": got evaluator 1; there is one evaluator at most: set its index to 0");
  expect_message(with_task(R"({"type": "wroker", "index": 1})"),
                 ": got task type \"wroker\"; expected chief, worker, ps or evaluator; did you "
                 "mean \"worker\"?");
}

TEST(TfConfigTest, AClusterThatCannotRun) {
  expect_message(with_cluster(R"({"wrker": ["a:1"]})"),
                 ": got a job \"wrker\" in the cluster; expected chief, worker, ps or evaluator; "
                 "did you mean \"worker\"?");
  expect_message(with_cluster(R"({"master": ["a:1"], "worker": ["b:1"]})"),
                 ": got a job \"master\" in the cluster; expected chief, worker, ps or evaluator; "
                 "\"master\" is the chief's old name: write \"chief\"");
  expect_message(with_cluster(R"({"trainer": ["a:1"], "worker": ["b:1"]})"),
                 ": got a job \"trainer\" in the cluster; expected chief, worker, ps or evaluator; "
                 "rename the job");
  expect_message(with_cluster(R"({"chief": ["a:1", "b:1"], "worker": ["c:1"]})"),
                 ": got 2 tasks of job \"chief\" ([\"a:1\",\"b:1\"]); expected one at most; move "
                 "the others to \"worker\"");
  expect_message(with_cluster(R"({"evaluator": ["a:1", "b:1"], "worker": ["c:1"]})"),
                 ": got 2 tasks of job \"evaluator\" ([\"a:1\",\"b:1\"]); expected one at most; "
                 "leave one");
  expect_message(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}})",
                 ": got ClusterSpec({'ps': ['a:1']}), where no task trains; expected a chief or a "
                 "worker; add one");
  expect_message(with_cluster(R"({"worker": {"0": "a:1", "2": "b:1"}})"),
                 ": got task 2 of \"worker\", but no task 1; expected indices from 0 without gaps");
}

TEST(TfConfigTest, Addresses) {
  expect_message(with_cluster(R"({"worker": ["a:1", "b:1"], "ps": ["a:1"]})"),
                 ": got \"a:1\" for both /job:ps/task:0 and /job:worker/task:0; give each its own "
                 "port");
  const std::pair<const char*, const char*> addresses[] = {
      {"b", "got \"b\"; expected host:port or [IPv6]:port"},
      {"b:", "got \"b:\", which has no port; expected host:port"},
      {"b:x", "got \"b:x\" with port \"x\"; expected a number from 0 to 65535"},
      {"::1:80", "got \"::1:80\"; an IPv6 address is written in brackets: [::1]:port"},
      {"b c:1", "got \"b c:1\"; the host \"b c\" is no name and no address"},
  };
  for (const auto& [address, what] : addresses) {
    expect_message(with_cluster(str_cat(R"({"worker": ["a:1", ")", address, "\"]}")),
                   str_cat(", /job:worker/task:1: ", what));
  }
  // Ports that the system picks, and IPv6.
  EXPECT_TRUE(resolved(with_cluster(R"({"worker": ["[::1]:2222", "a:0", "a:0", ":0"]})")));
}

}  // namespace
}  // namespace strata::cluster
