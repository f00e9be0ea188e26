#include "strata/cluster/cluster_spec.h"

#include <gtest/gtest.h>

#include "strata/core/error.h"
#include "support/expect_error.h"

namespace strata::cluster {
namespace {

const ClusterSpec kSpec = {{"worker", {"w0:1", "w1:1"}}, {"ps", {"p0:1"}}};

TEST(TaskIdTest, ReadsAndWritesBothForms) {
  const TaskId task = {"worker", 1};
  EXPECT_EQ(task.to_string(), "/job:worker/task:1");
  EXPECT_EQ(task.short_name(), "worker:1");
  for (const char* text : {"/job:worker/task:1", "worker:1", "/job:worker/replica:0/task:1"}) {
    EXPECT_EQ(TaskId::parse(text), task);
  }
  EXPECT_LT((TaskId{"chief", 0}), task);
  for (const char* text : {"", "worker", "worker:", ":1", "worker:-1", "worker:x", "/job:worker",
                           "/task:1", "/job:worker/task:1/device:CPU:0", "worker:1/device:CPU:0"}) {
    expect_error([&] { (void)TaskId::parse(text); },
                 str_cat("[cluster] TaskId::parse: got \"", text,
                         "\"; expected a task such as /job:worker/task:1 or worker:1"));
  }
}

TEST(ClusterSpecTest, AnswersAboutJobsAndTasks) {
  EXPECT_EQ(kSpec.jobs(), (std::vector<std::string>{"ps", "worker"}));
  EXPECT_EQ(kSpec.num_tasks("worker"), 2);
  EXPECT_EQ(kSpec.task_indices("worker"), (std::vector<int>{0, 1}));
  EXPECT_EQ(kSpec.task_address("worker", 1), "w1:1");
  EXPECT_EQ(kSpec.task_address(TaskId{"ps", 0}), "p0:1");
  EXPECT_TRUE(kSpec.has_task({"worker", 1}));
  EXPECT_FALSE(kSpec.has_task({"worker", 2}));
  EXPECT_FALSE(kSpec.has_job("chief"));
  EXPECT_TRUE(ClusterSpec().empty());
}

TEST(ClusterSpecTest, SparseJobsKeepTheirIndices) {
  const auto spec = ClusterSpec::sparse({{"worker", {{1, "w1:1"}, {3, "w3:1"}}}});
  EXPECT_EQ(spec.num_tasks("worker"), 2);
  EXPECT_EQ(spec.job_tasks("worker"),
            (std::vector<std::optional<std::string>>{std::nullopt, "w1:1", std::nullopt, "w3:1"}));
  EXPECT_EQ(spec.to_json().dump(), R"({"worker":{"1":"w1:1","3":"w3:1"}})");
  EXPECT_EQ(ClusterSpec::from_json(spec.to_json()), spec);
  EXPECT_EQ(ClusterSpec::sparse({{"worker", {{0, "w0:1"}, {1, "w1:1"}}}}),
            ClusterSpec({{"worker", {"w0:1", "w1:1"}}}));
}

TEST(ClusterSpecTest, TheFingerprintIsThatOfTheValue) {
  EXPECT_EQ(kSpec.fingerprint(),
            ClusterSpec::from_json(Json::parse(R"({"worker":["w0:1","w1:1"],"ps":{"0":"p0:1"}})"))
                .fingerprint());
  // SHA-256 of {"ps":["p0:1"],"worker":["w0:1","w1:1"]}, its first 8 bytes: on every machine.
  EXPECT_EQ(kSpec.fingerprint(), 18154108650506036653u);
  EXPECT_NE(kSpec.fingerprint(), ClusterSpec().fingerprint());
  EXPECT_NE(kSpec.fingerprint(),
            ClusterSpec({{"worker", {"w1:1", "w0:1"}}, {"ps", {"p0:1"}}}).fingerprint());
}

TEST(ClusterSpecTest, FindsTheFirstDifference) {
  EXPECT_FALSE(first_difference(kSpec, kSpec).has_value());
  const auto other =
      first_difference(kSpec, ClusterSpec({{"worker", {"w0:1", "w1:2"}}, {"ps", {"p0:1"}}}));
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->task, (TaskId{"worker", 1}));
  EXPECT_EQ(other->left, "w1:1");
  EXPECT_EQ(other->right, "w1:2");
  const auto fewer = first_difference(kSpec, ClusterSpec({{"worker", {"w0:1"}}, {"ps", {"p0:1"}}}));
  ASSERT_TRUE(fewer.has_value());
  EXPECT_EQ(fewer->task, (TaskId{"worker", 1}));
  EXPECT_EQ(fewer->right, std::nullopt);
}

TEST(ClusterSpecTest, ErrorsQuoteTheOffendingPart) {
  expect_error([] { (void)kSpec.num_tasks("chief"); },
               "[cluster] ClusterSpec: got job \"chief\"; the cluster's jobs are: ps, worker");
  expect_error([] { (void)kSpec.task_address("worker", 2); },
               "[cluster] ClusterSpec: got task 2 of job \"worker\"; its indices are: 0, 1");
  expect_error([] { (void)ClusterSpec().task_indices("worker"); },
               "[cluster] ClusterSpec: got job \"worker\"; the cluster's jobs are: none");
  expect_error(
      [] {
        ClusterSpec({{"Worker 1", {"a:1"}}});
      },
      "[cluster] ClusterSpec: got a job called \"Worker 1\"; expected small letters, "
      "digits and _, a letter first");
  expect_error(
      [] {
        (void)ClusterSpec::sparse({{"worker", {{-1, "a:1"}}}});
      },
      "[cluster] ClusterSpec: got index -1 in worker; expected a number from 0 up");
  const std::pair<const char*, const char*> texts[] = {
      {"[1]",
       "[cluster] ClusterSpec: got [1]; expected an object from jobs to addresses, {\"worker\": "
       "[\"host:2222\"]}"},
      {R"({"worker":"a:1"})",
       "[cluster] ClusterSpec: got worker = \"a:1\"; expected a list of addresses, "
       "[\"host1:2222\", \"host2:2222\"]"},
      {R"({"worker":["a:1",7]})",
       "[cluster] ClusterSpec: got worker[1] = 7; expected an address as text, \"host:port\""},
      {R"({"worker":{"3":null}})",
       "[cluster] ClusterSpec: got worker[3] = null; expected an address as text, \"host:port\""},
      {R"({"worker":{"one":"a:1"}})",
       "[cluster] ClusterSpec: got index \"one\" in worker; expected a number from 0 up"},
  };
  for (const auto& [text, message] : texts) {
    expect_error([&, text = text] { (void)ClusterSpec::from_json(Json::parse(text)); }, message);
  }
}

}  // namespace
}  // namespace strata::cluster
