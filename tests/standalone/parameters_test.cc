// ParameterServerStrategy as a standalone client: workers and parameter servers without model code.
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "parameter_servers/train_workers.h"
#include "ps/ps_cluster.h"
#include "standalone/programs.h"
#include "standalone/servers.h"
#include "strata/core/file_system.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/strategies/server_embedding.h"
#include "support/killed_program.h"
#include "support/replicas.h"
#include "support/soak_setting.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

constexpr int kRuns = 12;

ParameterServerStrategyOptions parameters_client_of(const test::StandaloneServers& servers) {
  ParameterServerStrategyOptions options{.seed = test::kSeed, .client = "standalone"};
  options.standalone.servers = servers.addresses();
  options.standalone.parameter_servers = servers.parameter_servers();
  return options;
}

/// By workers that are threads of this process, each with the program. @return by worker.
std::vector<test::Trained> train_workers_here(const std::string& model, int parameter_servers,
                                              int workers,
                                              const ParameterServerStrategyOptions& options) {
  std::vector<test::Trained> trained(static_cast<size_t>(workers));
  test::PsCluster cluster(parameter_servers, workers);
  test::PsCluster::expect_ok(test::train_workers(
      cluster,
      [&](ParameterServerStrategy& strategy, int worker) {
        const int first = worker * strategy.num_replicas_in_sync();
        trained[static_cast<size_t>(worker)] =
            test::train_values(strategy, model, kRuns, {}, first);
      },
      options));
  return trained;
}

TEST(StandaloneParametersTest, AWorkerHasTheBitsOfAProcess) {
  const test::StandaloneServers servers(1, {}, 2);
  for (const char* model : {"cnn", "words"}) {
    ParameterServerStrategyOptions options = parameters_client_of(servers);
    options.devices = {"cpu:0", "cpu:1"};
    ParameterServerStrategy strategy(options);
    EXPECT_EQ(strategy.num_workers(), 1);
    EXPECT_EQ(strategy.num_servers(), 2);
    EXPECT_EQ(strategy.num_replicas_in_sync(), 2);
    const test::Trained trained = test::train_values(strategy, model, kRuns);
    const auto expected = train_workers_here(model, 2, 1, {.devices = options.devices});
    EXPECT_EQ(trained.sha256(), expected[0].sha256()) << model;
    strategy.close();
  }
}

TEST(StandaloneParametersTest, WorkersThatStepTogetherHaveTheBitsOfProcesses) {
  const test::StandaloneServers servers(2, {}, 2);
  ParameterServerStrategyOptions options = parameters_client_of(servers);
  options.consistency.kind = ps::Consistency::kSynchronous;
  ParameterServerStrategy strategy(options);
  EXPECT_EQ(strategy.num_workers(), 2);
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
  const test::Trained trained = test::train_values(strategy, "words", kRuns);
  const auto expected = train_workers_here("words", 2, 2, {.consistency = options.consistency});
  EXPECT_EQ(trained.iterations, kRuns);
  ASSERT_EQ(trained.losses.size(), 2U);
  for (size_t worker = 0; worker < 2; ++worker) {
    EXPECT_TRUE(trained.losses[worker].equal(expected[worker].losses[0])) << worker;
  }
  ASSERT_EQ(trained.weights.size(), 2 * expected[0].weights.size());
  for (size_t i = 0; i < trained.weights.size(); ++i) {
    EXPECT_TRUE(trained.weights[i].equal(expected[0].weights[i / 2])) << i;
  }
  strategy.close();
}

/// Each push of each worker is in the weights, and a fetch has them all.
TEST(StandaloneParametersTest, WorkersThatStepApartLoseNoPush) {
  const test::StandaloneServers servers(2, {}, 1);
  ParameterServerStrategy strategy(parameters_client_of(servers));
  Variable weight = strategy.scope([] { return Variable(torch::zeros({3}), {.name = "weight"}); });
  optimizers::SGD sgd({weight}, {.learning_rate = 1});
  const auto step = strata::function([&](const at::Tensor& x) {
    sgd.minimize((weight.value() * x).sum());
    return x;
  });
  for (int i = 0; i < kRuns; ++i) {
    strategy.run(step, PerReplica<at::Tensor>({torch::full({3}, 1.0), torch::full({3}, 0.25)}));
  }
  EXPECT_TRUE(weight.value().equal(torch::full({3}, -1.25 * kRuns))) << weight.value();
  EXPECT_EQ(sgd.iterations(), 2 * kRuns);
  // What the program writes is what all workers go on with.
  weight.assign(torch::full({3}, 5.0));
  strategy.run(step, PerReplica<at::Tensor>({torch::full({3}, 1.0), torch::full({3}, 2.0)}));
  EXPECT_TRUE(weight.value().equal(torch::full({3}, 2.0))) << weight.value();
  strategy.close();
}

TEST(StandaloneParametersTest, AClientCanBeReplaced) {
  const test::StandaloneServers servers(2, {}, 1);
  ParameterServerStrategyOptions options = parameters_client_of(servers);
  options.consistency.kind = ps::Consistency::kSynchronous;
  ParameterServerStrategy undisturbed(options);
  const std::string expected = test::train_model(undisturbed, "cnn", kRuns);
  undisturbed.close();
  {
    ParameterServerStrategy lost(options);
    test::train_model(lost, "cnn", kRuns / 2);
    options.standalone.session = lost.session();
  }
  ParameterServerStrategy strategy(options);
  EXPECT_EQ(strategy.runs(), static_cast<uint64_t>(kRuns / 2));
  EXPECT_EQ(test::train_model(strategy, "cnn", kRuns), expected);
  strategy.close();
}

/// The client is killed at a random moment of each start, and the one after it continues.
TEST(StandaloneParametersTest, AKilledClientContinues) {
  const auto kills = static_cast<int>(test::soak_setting("STRATA_SOAK_CLIENT_KILLS", 3));
  const int steps = 40 + 60 * kills;
  const test::StandaloneServers servers(2, {}, 1);
  const test::TempFolder folder;
  std::mt19937 random(static_cast<unsigned>(test::soak_setting("STRATA_SOAK_SEED", 1)));
  const auto train = [&](const std::string& file, int most_kills, int* killed) {
    std::vector<std::string> arguments = {"words", std::to_string(steps),
                                          join_path(folder.path(), file)};
    arguments.insert(arguments.end(), servers.addresses().begin(), servers.addresses().end());
    arguments.emplace_back("ps");
    arguments.push_back(servers.parameter_servers()[0]);
    while (true) {
      const auto after =
          *killed < most_kills ? std::optional<int>(static_cast<int>(random() % 80)) : std::nullopt;
      const test::Outcome outcome = test::run_program(STRATA_STANDALONE_CLIENT, arguments, after);
      if (outcome.signal != SIGKILL) {
        EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
        return outcome.sha256();
      }
      ++*killed;
    }
  };
  int none = 0;
  const std::string expected = train("undisturbed", 0, &none);
  int killed = 0;
  EXPECT_EQ(train("disturbed", kills, &killed), expected) << killed << " kills";
  EXPECT_GE(killed, kills / 2);
}

std::string fit_weights(Strategy& strategy) {
  torch::manual_seed(3);
  keras::Sequential model = strategy.scope([&] {
    keras::Sequential made(keras::Input({7}), {layers::Dense(16, {.activation = "relu"}),
                                               layers::Dropout(0.2), layers::Dense(3)});
    made.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}),
                  .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
    return made;
  });
  const at::Tensor x = (at::arange(80 * 7, at::kFloat) * 0.13).sin().reshape({80, 7});
  const at::Tensor y = (at::arange(80, at::kLong) * 5 + 1).remainder(3);
  model.fit(data::Dataset::from_tensor_slices(data::Example{x, y}).batch(16),
            {.epochs = 3, .verbose = 0});
  return tensor::fingerprint(model->get_weights());
}

TEST(StandaloneParametersTest, FitHasTheBitsOfAProcess) {
  std::string expected;
  test::PsCluster cluster(1, 1);
  test::PsCluster::expect_ok(test::train_workers(
      cluster, [&](ParameterServerStrategy& strategy, int) { expected = fit_weights(strategy); },
      {.devices = {"cpu:0", "cpu:1"}}));
  const test::StandaloneServers servers(1, {}, 1);
  ParameterServerStrategyOptions options = parameters_client_of(servers);
  options.devices = {"cpu:0", "cpu:1"};
  ParameterServerStrategy strategy(options);
  EXPECT_EQ(fit_weights(strategy), expected);
  strategy.close();
}

TEST(StandaloneParametersTest, ALostParameterServerIsNamed) {
  test::StandaloneServers servers(1, {}, 1);
  ParameterServerStrategyOptions options = parameters_client_of(servers);
  options.standalone.connect_timeout = std::chrono::seconds(2);
  ParameterServerStrategy strategy(options);
  const Variable weight = strategy.scope([] { return Variable(torch::zeros({3})); });
  optimizers::SGD sgd({weight}, {.learning_rate = 1});
  const auto step = strata::function([&](const at::Tensor& x) {
    sgd.minimize((weight.value() * x).sum());
    return x;
  });
  strategy.run(step, torch::ones({3}));
  servers.processes().kill({"ps", 0});
  EXPECT_TRUE(
      throws(ErrorCode::kUnavailable, {"ps"}, [&] { strategy.run(step, torch::ones({3})); }));
}

TEST(StandaloneParametersTest, SaysWhichOptionsDoNotGoTogether) {
  ParameterServerStrategyOptions options{.client = "standalone"};
  options.standalone.servers = {"127.0.0.1:1"};
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"no parameter_servers", "strata server"},
                     [&] { ParameterServerStrategy strategy(options); }));
  options.standalone.parameter_servers = {"127.0.0.1:1"};
  options.placement.strategy = ps::round_robin;
  EXPECT_TRUE(throws(ErrorCode::kUnimplemented, {"rules of placement", "leave `placement` out"},
                     [&] { ParameterServerStrategy strategy(options); }));
  options.placement = {};
  options.client = "in_process";
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got servers", "expected client='standalone'"},
                     [&] { ParameterServerStrategy strategy(options); }));
  MirroredOptions mirrored{.client = "standalone"};
  mirrored.standalone = options.standalone;
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"parameter_servers", "no use"},
                     [&] { MirroredStrategy strategy(mirrored); }));

  const test::StandaloneServers servers(1, {}, 1);
  ParameterServerStrategy strategy(parameters_client_of(servers));
  EXPECT_TRUE(throws(ErrorCode::kUnimplemented, {"tables of rows", "Embedding layer"},
                     [&] { const ServerEmbedding table(strategy, {.rows = 4, .width = 2}); }));
  strategy.close();
}

}  // namespace
}  // namespace strata
