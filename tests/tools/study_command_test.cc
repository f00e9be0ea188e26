// `strata study` as users run it: real trainings of a small network, in this machine's processes.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "strata/core/json.h"
#include "strata/data/image_codec.h"
#include "strata/data/imagenet.h"
#include "strata/data/tf_record.h"
#include "tools/launch/child_process.h"
#include "tools/launch/orphan_reaper.h"
#include "tools/launched.h"

namespace strata::tools {
namespace {

using Words = std::vector<std::string>;

class StudyCommandTest : public testing::Test {
 protected:
  struct Result {
    int status = -1;
    std::string out;
    std::string err;
  };

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  /// At most four minutes: a machine may be busy.
  Result run(const Words& words) {
    ChildSpec spec = {.program = "/bin/sh",
                      .arguments = {"-c", "exec \"$@\" >$D/out 2>$D/err", "sh", STRATA_COMMAND},
                      .environment = {{"D", folder_.path()}, {"TMPDIR", folder_.path()}},
                      .cores = {}};
    spec.arguments.insert(spec.arguments.end(), words.begin(), words.end());
    ChildProcess child(spec, guard_);
    std::optional<ChildEnd> end;
    for (int half_minutes = 0; half_minutes < 8 && !end; ++half_minutes) {
      (void)eventually([&] {
        end = child.reap();
        return end.has_value();
      });
    }
    return {end ? end->status() : -1, text_of(path("out")), text_of(path("err"))};
  }

  /// Of a network that takes no time, with a line of JSON for each result.
  Result study(const Words& more) {
    Words words = {"study",
                   "--network",
                   "trivial",
                   "--image-size",
                   "8",
                   "--classes",
                   "4",
                   "--batch",
                   "2",
                   "--warmup",
                   "1",
                   "--steps",
                   "3",
                   "--display-every",
                   "3",
                   "--device",
                   "cpu",
                   "--json",
                   path("results.jsonl")};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  std::vector<Json> results() const {
    std::vector<Json> all;
    std::istringstream lines(text_of(path("results.jsonl")));
    for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
    return all;
  }

  /// "mirrored 1 0" of each result, whose numbers are checked for what must hold of any.
  std::string measured() const {
    std::string text;
    for (const Json& json : results()) {
      text += str_cat(json.at("strategy").as_string(), " ", json.at("replicas").as_int(), " ",
                      json.at("servers").as_int(), "\n");
      EXPECT_GT(json.at("images_per_second").as_double(), 0);
      EXPECT_LE(json.at("low").as_double(), json.at("images_per_second").as_double());
      EXPECT_GE(json.at("high").as_double(), json.at("images_per_second").as_double());
      EXPECT_EQ(json.at("samples").as_array().size(), 2U);
      EXPECT_GT(json.at("loss").as_double(), 0);
      EXPECT_GT(json.at("input_seconds").as_double(), 0);
      const Json& parts = json.at("part_seconds");
      EXPECT_GT(parts.at("forward").as_double(), 0);
      EXPECT_GT(parts.at("backward").as_double(), 0);
      EXPECT_GE(parts.at("communication").as_double(), 0);
      EXPECT_GE(parts.at("update").as_double(), 0);
      EXPECT_EQ(json.at("parameters").as_int(), 8 * 8 * 3 + 1 + 2 * 4096 + 4097 * 4);
      EXPECT_EQ(json.at("parameter_bytes").as_int(), 4 * json.at("parameters").as_int());
      EXPECT_FALSE(json.at("processor").as_string().empty());
      const int64_t servers = json.at("servers").as_int();
      EXPECT_EQ(json.at("server_bytes").as_array().size(), static_cast<size_t>(servers));
      int64_t bytes = 0;
      for (const Json& each : json.at("server_bytes").as_array()) bytes += each.as_int();
      EXPECT_EQ(bytes, servers > 0 ? json.at("parameter_bytes").as_int() : 0);
    }
    return text;
  }

  const OrphanReaper guard_;
  const test::TempFolder folder_;
};

TEST_F(StudyCommandTest, StrategiesOfOneProcess) {
  const Result result = study({"--repeat", "2", "--sweep", "replicas=1,2",
                               "strategy=mirrored,central", "--report", path("study.html")});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(measured(), "mirrored 1 0\nmirrored 2 0\ncentral 1 0\ncentral 2 0\n");
  EXPECT_DOUBLE_EQ(results()[0].at("efficiency").as_double(), 1);
  EXPECT_GT(results()[1].at("efficiency").as_double(), 0);
  EXPECT_TRUE(contains(result.out, "# trivial, mirrored, 2 replicas, synthetic\n"));
  EXPECT_TRUE(contains(result.out, "Step\tImg/sec\ttotal_loss\n"));
  EXPECT_TRUE(contains(result.out, "3\timages/sec: "));
  EXPECT_TRUE(contains(result.out, "total images/sec: "));
  EXPECT_TRUE(contains(text_of(path("study.html")), "central"));
}

TEST_F(StudyCommandTest, OneDevice) {
  const Result result = study({"--repeat", "2", "--strategy", "one_device"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(measured(), "one_device 1 0\n");
}

TEST_F(StudyCommandTest, WorkersInProcesses) {
  const Result result =
      study({"--repeat", "2", "--sweep", "replicas=1,2", "strategy=multi_worker", "--limit"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(measured(), "multi_worker 1 0\nmulti_worker 2 0\n");
  EXPECT_TRUE(results()[0].at("vs_limit").is_null());
  EXPECT_GT(results()[1].at("vs_limit").at("median").as_double(), 0);
  EXPECT_TRUE(contains(result.out, "# trivial, independent, 2 replicas, synthetic\n"));
  EXPECT_TRUE(contains(result.out, "of two processes that share nothing"));
}

TEST_F(StudyCommandTest, ParameterServersInProcesses) {
  const Result result = study({"--repeat", "2", "--sweep", "replicas=1,2", "ps=1,2",
                               "--variable-update", "distributed_replicated"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(measured(),
            "parameter_server 1 1\nparameter_server 1 2\nparameter_server 2 1\n"
            "parameter_server 2 2\n");
  const auto all = results();
  for (const size_t first : {0, 2}) {
    const bool second_is_faster = all[first + 1].at("images_per_second").as_double() >
                                  all[first].at("images_per_second").as_double();
    EXPECT_EQ(all[first + 1].at("best").as_bool(), second_is_faster);
    EXPECT_EQ(all[first].at("best").as_bool(), !second_is_faster);
  }
  EXPECT_EQ(all[0].at("placement").as_string(), "round_robin");
}

TEST_F(StudyCommandTest, WorkersThatWaitForNoneAreAdded) {
  const Result result =
      study({"--repeat", "2", "--replicas", "2", "--ps", "1", "--cross-replica-sync", "no"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(measured(), "parameter_server 2 1\n");
  EXPECT_FALSE(results()[0].at("synchronous").as_bool());
}

TEST_F(StudyCommandTest, ATaskOfACluster) {
  const Result result = run({"launch",
                             "-n",
                             "2",
                             "--",
                             STRATA_STUDY,
                             "--network",
                             "trivial",
                             "--image-size",
                             "8",
                             "--classes",
                             "4",
                             "--batch",
                             "2",
                             "--warmup",
                             "1",
                             "--steps",
                             "3",
                             "--repeat",
                             "2",
                             "--device",
                             "cpu",
                             "--json",
                             path("results.jsonl")});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(measured(), "multi_worker 2 0\n");
  EXPECT_TRUE(contains(result.out, "trivial, multi_worker")) << result.out;
  EXPECT_FALSE(contains(result.out, "# trivial"));  // it starts no processes
}

TEST_F(StudyCommandTest, AClusterThatDoesNotFit) {
  const auto in_cluster = [&](const Words& more) {
    Words words = {"launch", "-n", "2", "--", STRATA_STUDY, "--network", "trivial"};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = run(words);
    EXPECT_NE(result.status, 0);
    return result.err + result.out;
  };
  EXPECT_TRUE(
      contains(in_cluster({"--sweep", "replicas=1,2"}), "got a --sweep in a task of a cluster"));
  EXPECT_TRUE(contains(in_cluster({"--strategy", "mirrored"}),
                       "got --strategy mirrored in a cluster of 2 workers; expected multi_worker"));
  EXPECT_TRUE(contains(in_cluster({"--strategy", "parameter_server"}),
                       "got --strategy parameter_server in a cluster with 0 parameter servers"));
  EXPECT_TRUE(contains(in_cluster({"--replicas", "3"}), "got 3 replicas for 2 workers"));
}

std::string picture(int64_t grey) {
  return data::encode_jpeg(at::full({20, 24, 3}, grey, at::kByte));
}

TEST_F(StudyCommandTest, RealImagesFromFolders) {
  if (!STRATA_TEST_JPEG) return;
  for (int label = 0; label < 2; ++label) {
    const std::string folder = path(str_cat("images/class", label));
    std::filesystem::create_directories(folder);
    for (int i = 0; i < 3; ++i) {
      std::ofstream(str_cat(folder, "/", i, ".jpg"), std::ios::binary) << picture(90 * label);
    }
  }
  const Result result =
      study({"--repeat", "2", "--data", path("images"), "--strategy", "mirrored"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(measured(), "mirrored 1 0\n");
  const Json json = results().at(0);
  EXPECT_NEAR(json.at("input_loss").as_double(),
              1 - json.at("images_per_second").as_double() /
                      json.at("synthetic_images_per_second").as_double(),
              1e-9);
}

TEST_F(StudyCommandTest, RealImagesFromRecords) {
  if (!STRATA_TEST_JPEG) return;
  std::filesystem::create_directories(path("records"));
  data::TfRecordWriter file(path("records/train-00000-of-00001"));
  for (int i = 0; i < 6; ++i) {
    file.write(data::serialize_image_record({.encoded = picture(40 * i), .label = i}));
  }
  file.close();
  const Words common = {"--repeat", "2",          "--data", path("records"), "--compare-input",
                        "no",       "--replicas", "2",      "--strategy",    "multi_worker"};
  Words enough = common;
  enough.insert(enough.end(), {"--classes", "6"});
  Result result = study(enough);
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_TRUE(results().at(0).at("input_loss").is_null());
  result = study(common);  // of 4 classes
  EXPECT_NE(result.status, 0);
  EXPECT_TRUE(contains(result.out + result.err, "for a network of 4 classes; expected --classes"))
      << result.out << result.err;
}

TEST_F(StudyCommandTest, AFolderWithoutImages) {
  EXPECT_TRUE(contains(study({"--data", path("nowhere")}).err, "which is no folder"));
  std::filesystem::create_directories(path("empty"));
  EXPECT_EQ(study({"--data", path("empty")}).status, 1);
}

TEST_F(StudyCommandTest, ResultsAreShownAgain) {
  ASSERT_EQ(study({"--repeat", "2", "--replicas", "1", "--threads", "1"}).status, 0);
  const std::string first = text_of(path("results.jsonl"));
  std::filesystem::rename(path("results.jsonl"), path("one.jsonl"));
  ASSERT_EQ(study({"--repeat", "2", "--replicas", "2", "--threads", "1"}).status, 0);
  EXPECT_TRUE(results().at(0).at("efficiency").is_null());
  const Result result = run({"study", "--from", path("one.jsonl") + "," + path("results.jsonl"),
                             "--json", path("both.jsonl"), "--report", path("both.html")});
  ASSERT_EQ(result.status, 0) << result.err;
  std::filesystem::rename(path("both.jsonl"), path("results.jsonl"));
  EXPECT_EQ(measured(), "mirrored 1 0\nmirrored 2 0\n");
  EXPECT_EQ(first, text_of(path("results.jsonl")).substr(0, first.size()));
  EXPECT_GT(results().at(1).at("efficiency").as_double(), 0);
  EXPECT_EQ(run({"study", "--from", path("both.html")}).status, 1);
}

/// In place of Python: it is started as a task for each worker, with the script and its options.
TEST_F(StudyCommandTest, TensorFlowIsStartedBeside) {
  std::ofstream(path("python")) << R"(#!/bin/sh
echo "$TF_CONFIG $*" >> $D/calls
while [ $# -gt 1 ]; do [ "$1" = --result ] && result=$2; shift; done
case $TF_CONFIG in *'"index":1'*) exit 0;; esac
echo '{"images_per_second": 0.5, "version": "2.21.0"}' > "$result"
)";
  std::filesystem::permissions(path("python"), std::filesystem::perms::owner_all);
  const Words words = {"study",
                       "--network",
                       "mobilenet_v2",
                       "--image-size",
                       "32",
                       "--classes",
                       "4",
                       "--batch",
                       "2",
                       "--warmup",
                       "1",
                       "--steps",
                       "1",
                       "--repeat",
                       "1",
                       "--replicas",
                       "2",
                       "--strategy",
                       "multi_worker",
                       "--device",
                       "cpu",
                       "--tensorflow",
                       path("python"),
                       "--json",
                       path("results.jsonl")};
  const Result result = run(words);
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  ASSERT_EQ(results().size(), 1U);
  const Json beside = results()[0].at("tensorflow");
  EXPECT_EQ(beside.at("version").as_string(), "2.21.0");
  EXPECT_GT(beside.at("quotient").at("median").as_double(), 0);
  const std::string calls = text_of(path("calls"));
  EXPECT_EQ(std::ranges::count(calls, '\n'), 2) << calls;
  EXPECT_TRUE(contains(calls,
                       "study_in_tensorflow.py --network mobilenet_v2 --strategy "
                       "multi_worker --replicas 2 --batch 2 --image-size 32 --classes 4"))
      << calls;
  EXPECT_TRUE(contains(calls, R"("worker":["127.0.0.1:)")) << calls;

  std::ofstream(path("python")) << "#!/bin/sh\nexit 3\n";
  const Result failed = run(words);
  EXPECT_EQ(failed.status, 1);
  EXPECT_TRUE(contains(failed.err, "exit code 3 of TensorFlow: mobilenet_v2")) << failed.err;

  // A signal ends the study, although the task that it is passed to ends well.
  std::ofstream(path("python"))
      << "#!/bin/sh\ntrap 'exit 0' TERM\nkill -TERM $PPID\nsleep 60 & wait\n";
  const Result stopped = run(words);
  EXPECT_EQ(stopped.status, 1);
  EXPECT_TRUE(contains(stopped.err, "got signal 15 while TensorFlow: mobilenet_v2")) << stopped.err;
}

TEST_F(StudyCommandTest, AccuracyByReplicas) {
  const Result result = run({"study",
                             "--accuracy",
                             "--network",
                             "trivial",
                             "--sweep",
                             "replicas=1,2",
                             "strategy=mirrored",
                             "--batch",
                             "32",
                             "--examples",
                             "512",
                             "--learning-rate",
                             "0.002",
                             "--epochs",
                             "2",
                             "--warmup-epochs",
                             "1",
                             "--device",
                             "cpu",
                             "--json",
                             path("results.jsonl"),
                             "--report",
                             path("accuracy.html")});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const auto all = results();
  ASSERT_EQ(all.size(), 2U);
  for (const Json& json : all) {
    const auto replicas = json.at("replicas").as_int();
    EXPECT_EQ(json.at("global_batch").as_int(), 32 * replicas);
    EXPECT_DOUBLE_EQ(json.at("scaled_learning_rate").as_double(),
                     0.002 * static_cast<double>(replicas));
    EXPECT_GT(json.at("accuracy").as_double(), 0.08);  // the rarest of ten digits has 0.089
    EXPECT_GT(json.at("seconds").as_double(), 0);
  }
  EXPECT_TRUE(contains(result.out, "learning rate 0.002 (linear with the replicas), 2 epochs"));
  EXPECT_TRUE(contains(text_of(path("accuracy.html")), "Accuracy on the test images"));
}

TEST_F(StudyCommandTest, AccuracyWithParameterServers) {
  const Result result =
      run({"study", "--accuracy", "--network", "trivial", "--replicas", "2", "--ps", "1", "--batch",
           "32", "--examples", "512", "--device", "cpu", "--json", path("results.jsonl")});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  ASSERT_EQ(results().size(), 1U);
  EXPECT_GT(results()[0].at("accuracy").as_double(), 0.08);
  EXPECT_DOUBLE_EQ(results()[0].at("scaled_learning_rate").as_double(), 0.02);
}

TEST_F(StudyCommandTest, AFailedTaskIsNamed) {
  const Result result = run({"study", "--accuracy", "--data", path("nowhere")});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.err, "the lines above say why")) << result.err;
}

}  // namespace
}  // namespace strata::tools
