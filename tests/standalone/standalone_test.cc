// Standalone clients against server processes that have no model code.
#include <torch/torch.h>

#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include "standalone/programs.h"
#include "standalone/servers.h"
#include "strata/core/file_system.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "support/killed_program.h"
#include "support/replicas.h"
#include "support/soak_setting.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr int kSteps = 12;

std::string train_there(const std::vector<std::string>& servers, const std::string& model,
                        int steps = kSteps) {
  MirroredStrategy strategy(test::client_of(servers));
  const std::string hash = test::train_model(strategy, model, steps);
  strategy.close();
  return hash;
}

TEST(StandaloneTest, TwoServersHaveTheBitsOfOneProcess) {
  const test::StandaloneServers servers(2);
  for (const char* model : {"cnn", "words"}) {
    EXPECT_EQ(train_there(servers.addresses(), model), test::train_here(model, kSteps)) << model;
  }
}

TEST(StandaloneTest, OneServerWithTwoReplicasHasThem) {
  const test::StandaloneServers servers(1);
  MirroredOptions options = test::client_of(servers.addresses());
  options.devices = {"cpu:0", "cpu:1"};
  MirroredStrategy strategy(options);
  EXPECT_EQ(test::train_model(strategy, "cnn", kSteps), test::train_here("cnn", kSteps));
}

MultiWorkerMirroredOptions workers_on(const std::vector<std::string>& servers) {
  MultiWorkerMirroredOptions options{.seed = test::kSeed, .client = "standalone"};
  options.standalone.servers = servers;
  return options;
}

TEST(StandaloneTest, ServersAreTheWorkersOfAClient) {
  const test::StandaloneServers servers(2);
  MultiWorkerMirroredStrategy strategy(workers_on(servers.addresses()));
  EXPECT_EQ(strategy.num_workers(), 2);
  EXPECT_EQ(strategy.worker(), 0);
  EXPECT_TRUE(strategy.is_chief());
  EXPECT_EQ(strategy.describe(), "2 servers, 2 replicas\n");
  EXPECT_EQ(test::train_model(strategy, "cnn", kSteps), test::train_here("cnn", kSteps));
  EXPECT_EQ(strategy.runs(), static_cast<uint64_t>(kSteps));
  strategy.close();
}

TEST(StandaloneTest, AClientOfWorkersCanBeReplaced) {
  const test::StandaloneServers servers(2);
  MultiWorkerMirroredOptions options = workers_on(servers.addresses());
  {
    MultiWorkerMirroredStrategy lost(options);
    test::train_model(lost, "words", kSteps / 2);
    options.standalone.session = lost.session();
  }
  MultiWorkerMirroredStrategy strategy(options);
  EXPECT_EQ(test::train_model(strategy, "words", kSteps), test::train_here("words", kSteps));
  strategy.close();
}

TEST(StandaloneTest, OptionsOfWorkersThatServersHaveNot) {
  MultiWorkerMirroredOptions options = workers_on({"127.0.0.1:1"});
  options.elastic = true;
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"elastic", "client='standalone'"},
                     [&] { MultiWorkerMirroredStrategy strategy(options); }));
  options.elastic = false;
  options.shard_optimizer_state = true;
  EXPECT_TRUE(throws(ErrorCode::kUnimplemented, {"shard_optimizer_state", "leave it out"},
                     [&] { MultiWorkerMirroredStrategy strategy(options); }));
  options.shard_optimizer_state = false;
  options.client = "in_process";
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got servers", "expected client='standalone'"},
                     [&] { MultiWorkerMirroredStrategy strategy(options); }));
}

TEST(StandaloneTest, ClientsAreApart) {
  const test::StandaloneServers servers(2);
  std::string hashes[2];
  on_threads(2, [&](int i) {
    try {
      hashes[i] = train_there(servers.addresses(), i == 0 ? "cnn" : "words");
    } catch (const std::exception& error) {
      hashes[i] = error.what();
    }
  });
  EXPECT_EQ(hashes[0], test::train_here("cnn", kSteps));
  EXPECT_EQ(hashes[1], test::train_here("words", kSteps));
}

TEST(StandaloneTest, ValuesAreReadThrough) {
  const test::StandaloneServers servers(1);
  MirroredStrategy strategy(test::client_of(servers.addresses()));
  const Variable variable = strategy.scope([] { return Variable(torch::ones({3})); });
  optimizers::SGD sgd({variable}, {.learning_rate = 0.5});
  const auto step = strata::function([&](const at::Tensor& x) {
    const at::Tensor loss = (variable.value() * x).sum();
    sgd.minimize(loss);
    return loss;
  });
  const at::Tensor x = torch::tensor({1.0F, 2.0F, 3.0F});
  EXPECT_EQ(strategy.run(step, x).get(0).item<float>(), 6);
  EXPECT_TRUE(torch::equal(variable.value(), torch::tensor({0.5F, 0.0F, -0.5F})));
  Variable(variable).assign(torch::full({3}, 2.0));  // sent before the next run
  EXPECT_EQ(strategy.run(step, x).get(0).item<float>(), 12);
  EXPECT_TRUE(torch::equal(variable.value(), torch::tensor({1.5F, 1.0F, 0.5F})));
  sgd.set_learning_rate(1);
  strategy.run(step, x);
  EXPECT_TRUE(torch::equal(variable.value(), torch::tensor({0.5F, -1.0F, -2.5F})));
  EXPECT_EQ(sgd.iterations(), 3);
}

/// What replicas write to one variable in a step.
Tensors written_by(MirroredStrategy& strategy) {
  Tensors all;
  for (const auto aggregation : {VariableAggregation::kSum, VariableAggregation::kMean,
                                 VariableAggregation::kOnlyFirstReplica}) {
    const Variable variable = strategy.scope([&] {
      return Variable(torch::arange(6, torch::kFloat).reshape({3, 2}),
                      {.trainable = false, .aggregation = aggregation});
    });
    const auto step = strata::function([&](const at::Tensor& x) {
      Variable(variable).assign_add(x);
      Variable(variable).assign_sub(x * 0.5);
      Variable(variable).scatter_add(torch::tensor({2, 0}), x.slice(0, 0, 2));
      return variable.value().clone();
    });
    const std::vector<at::Tensor> x = {torch::full({3, 2}, 0.1), torch::full({3, 2}, 0.7)};
    for (int i = 0; i < 2; ++i) {
      const auto values = strategy.run(step, PerReplica(x));
      for (int r = 0; r < 2; ++r) all.push_back(values.get(r));
    }
    strategy.fetch();
    all.push_back(variable.value());
  }
  return all;
}

TEST(StandaloneTest, ReplicasWriteToVariables) {
  MirroredStrategy here({.devices = {"cpu:0", "cpu:1"}, .seed = test::kSeed});
  const test::StandaloneServers servers(2);
  MirroredStrategy there(test::client_of(servers.addresses()));
  EXPECT_EQ(tensor::fingerprint(written_by(there)), tensor::fingerprint(written_by(here)));
}

TEST(StandaloneTest, SaysWhatItCannotRun) {
  const test::StandaloneServers servers(1);
  MirroredStrategy strategy(test::client_of(servers.addresses()));
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"strata::function"},
                     [&] { strategy.run([] { return torch::ones({1}); }); }));
  const auto inverted = strata::function(
      [](const at::Tensor& x) { return std::get<0>(torch::linalg_inv_ex(x)); }, {.name = "mine"});
  EXPECT_TRUE(throws(ErrorCode::kUnimplemented,
                     {"mine", "aten::linalg_inv_ex", "no operator that a server"},
                     [&] { strategy.run(inverted, torch::eye(3)); }));
  // An error of the step's own names the node, and the session continues.
  const auto looked_up = strata::function(
      [](const at::Tensor& table, const at::Tensor& rows) { return torch::embedding(table, rows); },
      {.name = "look_up"});
  const at::Tensor table = torch::randn({4, 2});
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"look_up", "aten::embedding", "out of range"},
                     [&] { strategy.run(looked_up, table, torch::tensor({7})); }));
  EXPECT_TRUE(torch::equal(strategy.run(looked_up, table, torch::tensor({2})).get(0),
                           table.slice(0, 2, 3)));
}

TEST(StandaloneTest, MemoryIsBounded) {
  const test::StandaloneServers servers(1, {"--memory", "1000000"});
  MirroredStrategy strategy(test::client_of(servers.addresses()));
  const auto large = strata::function(
      [](const at::Tensor& x) {
        return x.expand({1000, 1000}).clone().sum();
      },
      {.name = "large"});
  EXPECT_TRUE(throws(ErrorCode::kResourceExhausted, {"large", "--memory"},
                     [&] { strategy.run(large, torch::ones({1})); }));
  const auto small = strata::function([](const at::Tensor& x) { return x + 1; });
  EXPECT_EQ(strategy.run(small, torch::ones({1})).get(0).item<float>(), 2);
}

TEST(StandaloneTest, TokensAreNeeded) {
  const test::StandaloneServers servers(1);
  MirroredStrategy strategy(test::client_of(servers.addresses()));
  MirroredOptions other = test::client_of(servers.addresses());
  other.standalone.session = std::string(32, '0');
  EXPECT_TRUE(throws(ErrorCode::kNotFound, {"no such session"},
                     [&] { const MirroredStrategy resumed(other); }));
  other.standalone.session = strategy.session();
  other.standalone.task = "/job:client/task:1";
  EXPECT_TRUE(throws(ErrorCode::kNotFound, {"no such session"},
                     [&] { const MirroredStrategy resumed(other); }));
}

TEST(StandaloneTest, ALostServerIsNamed) {
  test::StandaloneServers servers(2);
  MirroredOptions options = test::client_of(servers.addresses());
  options.standalone.connect_timeout = std::chrono::seconds(2);
  MirroredStrategy strategy(options);
  const auto step = strata::function(
      [](const at::Tensor& x) { return get_replica_context()->all_reduce(ReduceOp::kSum, x); });
  EXPECT_EQ(strategy.run(step, torch::ones({1})).get(0).item<float>(), 2);
  servers.processes().kill(test::StandaloneServers::task(1));
  try {
    strategy.run(step, torch::ones({1}));
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.find(servers.addresses()[1]) != std::string::npos ||
                what.find("/job:worker/task:1") != std::string::npos)
        << what;
  }
}

/// The client is killed at a random moment of each start, and the one after it continues.
TEST(StandaloneTest, AKilledClientContinues) {
  const auto kills = static_cast<int>(test::soak_setting("STRATA_SOAK_CLIENT_KILLS", 4));
  const int steps = 40 + 60 * kills;
  const test::StandaloneServers servers(2);
  const test::TempFolder folder;
  const std::string file = join_path(folder.path(), "session");
  std::mt19937 random(static_cast<unsigned>(test::soak_setting("STRATA_SOAK_SEED", 1)));
  test::Outcome outcome;
  int killed = 0;
  while (true) {
    std::vector<std::string> arguments = {"cnn", std::to_string(steps), file};
    arguments.insert(arguments.end(), servers.addresses().begin(), servers.addresses().end());
    const auto after =
        killed < kills ? std::optional<int>(static_cast<int>(random() % 80)) : std::nullopt;
    outcome = test::run_program(STRATA_STANDALONE_CLIENT, arguments, after);
    if (outcome.signal != SIGKILL) break;
    ++killed;
  }
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_GE(killed, kills / 2);
  EXPECT_EQ(outcome.sha256(), test::train_here("cnn", steps)) << killed << " kills";
}

}  // namespace
}  // namespace strata
