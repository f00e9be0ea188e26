// ParameterServerStrategy: the tasks are threads on a network in memory.
#include "strata/strategies/parameter_server_strategy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <latch>
#include <mutex>

#include "parameter_servers/train_workers.h"
#include "parity/models.h"
#include "ps/ps_cluster.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/core/log.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/runtime/span_observer.h"
#include "strata/strategies/server_embedding.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using namespace strata::parity;  // NOLINT
using test::PsCluster;
using test::train_workers;

constexpr int kSteps = 12;

std::vector<Status> train(int servers, int workers,
                          const std::function<void(ParameterServerStrategy&, int worker)>& body,
                          const ParameterServerStrategyOptions& options = {}) {
  PsCluster cluster(servers, workers);
  return train_workers(cluster, body, options);
}

/// A worker's rows of each batch.
Batches part_of(const Batches& batches, int workers, int worker) {
  Batches parts;
  for (const data::Example& batch : batches) {
    const int64_t rows = batch.num_rows();
    const int64_t begin = rows * worker / workers;
    const int64_t count = rows * (worker + 1) / workers - begin;
    parts.push_back({batch.x().narrow(0, begin, count), batch.y().narrow(0, begin, count)});
  }
  return parts;
}

Outcome train_part(ParameterServerStrategy& strategy, Kind kind, const Batches& batches,
                   const OptimizerCase& optimizer_case) {
  const auto net = strategy.replicate([&] { return std::make_shared<Net>(kind, at::kDouble); });
  const auto optimizer = optimizer_case.make(net.variables());
  for (const data::Example& batch : batches) {
    strategy.run([&] {
      (void)train_step(*net, *optimizer, batch, std::max<int64_t>(1, batch.num_rows()),
                       Form::kWeight);
    });
  }
  return outcome_of(net, *optimizer);
}

TEST(ParameterServerStrategyTest, SynchronousTrainingIsOneDevices) {
  const ParameterServerStrategyOptions options = {
      .consistency = {.kind = ps::Consistency::kSynchronous}};
  int cases = 0;
  for (const OptimizerCase& each : optimizer_cases()) {
    if (each.name.find("clipnorm") != std::string::npos) continue;  // of each worker's gradient
    const Kind kind = kAllKinds[cases % 2 == 0 ? 0 : 2];
    const int workers = 1 + cases % 3;
    const int servers = 1 + cases++ % 2;
    const Batches batches = make_batches(kind, at::kDouble, kSteps, {13, 7, 16, 3});
    const Outcome one = train_on_one_device(kind, at::kDouble, batches, each, Form::kWeight);
    PsCluster::expect_ok(train(
        servers, workers,
        [&](ParameterServerStrategy& strategy, int worker) {
          const Outcome many = train_part(strategy, kind, part_of(batches, workers, worker), each);
          EXPECT_LE(difference(many.weights, one.weights), 1e-7)
              << each.name << ", " << workers << " workers, " << servers << " servers";
          EXPECT_LE(difference(many.slots, one.slots), 1e-7) << each.name;
        },
        options));
  }
  EXPECT_GT(cases, 10);
}

TEST(ParameterServerStrategyTest, OneWorkerTrainsAsOneDevice) {
  for (const OptimizerCase& each : more_optimizer_cases()) {
    // Those of whole variables, and what servers cannot begin.
    const auto starts_with = [&](const char* rule) { return each.name.starts_with(rule); };
    if (std::ranges::any_of(std::array{"lamb", "lars", "muon", "adafactor", "schedule_free_adamw"},
                            starts_with)) {
      continue;
    }
    const Batches batches = make_batches(Kind::kMlp, at::kDouble, kSteps, {13, 7, 16, 3});
    const Outcome one = train_on_one_device(Kind::kMlp, at::kDouble, batches, each, Form::kWeight);
    PsCluster::expect_ok(train(2, 1, [&](ParameterServerStrategy& strategy, int) {
      const Outcome many = train_part(strategy, Kind::kMlp, batches, each);
      EXPECT_LE(difference(many.weights, one.weights), 1e-7) << each.name;
      EXPECT_LE(difference(many.slots, one.slots), 1e-7) << each.name;
    }));
  }
}

TEST(ParameterServerStrategyTest, SeveralReplicasOfAWorkerMakeOneStep) {
  const OptimizerCase adam = optimizer_cases()[5];
  const Batches batches = make_batches(Kind::kMlp, at::kDouble, kSteps, {13, 7, 16, 3});
  const Outcome one = train_on_one_device(Kind::kMlp, at::kDouble, batches, adam, Form::kWeight);
  PsCluster::expect_ok(train(2, 1,
                             [&](ParameterServerStrategy& strategy, int) {
                               EXPECT_EQ(strategy.num_replicas_in_sync(), 2);
                               const Outcome many = train_under(strategy, Kind::kMlp, at::kDouble,
                                                                batches, adam, Form::kWeight);
                               EXPECT_LE(difference(many.weights, one.weights), 1e-7);
                             },
                             {.devices = {"cpu:0", "cpu:1"}}));
}

TEST(ParameterServerStrategyTest, ValuesInSixteenBitsFollowWhatOtherWorkersPushed) {
  std::latch both(2), pushed(2);
  PsCluster::expect_ok(train(1, 2, [&](ParameterServerStrategy& strategy, int worker) {
    std::vector<Variable> variables;
    strategy.scope([&] {
      for (int i = 0; i < 2; ++i) variables.emplace_back(at::ones({40}));
    });
    optimizers::SGD sgd(variables, {.learning_rate = 0.3});
    const auto step = [&](int trained) {
      strategy.run([&] {
        for (const Variable& each : variables) (void)each.value_as(at::kBFloat16);
        sgd.minimize(variables[static_cast<size_t>(trained)].value_as(at::kBFloat16).sum());
      });
    };
    // Each trains a variable of its own, and pulls both.
    step(worker);
    both.arrive_and_wait();
    step(worker);
    pushed.arrive_and_wait();
    step(worker);
    strategy.run([&] {
      for (const Variable& each : variables) {
        EXPECT_LT(each.value().max().item<float>(), 1);
        EXPECT_TRUE(each.value_as(at::kBFloat16).equal(each.value().detach().to(at::kBFloat16)));
      }
    });
  }));
}

TEST(ParameterServerStrategyTest, WorkersTakeTheBatchesInTurnAndAllStepsCount) {
  const Batches batches = make_batches(Kind::kMlp, at::kFloat, 10, {8});
  std::mutex mutex;
  std::vector<int64_t> taken;
  std::latch done(3);
  PsCluster::expect_ok(train(2, 3, [&](ParameterServerStrategy& strategy, int worker) {
    EXPECT_EQ(strategy.is_chief(), worker == 0);
    EXPECT_EQ(strategy.num_workers(), 3);
    EXPECT_EQ(strategy.num_servers(), 2);
    const auto net =
        strategy.replicate([] { return std::make_shared<Net>(Kind::kMlp, at::kFloat); });
    optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
    const auto distributed = strategy.distribute(as_dataset(batches));
    int64_t count = 0;
    for (const auto& batch : distributed) {
      strategy.run(
          [&](const data::Example& rows) {
            (void)train_step(*net, sgd, rows, rows.num_rows(), Form::kWeight);
          },
          batch);
      ++count;
    }
    done.arrive_and_wait();
    {
      const std::lock_guard lock(mutex);
      taken.push_back(count);
    }
    EXPECT_EQ(distributed.describe(), "batches " + std::to_string(worker) + ", " +
                                          std::to_string(worker + 3) +
                                          ", ... of all, for 1 replicas");
  }));
  std::ranges::sort(taken);
  EXPECT_EQ(taken, (std::vector<int64_t>{3, 3, 4}));
}

TEST(ParameterServerStrategyTest, ACheckpointGoesOnWithOtherNumbersOfServersAndWorkers) {
  const test::TempFolder folder;
  const OptimizerCase adam = optimizer_cases()[5];
  const Batches batches = make_batches(Kind::kMlp, at::kDouble, 8, {16});
  const Outcome one = train_on_one_device(Kind::kMlp, at::kDouble, batches, adam, Form::kWeight);
  const ParameterServerStrategyOptions options = {
      .consistency = {.kind = ps::Consistency::kSynchronous}};
  std::string path;
  const auto half = [&](int servers, int workers, size_t begin, bool restores) {
    PsCluster::expect_ok(train(
        servers, workers,
        [&](ParameterServerStrategy& strategy, int worker) {
          const auto net =
              strategy.replicate([] { return std::make_shared<Net>(Kind::kMlp, at::kDouble); });
          const auto optimizer = adam.make(net.variables());
          Checkpoint checkpoint({{"net", net}, {"optimizer", *optimizer}});
          if (restores) checkpoint.restore(path);
          const Batches local = part_of(batches, workers, worker);
          for (size_t step = begin; step < begin + 4; ++step) {
            strategy.run(
                [&] { (void)train_step(*net, *optimizer, local[step], 1, Form::kWeight); });
          }
          EXPECT_EQ(optimizer->iterations(), static_cast<int64_t>(begin) + 4);
          if (!restores) {
            const std::string saved = checkpoint.save(folder.path() + "/half");
            if (strategy.is_chief()) path = saved;
            return;
          }
          EXPECT_LE(difference(outcome_of(net, *optimizer).weights, one.weights), 1e-7);
          EXPECT_LE(difference(outcome_of(net, *optimizer).slots, one.slots), 1e-7);
        },
        options));
  };
  half(2, 2, 0, /*restores=*/false);
  half(3, 1, 4, /*restores=*/true);
  half(1, 3, 4, /*restores=*/true);
}

TEST(ParameterServerStrategyTest, WithABackupALostServerCostsNoStepAndNoRow) {
  const test::WeightAndRows whole = test::train_weight_and_rows({}, /*lost=*/false);
  const test::WeightAndRows with_loss = test::train_weight_and_rows({}, /*lost=*/true);
  EXPECT_TRUE(whole.weight.equal(with_loss.weight));
  EXPECT_LT(whole.weight.max().item<float>(), 0.5);
  EXPECT_TRUE(whole.rows.equal(with_loss.rows));
}

TEST(ParameterServerStrategyTest, AGradientThatIsNotFiniteNamesItsVariable) {
  const std::vector<Status> outcomes = train(2, 1, [&](ParameterServerStrategy& strategy, int) {
    const Variable good(at::ones({100}), {.name = "good"});
    const Variable bad = strategy.scope([] { return Variable(at::ones({3}), {.name = "bad"}); });
    optimizers::SGD sgd({bad}, {.learning_rate = 0.1});
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                       {"not finite from /job:worker/task:0", "nothing of this push was applied",
                        "It is of the variable 'bad'"},
                       [&] {
                         strategy.run(
                             [&] { sgd.minimize((bad.value() - 1).sqrt().sum() * at::zeros({})); });
                       }));
    EXPECT_TRUE(bad.value().equal(at::ones({3})));
  });
  PsCluster::expect_ok(outcomes);
}

TEST(ParameterServerStrategyTest, WhatServersCannotUpdateIsNamed) {
  PsCluster::expect_ok(train(1, 1, [&](ParameterServerStrategy& strategy, int) {
    const Variable variable = strategy.scope([] { return Variable(at::ones({3, 3})); });
    EXPECT_TRUE(throws(ErrorCode::kUnimplemented, {"lamb", "norms of whole variables"},
                       [&] { optimizers::Lamb lamb({variable}, {}); }));
    const auto another = [&] { return strategy.scope([] { return Variable(at::ones({3, 3})); }); };
    EXPECT_TRUE(throws(ErrorCode::kUnimplemented, {"lars", "norms of whole variables"},
                       [&] { optimizers::LARS lars({another()}, {}); }));
    EXPECT_TRUE(throws(ErrorCode::kUnimplemented,
                       {"schedule_free_adamw", "'momentum' begins as the variable", "Take AdamW"},
                       [&] { optimizers::ScheduleFreeAdamW adam({another()}, {}); }));
    const Variable bias =
        strategy.scope([] { return Variable(at::ones({3}), {.name = "the bias"}); });
    EXPECT_TRUE(throws(ErrorCode::kUnimplemented,
                       {"[muon] build", "'the bias'", "have one rule for all"},
                       [&] { optimizers::Muon muon({bias}, {}); }));
    const Variable half =
        strategy.scope([] { return Variable(at::ones({3}, at::kHalf), {.name = "h"}); });
    EXPECT_TRUE(throws(ErrorCode::kUnimplemented,
                       {"'h' of Half; parameter servers hold float32 and float64"},
                       [&] { optimizers::SGD sgd({half}, {}); }));
  }));
}

TEST(ParameterServerStrategyTest, RowsAreUpdatedByTheOptimizerOfTheirTable) {
  PsCluster::expect_ok(train(2, 1, [&](ParameterServerStrategy& strategy, int) {
    const Variable weight = strategy.scope([] { return Variable(at::ones({3})); });
    optimizers::SGD sgd({weight}, {.learning_rate = 0.1});
    const auto kept = std::make_shared<optimizers::SGD>(
        optimizers::SGDOptions{.learning_rate = 0.5, .weight_decay = 0.25, .clipvalue = 2});
    const ServerEmbedding table(
        strategy, {.rows = 4,
                   .width = 3,
                   .initializer = {.kind = ps::RowInitializer::Kind::kConstant, .a = 1},
                   .optimizer = kept});
    const auto step = [&] {
      strategy.run([&] {
        const at::Tensor looked_up = table.lookup(at::arange(1, 3, at::kLong));
        sgd.minimize(weight.value().sum() + looked_up.sum() * 3);
      });
      return table.table().read();
    };
    // The gradient is 3, clipped to 2: 1 - 1 * 0.25 * 0.5 - 2 * 0.5.
    EXPECT_TRUE(step()[1].equal(at::full({3}, -0.125)));
    kept->set_learning_rate(0);
    const at::Tensor same = step();
    EXPECT_TRUE(same[2].equal(at::full({3}, -0.125)));
    EXPECT_TRUE(same[0].equal(at::ones({3})));
  }));
}

TEST(ParameterServerStrategyTest, WhatATableCannotDoOfAnOptimizerIsNamed) {
  PsCluster::expect_ok(train(1, 1, [&](ParameterServerStrategy& strategy, int) {
    const auto refused = [&](ErrorCode code, std::string_view why,
                             optimizers::AnyOptimizer optimizer) {
      EXPECT_TRUE(throws(code, {why}, [&] {
        ServerEmbedding(strategy, {.name = "users", .rows = 2, .width = 2, .optimizer = optimizer});
      }));
    };
    using optimizers::SGD;
    refused(ErrorCode::kInvalidArgument, "[server_embedding] 'users': got no optimizer; pass one",
            {});
    constexpr ErrorCode kNot = ErrorCode::kUnimplemented;
    refused(kNot,
            "[server_embedding] 'users': got adam with clipnorm; expected no common option but "
            "learning_rate, weight_decay and clipvalue",
            optimizers::Adam({.clipnorm = 1}));
    refused(kNot, "sgd with global_clipnorm", SGD({.global_clipnorm = 1}));
    refused(kNot, "sgd with use_ema", SGD({.use_ema = true}));
    refused(kNot, "sgd with loss_scale_factor", SGD({.loss_scale_factor = 2}));
    refused(kNot, "sgd with gradient_accumulation_steps", SGD({.gradient_accumulation_steps = 2}));
    refused(kNot, "sgd with a schedule of learning rates",
            SGD({.learning_rate = schedules::InverseTimeDecay{0.1, 1, 1}}));
    refused(kNot, "sgd with a dynamic loss scale", optimizers::LossScaleOptimizer(SGD()));
    refused(kNot, "got the rule lamb, which needs norms of whole variables", "lamb");
  }));
}

TEST(ParameterServerStrategyTest, AParameterServerDoesNotTrain) {
  const cluster::ClusterSpec spec = {{"ps", {"127.0.0.1:1"}}, {"worker", {"127.0.0.1:2"}}};
  const auto resolver = std::make_shared<cluster::SimpleResolver>(
      spec, cluster::SimpleOptions{.task_type = "ps", .task_id = 0});
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"this process is /job:ps/task:0", "call run_parameter_server() before"},
                     [&] { ParameterServerStrategy strategy({.cluster_resolver = resolver}); }));
  const auto worker = std::make_shared<cluster::SimpleResolver>(
      spec, cluster::SimpleOptions{.task_type = "worker", .task_id = 0});
  EXPECT_FALSE(run_parameter_server({.cluster_resolver = worker}));
}

TEST(ParameterServerStrategyTest, AServerHasTheLimitsOfItsProgram) {
  const cluster::ClusterSpec spec = {{"ps", {"ps-0:1"}}, {"worker", {"worker-0:1"}}};
  const auto resolver = std::make_shared<cluster::SimpleResolver>(
      spec, cluster::SimpleOptions{.task_type = "ps", .task_id = 0});
  wire::MemoryNetwork network;
  EXPECT_TRUE(throws(ErrorCode::kDeadlineExceeded, {"no worker was connected for 0.05 s"}, [&] {
    run_parameter_server({.cluster_resolver = resolver,
                          .server = {.transport = network.transport("ps-0")},
                          .limits = {.idle_timeout = std::chrono::milliseconds(50)}});
  }));
}

// Training alone should be no surprise.
TEST(ParameterServerStrategyTest, WithoutServersItIsOneProcessAndSaysSo) {
  const cluster::ClusterSpec workers = {{"worker", {"127.0.0.1:1"}}};
  const auto no_servers = std::make_shared<cluster::SimpleResolver>(
      workers, cluster::SimpleOptions{.task_type = "worker", .task_id = 0});
  const auto no_cluster = std::make_shared<cluster::SimpleResolver>(cluster::ClusterSpec());
  for (const auto& [resolver, found] :
       std::vector<std::pair<std::shared_ptr<cluster::ClusterResolver>, std::string>>{
           {no_servers, workers.to_string()}, {no_cluster, "no cluster"}}) {
    std::vector<std::string> lines;
    LogSink before = set_log_sink([&](const LogRecord& record) {
      if (record.message.find("trains alone") != std::string::npos)
        lines.emplace_back(record.message);
    });
    ParameterServerStrategy strategy({.cluster_resolver = resolver, .devices = {"cpu:0"}});
    set_log_sink(std::move(before));
    EXPECT_EQ(strategy.num_servers(), 0);
    EXPECT_TRUE(strategy.is_chief());
    ASSERT_EQ(lines.size(), 1U) << found;
    EXPECT_NE(lines[0].find("found no parameter servers (" + found + ")"), std::string::npos)
        << lines[0];
    EXPECT_NE(lines[0].find("strata launch -n 2 --ps 1"), std::string::npos) << lines[0];
  }
}

class SpanNames final : public SpanObserver {
 public:
  void span_ended(std::string_view name, std::chrono::steady_clock::time_point) override {
    const std::lock_guard lock(mutex_);
    names_.emplace_back(name);
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(names_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_;  // guarded by mutex_
};

TEST(ParameterServerStrategyTest, PushesAndPullsMakeSpans) {
  PsCluster::expect_ok(train(2, 1, [](ParameterServerStrategy& strategy, int) {
    const Variable weight = strategy.scope([] { return Variable(at::ones({100})); });
    optimizers::SGD sgd({weight}, {.learning_rate = 0.1});
    const ServerEmbedding table(strategy, {.name = "users", .rows = 20, .width = 3});
    const auto spans = std::make_shared<SpanNames>();
    strategy.run([&] {
      const SpanObserverScope scope(spans);
      const at::Tensor looked_up = table.lookup(at::arange(0, 20, 2, at::kLong));
      sgd.minimize(weight.value().sum() + looked_up.sum());
    });
    EXPECT_EQ(spans->take(), (std::vector<std::string>{"pull of rows of users", "backward",
                                                       "push of rows of users",
                                                       "push and pull of optimizer 1/Float"}));
  }));
}

}  // namespace
}  // namespace strata
