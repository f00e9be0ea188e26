// ParameterServerStrategy under a coordinator: the chief makes the model and decides, workers have
// a strategy each and take the steps they are told to. The tasks are threads on a network in
// memory.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/thread.h"
#include "parity/models.h"
#include "ps/tables/parameter_server.h"
#include "strata/cluster/resolvers.h"
#include "strata/strategies/cluster_coordinator.h"
#include "strata/strategies/parameter_server_strategy.h"
#include "support/replicas.h"
#include "support/thread_cluster.h"

namespace strata {
namespace {

using namespace strata::parity;  // NOLINT
using cluster::TaskId;
using test::soon;
using test::ThreadCluster;

/// A task's strategy, and the model under it.
struct Trainer {
  explicit Trainer(const ParameterServerStrategyOptions& options)
      : strategy(options),
        net(strategy.replicate([] { return std::make_shared<Net>(Kind::kMlp, at::kFloat); })),
        sgd(net.variables(), {.learning_rate = 0.1}) {}

  double step(const data::Example& batch) {
    std::atomic<double> loss = 0;
    strategy.run([&] { loss = train_step(*net, sgd, batch, batch.num_rows(), Form::kWeight); });
    return loss;
  }

  ParameterServerStrategy strategy;
  Replicated<Net> net;
  optimizers::SGD sgd;
};

class Job {
 public:
  Job() { set_logical_devices("cpu", 2); }

  std::shared_ptr<cluster::ClusterResolver> resolver(const TaskId& task) const {
    return std::make_shared<cluster::SimpleResolver>(
        spec_, cluster::SimpleOptions{.task_type = task.job, .task_id = task.index});
  }
  cluster::ServerOptions server(const TaskId& task) {
    return {.start_timeout = std::chrono::seconds(30),
            .transport = network_.transport(ThreadCluster::host_of(task))};
  }
  ParameterServerStrategyOptions strategy(const TaskId& task) {
    ParameterServerStrategyOptions options;
    options.cluster_resolver = resolver(task);
    options.devices = {"cpu:0"};
    options.seed = 5;
    options.server = server(task);
    options.replicas.threads_per_replica = 1;
    return options;
  }
  ClusterCoordinatorOptions coordinator(const TaskId& task) {
    return {.cluster_resolver = resolver(task), .server = server(task)};
  }
  std::unique_ptr<ps::ParameterServer> parameter_server() {
    return std::make_unique<ps::ParameterServer>(
        spec_, TaskId{"ps", 0}, ps::ParameterServerOptions{.server = server({"ps", 0})});
  }
  wire::MemoryNetwork& network() { return network_; }

 private:
  wire::MemoryNetwork network_;
  const cluster::ClusterSpec spec_ =
      ThreadCluster::spec_of({{"chief", 1}, {"worker", 2}, {"ps", 1}});
};

TEST(CoordinatedTrainingTest, WorkersTrainWhatTheChiefHasMade) {
  Job job;
  const auto server = job.parameter_server();
  const Batches batches = make_batches(Kind::kMlp, at::kFloat, 8, {16});
  ps::FunctionRegistry registry;
  registry.add_resource("trainer", [&](const ps::CallContext& context) {
    return std::make_unique<Trainer>(job.strategy(context.worker()));
  });
  registry.add("step", [&](Trainer& trainer, int64_t batch) {
    return trainer.step(batches.at(static_cast<size_t>(batch)));
  });
  std::vector<Thread> workers;
  for (int i = 0; i < 2; ++i) {
    workers.emplace_back("worker", [&, i] {
      EXPECT_TRUE(serve_worker(registry, job.coordinator({"worker", i})));
    });
  }
  std::optional<Trainer> own(job.strategy({"chief", 0}));  // brings the first values
  ClusterCoordinator coordinator(registry, job.coordinator({"chief", 0}));
  const ps::PerWorkerValues trainers = coordinator.create_per_worker_values("trainer");
  const auto epoch = [&] {
    std::vector<ps::RemoteValue<>> steps;
    for (int64_t i = 0; i < 40; ++i) {
      steps.push_back(coordinator.schedule("step", {trainers, i % 8}));
    }
    coordinator.join(soon());
    double sum = 0;
    for (const ps::RemoteValue<>& each : steps) sum += each.get<double>();
    return sum / 40;
  };
  const double first = epoch();
  double last = first;
  for (int i = 0; i < 20; ++i) last = epoch();
  EXPECT_LT(last, 0.8 * first);
  // One that is lost comes back with a strategy of its own, and goes on with what is there.
  job.network().cut("chief-0", "worker-1");
  job.network().heal("chief-0", "worker-1");
  EXPECT_LT(epoch(), last * 1.1);
  EXPECT_EQ(coordinator.counts().failed, 0U);
  coordinator.shutdown(soon());
  workers.clear();
  own.reset();
}

}  // namespace
}  // namespace strata
