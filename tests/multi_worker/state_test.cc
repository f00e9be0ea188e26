// A checkpoint does not know how its replicas are spread over processes. Here the processes are
// threads on a network in memory.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "multi_worker/spread.h"
#include "runtime/coalesced_read.h"
#include "runtime/replica_group.h"
#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/core/file_system.h"
#include "strata/optim/optimizers.h"
#include "strata/tensor/fingerprint.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::run;
using test::run_well;
using test::Spread;

at::Tensor everywhere(const Strategy& strategy, const Variable& variable) {
  std::vector<at::Tensor> values;
  for (int r = 0; r < strategy.group().num_local_replicas(); ++r) {
    values.push_back(variable.on_replica(r).detach().unsqueeze(0).clone());
  }
  return strategy.gather(PerReplica(std::move(values)), 0);
}

/// Some of every kind: what is trained, what each replica has for itself and how it is read, random
/// draws, a place in an input.
class Training {
 public:
  explicit Training(Strategy& strategy)
      : strategy_(strategy), batches_(strategy.distribute(input())) {
    strategy.scope([&] {
      variables_.emplace_back(at::ones({40}), VariableOptions{.name = "weight"});
      const auto own = [&](const char* name, VariableSynchronization synchronization,
                           VariableAggregation aggregation) {
        variables_.emplace_back(at::ones({2}), VariableOptions{.name = name,
                                                               .trainable = false,
                                                               .synchronization = synchronization,
                                                               .aggregation = aggregation});
      };
      own("sum", VariableSynchronization::kOnRead, VariableAggregation::kSum);
      own("mean", VariableSynchronization::kOnRead, VariableAggregation::kMean);
      own("first", VariableSynchronization::kOnRead, VariableAggregation::kOnlyFirstReplica);
      own("none", VariableSynchronization::kOnRead, VariableAggregation::kNone);
      own("apart", VariableSynchronization::kOnWrite, VariableAggregation::kNone);
    });
    sgd_.emplace(std::vector<Variable>{variables_[0]},
                 optimizers::SGDOptions{.learning_rate = 0.1, .momentum = 0.9});
  }

  Checkpoint::Objects objects() {
    return {{"variables", variables_},
            {"sgd", *sgd_},
            {"input", input_},
            {"epoch", epoch_},
            {"drawn", drawn_}};
  }

  void step() {
    auto batch = input_.next();
    if (!batch) {
      input_ = batches_.iterator(++epoch_);
      batch = input_.next();
    }
    const auto drawn = strategy_.run(
        [&](const data::Example& part) {
          const at::Tensor noise = at::rand({2});
          sgd_->minimize((variables_[0].value() * (part[0].sum() + noise.sum())).sum());
          for (size_t i = 1; i < variables_.size(); ++i) {
            variables_[i].assign(noise * static_cast<double>(i + 1));
          }
          return noise.unsqueeze(0);
        },
        *batch);
    drawn_.push_back(strategy_.reduce(ReduceOp::kSum, drawn).sum().item<double>());
  }

  std::string digest() const {
    std::vector<at::Tensor> state = {at::tensor(drawn_, at::kDouble)};
    for (const Variable& variable : variables_) state.push_back(everywhere(strategy_, variable));
    for (const auto& [name, slot] : sgd_->slots()) state.push_back(slot);
    return tensor::fingerprint(state);
  }

 private:
  static data::Dataset input() {
    return data::Dataset::range(70)
        .map([](const data::Example& row) { return data::Example{row[0].to(at::kFloat)}; })
        .shuffle(30, {.seed = 4})
        .batch(20);
  }

  Strategy& strategy_;
  std::vector<Variable> variables_;
  std::optional<optimizers::SGD> sgd_;
  DistributedDataset batches_;
  DistributedDataset::Iterator input_ = batches_.iterator(0);
  int64_t epoch_ = 0;
  std::vector<double> drawn_;
};

// What decides how products are added up.
TEST(InitialValueTest, KeepsItsOrderInMemory) {
  run_well({2, 1}, [](Strategy& strategy, int worker) {
    const at::Tensor local = at::full({3, 2}, worker + 1).t();
    const Variable variable = strategy.scope([&] { return Variable(local, {.name = "kernel"}); });
    EXPECT_EQ(variable.value().strides(), local.strides());
    EXPECT_EQ(variable.value().sum().item<double>(), 6);  // the chief's
  });
}

TEST(MultiWorkerStateTest, OneSpreadGoesOnWhereAnotherStopped) {
  std::vector<std::string> undisturbed;  // after each step
  run_well({8}, [&](Strategy& strategy, int) {
    Training training(strategy);
    for (int i = 0; i < 14; ++i) {
      training.step();
      undisturbed.push_back(training.digest());
    }
  });
  const test::TempFolder folder;
  const MultiWorkerMirroredOptions in_memory;
  const MultiWorkerMirroredOptions sharded = {.communication_options = {.implementation = "WIRE"},
                                              .shard_optimizer_state = true};
  struct Life {
    Spread replicas;
    MultiWorkerMirroredOptions options;
  };
  size_t step = 0;
  for (const auto& [replicas, options] : {Life{{8}, {}},
                                          {{4, 4}, in_memory},
                                          {{8}, {}},
                                          {{3, 3, 2}, sharded},
                                          {Spread(8, 1), in_memory},
                                          {{4, 4}, sharded},
                                          {{7, 1}, sharded}}) {
    run_well(
        replicas,
        [&, &replicas = replicas](Strategy& strategy, int) {
          Training training(strategy);
          Checkpoint checkpoint(training.objects());
          CheckpointManager manager(checkpoint, folder.path(), {.max_to_keep = 2});
          const auto path = manager.restore_or_initialize();
          EXPECT_EQ(path.has_value(), step > 0);
          if (path) {
            manager.status().assert_consumed();
            EXPECT_EQ(training.digest(), undisturbed[step - 1]) << replicas.size() << " workers";
          }
          for (size_t i = 0; i < 2; ++i) {
            training.step();
            EXPECT_EQ(training.digest(), undisturbed[step + i]) << replicas.size() << " workers";
          }
          EXPECT_TRUE(manager.save());
          EXPECT_TRUE(manager.latest_checkpoint());  // on every worker, as soon as save returns
        },
        options);
    step += 2;
  }
}

TEST(MultiWorkerStateTest, AnotherNumberOfReplicasFollowsTensorFlowsRule) {
  const test::TempFolder folder;
  const auto train = [&](const Spread& replicas, double expected_sum) {
    run_well(replicas, [&](Strategy& strategy, int) {
      const Variable sum = strategy.scope([] {
        return Variable(at::ones({}), {.name = "sum",
                                       .trainable = false,
                                       .synchronization = VariableSynchronization::kOnRead,
                                       .aggregation = VariableAggregation::kSum});
      });
      Checkpoint checkpoint({{"sum", sum}});
      CheckpointManager manager(checkpoint, folder.path());
      if (manager.restore_or_initialize()) {
        EXPECT_EQ(sum.value().item<double>(), expected_sum);
      }
      (void)manager.save();
    });
  };
  train({4, 4}, 0);
  train({1, 3}, 8);
  train({2}, 8);
}

TEST(MultiWorkerStateTest, AsynchronousSavesAreTheChiefs) {
  const test::TempFolder folder;
  std::string saved;
  for (const Spread& replicas : {Spread{4, 4}, {3, 3, 2}}) {
    std::mutex mutex;
    run_well(replicas, [&](Strategy& strategy, int worker) {
      Training training(strategy);
      Checkpoint checkpoint(training.objects(), {.asynchronous = true});
      CheckpointManager manager(checkpoint, folder.path());
      if (manager.restore_or_initialize()) {
        EXPECT_EQ(training.digest(), saved);
      }
      for (int i = 0; i < 3; ++i) {
        training.step();
        (void)manager.save();
      }
      checkpoint.wait();
      const std::string digest = training.digest();
      const std::lock_guard lock(mutex);
      if (worker == 0) saved = digest;
    });
  }
}

/// Where each worker reads data of its own, it goes on where it was itself.
TEST(MultiWorkerStateTest, EveryWorkersOwnPositionComesBack) {
  const test::TempFolder folder;
  const auto own = [](const InputContext& context) {
    const int64_t first = context.input_pipeline_id * 1000;
    return data::Dataset::range(first, first + 40 + 10 * context.input_pipeline_id).batch(2);
  };
  const auto rows = [](DistributedDataset::Iterator& input) {
    std::vector<int64_t> all;
    const auto element = input.next();
    if (!element) return all;
    for (const data::Example& part : element->values()) {
      for (int64_t i = 0; i < part.num_rows(); ++i) all.push_back(part[0][i].item<int64_t>());
    }
    return all;
  };
  std::map<int, std::vector<int64_t>> expected;
  std::mutex mutex;
  run_well({3, 2}, [&](Strategy& strategy, int worker) {
    auto input = strategy.distribute_from_function(own).iterator(0);
    Checkpoint checkpoint = strategy.scope([&] { return Checkpoint({{"input", input}}); });
    for (int i = 0; i < 3; ++i) (void)rows(input);
    (void)checkpoint.save(folder.path() + "/ckpt");
    const auto next = rows(input);
    EXPECT_FALSE(next.empty());
    const std::lock_guard lock(mutex);
    expected[worker] = next;
  });
  EXPECT_NE(expected[0], expected[1]);
  run_well({3, 2}, [&](Strategy& strategy, int worker) {
    auto input = strategy.distribute_from_function(own).iterator(0);
    Checkpoint checkpoint = strategy.scope([&] { return Checkpoint({{"input", input}}); });
    checkpoint.restore(folder.path() + "/ckpt-1").assert_consumed();
    EXPECT_EQ(rows(input), expected.at(worker));
  });
  for (const Spread& others : {Spread{2, 2, 1}, {5}}) {
    run_well(others, [&](Strategy& strategy, int) {
      auto input = strategy.distribute_from_function(own).iterator(0);
      Checkpoint checkpoint = strategy.scope([&] { return Checkpoint({{"input", input}}); });
      EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                         {"'input/position'", "one for each of 2 workers"},
                         [&] { checkpoint.restore(folder.path() + "/ckpt-1").expect_partial(); }));
    });
  }
}

TEST(MultiWorkerStateTest, OneWorkersErrorIsEverybodys) {
  const test::TempFolder folder;
  std::ofstream(folder.path() + "/file") << "no folder";
  run_well({1, 1, 1}, [&](Strategy& strategy, int worker) {
    const Variable weight = strategy.scope([] { return Variable(at::ones({3})); });
    Checkpoint checkpoint({{"weight", weight}});
    const auto fails = [&](ErrorCode code, std::initializer_list<std::string_view> parts,
                           const std::function<void()>& fn) {
      EXPECT_TRUE(throws(code, parts, fn)) << "worker " << worker;
    };
    // The chief cannot write.
    try {
      (void)checkpoint.save(folder.path() + "/file/ckpt");
      ADD_FAILURE() << "saved below a file";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("(in worker 0)"), std::string::npos);
    }
    EXPECT_EQ(checkpoint.save(folder.path() + "/a"), folder.path() + "/a-1");
    EXPECT_EQ(checkpoint.save(folder.path() + "/b"), folder.path() + "/b-2");
    // One sees no such folder, or another.
    fails(ErrorCode::kNotFound, {"nowhere", "all workers see", "(in worker 2)"},
          [&] { checkpoint.restore(folder.path() + (worker == 2 ? "/nowhere" : "/a-1")); });
    fails(ErrorCode::kFailedPrecondition, {"worker 1 sees another checkpoint"},
          [&] { checkpoint.restore(folder.path() + (worker == 1 ? "/b-2" : "/a-1")); });
    // Nothing is broken by that.
    checkpoint.restore(folder.path() + "/a-1").assert_consumed();
  });
}

TEST(MultiWorkerStateTest, TheChiefDecidesWhichIsGoodAndWritesAlone) {
  const test::TempFolder folder;
  int64_t swept = 0;
  run_well({2, 2}, [&](Strategy& strategy, int worker) {
    const Variable weight = strategy.scope([] { return Variable(at::ones({3})); });
    Checkpoint checkpoint({{"weight", weight}});
    CheckpointManager manager(checkpoint, folder.path(), {.max_to_keep = 2});
    EXPECT_FALSE(manager.restore_or_initialize());
    for (int i = 0; i < 5; ++i) (void)manager.save();
    EXPECT_EQ(manager.checkpoints().size(), 2);
    strategy.group().communicator()->barrier();
    if (worker == 0) {  // the newest is damaged behind everybody's back
      const std::string shard = *manager.latest_checkpoint() + "/state-00000.safetensors";
      std::string text = read_file(shard);
      text.back() = static_cast<char>(text.back() + 1);
      std::ofstream(shard, std::ios::binary) << text;
      ++swept;
    }
    strategy.group().communicator()->barrier();
    EXPECT_EQ(manager.restore_or_initialize(), folder.path() + "/ckpt-4");
  });
  EXPECT_EQ(swept, 1);
}

// An error takes a survivor out of the reading; it goes on elsewhere, on the same thread.
TEST(CoalescedReadTest, AReadingThatFailedIsForgotten) {
  run_well({1, 1}, [](Strategy& strategy, int) {
    const Variable sum = strategy.scope([] {
      return Variable(at::ones({2}), {.trainable = false,
                                      .synchronization = VariableSynchronization::kOnRead,
                                      .aggregation = VariableAggregation::kSum});
    });
    strategy.group().communicator()->barrier();
    strategy.group().set_owner(nullptr);  // nothing mends it
    strategy.group().communicator()->fail(Status(ErrorCode::kUnavailable, "a worker is lost"));
    alignas(detail::CoalescedRead) std::array<std::byte, sizeof(detail::CoalescedRead)> place;
    EXPECT_THROW(new (place.data()) detail::CoalescedRead({sum}), Error);
    place.fill(std::byte{0xff});  // as who comes next does
    EXPECT_EQ(detail::CoalescedRead::value_of(*sum.state()), nullptr);
  });
}

}  // namespace
}  // namespace strata
