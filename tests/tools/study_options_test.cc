#include "tools/study/study_options.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "tools/study/study_networks.h"

namespace strata::tools {
namespace {

using Words = std::vector<std::string>;

TEST(StudyOptionsTest, DefaultsAreThoseOfTfCnnBenchmarks) {
  const StudyOptions options = read_study_options({"--network", "resnet50"});
  EXPECT_TRUE(options.strategies.empty());
  const auto all = all_configurations({.base = options.base,
                                       .networks = {"resnet50"},
                                       .strategies = {StudyStrategy::kMirrored},
                                       .replicas = options.replicas,
                                       .servers = {}});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].batch, 64);
  EXPECT_EQ(all[0].image_size, 224);
  EXPECT_EQ(all[0].classes, 1000);
  EXPECT_EQ(all[0].warmup, 10);
  EXPECT_EQ(all[0].steps, 100);
  EXPECT_EQ(all[0].display_every, 10);
  EXPECT_EQ(all[0].replicas, 1);
  EXPECT_TRUE(all[0].is_synthetic());
  EXPECT_EQ(all[0].learning_rate, 1e-6);
}

TEST(StudyOptionsTest, AccuracyHasALearningRateThatLearns) {
  StudyOptions options = read_study_options({"--accuracy", "--strategy", "mirrored"});
  EXPECT_EQ(all_configurations(options).at(0).learning_rate, 0.01);
  options = read_study_options({"--accuracy", "--strategy", "mirrored", "--learning-rate", "0.1"});
  EXPECT_EQ(all_configurations(options).at(0).learning_rate, 0.1);
}

TEST(StudyOptionsTest, ASweepIsAllOfItsLists) {
  const StudyOptions options = read_study_options({"--sweep", "replicas=4,1,2,2", "ps=2,1",
                                                   "strategy=parameter_server,mirrored",
                                                   "network=vgg16,trivial", "--batch", "8"});
  EXPECT_EQ(options.replicas, (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(options.servers, (std::vector<int>{1, 2}));
  std::string text;
  for (const Configuration& each : all_configurations(options)) text += each.describe() + "\n";
  EXPECT_EQ(text, R"(vgg16, parameter_server (greedy), 1 replica, 1 server, synthetic
vgg16, parameter_server (greedy), 1 replica, 2 servers, synthetic
vgg16, parameter_server (greedy), 2 replicas, 1 server, synthetic
vgg16, parameter_server (greedy), 2 replicas, 2 servers, synthetic
vgg16, parameter_server (greedy), 4 replicas, 1 server, synthetic
vgg16, parameter_server (greedy), 4 replicas, 2 servers, synthetic
vgg16, mirrored, 1 replica, synthetic
vgg16, mirrored, 2 replicas, synthetic
vgg16, mirrored, 4 replicas, synthetic
trivial, parameter_server (greedy), 1 replica, 1 server, synthetic
trivial, parameter_server (greedy), 1 replica, 2 servers, synthetic
trivial, parameter_server (greedy), 2 replicas, 1 server, synthetic
trivial, parameter_server (greedy), 2 replicas, 2 servers, synthetic
trivial, parameter_server (greedy), 4 replicas, 1 server, synthetic
trivial, parameter_server (greedy), 4 replicas, 2 servers, synthetic
trivial, mirrored, 1 replica, synthetic
trivial, mirrored, 2 replicas, synthetic
trivial, mirrored, 4 replicas, synthetic
)");
}

TEST(StudyOptionsTest, TakesTheVariableUpdatesOfTfCnnBenchmarks) {
  const auto strategy = [](const std::string& word, const Words& more = {}) {
    Words words = {"--network", "trivial", "--variable-update", word};
    words.insert(words.end(), more.begin(), more.end());
    const StudyOptions options = read_study_options(words);
    return str_cat(word_of(options.strategies.at(0)), " ", word_of(options.base.placement));
  };
  EXPECT_EQ(strategy("parameter_server"), "central greedy");
  EXPECT_EQ(strategy("parameter_server", {"--ps", "2"}), "parameter_server greedy");
  EXPECT_EQ(strategy("distributed_replicated"), "parameter_server round_robin");
  EXPECT_EQ(strategy("distributed_replicated", {"--placement", "sharded"}),
            "parameter_server sharded");
  EXPECT_EQ(strategy("replicated"), "mirrored greedy");
  EXPECT_EQ(strategy("distributed_all_reduce"), "multi_worker greedy");
  EXPECT_EQ(strategy("collective_all_reduce"), "multi_worker greedy");
  EXPECT_EQ(strategy("independent"), "independent greedy");
}

TEST(StudyOptionsTest, ATaskReadsTheSameConfiguration) {
  Configuration given;
  given.network = "alexnet";
  given.strategy = StudyStrategy::kParameterServer;
  given.replicas = 3;
  given.servers = 2;
  given.placement = StudyPlacement::kRoundRobin;
  given.synchronous = false;
  given.batch = 5;
  given.dtype = "bfloat16";
  given.data = "/some/folder";
  given.image_size = 99;
  given.classes = 7;
  given.optimizer = "lamb";
  given.learning_rate = 0.123456789;
  given.device = "gpu";
  given.threads = 2;
  given.warmup = 1;
  given.steps = 4;
  given.repeat = 6;
  given.display_every = 3;
  const StudyOptions options = read_study_options(given.words());
  EXPECT_EQ(all_configurations(options), std::vector<Configuration>{given});
  Configuration from_json = Configuration::from_json(Json::parse(given.to_json().dump()));
  from_json.display_every = 3;  // of the lines on the terminal, which no result depends on
  EXPECT_EQ(from_json, given);
}

TEST(StudyOptionsTest, ErrorsSayWhatWasExpected) {
  const auto expect = [](Words words, const std::string& message) {
    expect_error([&] { (void)read_study_options(words); }, "[strata study] got " + message);
  };
  const auto with = [](Words more) {
    more.insert(more.begin(), {"--network", "trivial"});
    return more;
  };
  expect({}, "no network; expected --network resnet50 or so");
  expect({"--network", "lenet"},
         "--network lenet; expected one of resnet50, inception3, vgg16, alexnet, mobilenet_v2, "
         "resnet20, trivial");
  expect(with({"--sweep", "network=vgg16"}), "--network and --sweep network; expected one of them");
  expect(with({"--strategy", "horovod"}),
         "--strategy horovod; expected one of mirrored, multi_worker, parameter_server, central, "
         "one_device, independent");
  const std::string updates =
      "; expected one of parameter_server, replicated, distributed_replicated, "
      "distributed_all_reduce, collective_all_reduce, independent";
  expect(with({"--variable-update", "horovod"}),
         "--variable-update horovod; the nearest is collective_all_reduce (--strategy "
         "multi_worker)" +
             updates);
  expect(with({"--variable-update", "replicate"}),
         "--variable-update replicate; the nearest is replicated" + updates);
  expect(with({"--variable-update", "replicated", "--strategy", "central"}),
         "--variable-update and --strategy; expected one of them");
  expect(with({"--sweep", "strategy=central", "--strategy", "central"}),
         "--sweep strategy and --strategy or --variable-update; expected one of them");
  expect(with({"--strategy", "mirrored", "--ps", "2"}),
         "parameter servers for mirrored; expected them with --strategy parameter_server alone");
  expect(with({"--strategy", "mirrored", "--placement", "greedy"}),
         "--placement greedy without --strategy parameter_server; expected both");
  expect(with({"--ps", "2", "--placement", "random"}),
         "--placement random; expected one of greedy, round_robin, sharded");
  expect(with({"--replicas", "2", "--sweep", "replicas=1"}),
         "--replicas and --sweep replicas; expected one of them");
  expect(with({"--ps", "2", "--sweep", "ps=1"}), "--ps and --sweep ps; expected one of them");
  expect(with({"--sweep", "replicas=1,0"}),
         "--sweep replicas=1,0; expected numbers from 1 on, as replicas=1,2,4");
  expect(with({"--sweep", "ps=two"}), "--sweep ps=two; expected numbers from 1 on, as ps=1,2,4");
  const std::string keys =
      "; expected replicas=1,2,4, ps=1,2,4, strategy=NAME,NAME or network=NAME,NAME";
  expect(with({"--sweep", "replicas"}), "--sweep replicas" + keys);
  expect(with({"--sweep", "replicas="}), "--sweep replicas=" + keys);
  expect(with({"--sweep", "batch=1,2"}), "--sweep batch=1,2" + keys);
  expect(with({"--sweep", "replicas=1", "replicas=2"}),
         "replicas twice in --sweep; expected one list of each");
  expect(with({"replicas=2"}), "replicas=2; expected options alone, and lists behind --sweep");
  expect(with({"--strategy", "one_device", "--replicas", "2"}),
         "2 replicas for one_device; expected 1, or another --strategy");
  expect(with({"--dtype", "int8"}), "--dtype int8; expected one of float32, bfloat16, float16");
  expect(with({"--device", "tpu"}), "--device tpu; expected one of cpu, gpu");
  expect({"--network", "inception3", "--image-size", "64"},
         "--image-size 64 for inception3; expected 75 at least");
  expect(with({"--optimizer", "adam"}), "--optimizer adam; expected one of sgd, lamb, lars");
  expect(with({"--learning-rate", "0"}), "--learning-rate 0; expected a number above 0");
  expect(with({"--learning-rate", "fast"}), "--learning-rate fast; expected a number above 0");
  expect(with({"--scale-learning-rate", "cubic"}),
         "--scale-learning-rate cubic; expected one of linear, sqrt, none");
  expect(with({"--warmup-epochs", "-1"}),
         "--warmup-epochs -1; expected a number that is not negative");
  expect(with({"--limit"}),
         "--limit without 2 replicas, which it is measured beside; expected --replicas 2, or a "
         "sweep with 2");
  expect(
      {"--accuracy", "--network", "vgg16"},
      "--accuracy with --network vgg16; expected resnet20 or trivial, which take MNIST's images");
  expect({"--accuracy", "--strategy", "independent"},
         "--accuracy with independent replicas, which train a model each; expected another "
         "strategy");
  expect({"--accuracy", "--ps", "1", "--optimizer", "lamb"},
         "--optimizer lamb with parameter servers, which update parts of variables; expected sgd");
  expect({"--accuracy", "--ps", "1", "--optimizer", "lars"},
         "--optimizer lars with parameter servers, which update parts of variables; expected sgd");
  expect({"--accuracy", "--replicas", "2", "--limit"},
         "--limit with --accuracy, which measures no speed; expected one of them");
  expect(with({"--tensorflow", "python3"}),
         "--tensorflow, which has nothing to do: tf_keras.applications has no trivial; expected "
         "resnet50, inception3, vgg16 or mobilenet_v2 by mirrored, multi_worker or one_device");
  expect({"--network", "vgg16", "--ps", "2", "--tensorflow", "python3"},
         "--tensorflow, which has nothing to do: its parameter servers do not add the gradients of "
         "all workers; expected resnet50, inception3, vgg16 or mobilenet_v2 by mirrored, "
         "multi_worker or one_device");
  expect({"--accuracy", "--tensorflow", "python3"},
         "--tensorflow with --accuracy, which measures no speed; expected one of them");
  expect(with({"--from", "a.jsonl"}),
         "--from with --network or --sweep; expected results or what to measure");
}

TEST(StudyOptionsTest, NumbersHaveLimits) {
  for (const auto& [option, least] : {std::pair("--replicas", 1),
                                      {"--ps", 1},
                                      {"--steps", 1},
                                      {"--repeat", 1},
                                      {"--warmup", 0},
                                      {"--batch", 0},
                                      {"--threads", 0},
                                      {"--display-every", 0}}) {
    expect_error_containing(
        [&] {
          (void)read_study_options({"--network", "trivial", option, std::to_string(least - 1)});
        },
        ErrorCode::kInvalidArgument, str_cat("got ", option));
  }
}

}  // namespace
}  // namespace strata::tools
