// What a replica function throws ends the step and no more than that: the caller gets that very
// exception, and training goes on with the bits of one in which nothing was thrown.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "strata/data/dataset.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/one_device_strategy.h"
#include "strata/tensor/fingerprint.h"
#include "support/replicas.h"

namespace strata {
namespace {

/// What is thrown, and that it is what came.
struct Thrown {
  std::string name;
  std::function<void()> raise;
  std::function<bool()> is_caught;  // in a catch block
};

template <typename Exception>
bool is_caught_as() {
  try {
    throw;
  } catch (const Exception&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::vector<Thrown> what_users_throw() {
  return {
      {"std::exception", [] { throw std::out_of_range("row 7"); }, is_caught_as<std::out_of_range>},
      {"std::bad_alloc", [] { throw std::bad_alloc(); }, is_caught_as<std::bad_alloc>},
      {"int", [] { throw 7; }, is_caught_as<int>},
      {"strata::Error", [] { throw Error(ErrorCode::kDataLoss, "row 7"); }, is_caught_as<Error>}};
}

using Make = std::function<std::unique_ptr<Strategy>()>;

class Training {
 public:
  explicit Training(Strategy& strategy) : strategy_(strategy) {
    strategy_.scope([&] {
      weights_.emplace_back(at::ones({300}), VariableOptions{.name = "large"});
      weights_.emplace_back(at::full({3}, 0.5), VariableOptions{.name = "small"});
    });
    adam_.emplace(weights_, optimizers::AdamOptions{.learning_rate = 0.01});
  }

  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      strategy_.run([&] {
        const at::Tensor noise = at::rand({3});
        adam_->minimize((weights_[0].value() * noise.sum()).sum() +
                        (weights_[1].value() * noise).pow(2).sum());
      });
    }
  }

  /// A step in which the last replica throws, or all do, before or after a sum.
  void fail(const Thrown& thrown, bool all, bool after) {
    const int last = strategy_.num_replicas_in_sync() - 1;
    bool caught = false;
    try {
      strategy_.run([&] {
        const ReplicaContext& context = *get_replica_context();
        const bool throws = all || context.replica_id_in_sync_group() == last;
        if (throws && !after) thrown.raise();
        (void)context.all_reduce(ReduceOp::kSum, at::ones({1000}));
        if (throws) thrown.raise();
        (void)context.all_reduce(ReduceOp::kSum, at::ones({1000}));
      });
    } catch (...) {
      caught = thrown.is_caught();
    }
    EXPECT_TRUE(caught) << thrown.name << (all ? ", all" : ", one") << (after ? ", after" : "");
  }

  std::string digest() const {
    std::vector<at::Tensor> state;
    for (const Variable& weight : weights_) state.push_back(weight.value().detach());
    for (const auto& [name, slot] : adam_->slots()) state.push_back(slot);
    return tensor::fingerprint(state);
  }

 private:
  Strategy& strategy_;
  std::vector<Variable> weights_;
  std::optional<optimizers::Adam> adam_;
};

struct Case {
  std::string name;
  Make make;
};

class AfterExceptionsTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { set_logical_devices("cpu", 4); }
};

TEST_P(AfterExceptionsTest, TrainingGoesOnWithTheSameBits) {
  for (const bool all : {false, true}) {
    for (const bool after : {false, true}) {
      const auto undisturbed = GetParam().make();
      Training good(*undisturbed);
      const auto strategy = GetParam().make();
      Training training(*strategy);
      for (const Thrown& thrown : what_users_throw()) {
        good.steps(2);
        undisturbed->run([] {});  // a step, as the random streams count
        training.steps(2);
        training.fail(thrown, all, after);
      }
      good.steps(2);
      training.steps(2);
      EXPECT_EQ(training.digest(), good.digest()) << all << after;
    }
  }
}

TEST_P(AfterExceptionsTest, AMapThatThrowsCostsItsBatchAtMost) {
  for (const int64_t parallel_calls : {0, 2}) {
    const auto strategy = GetParam().make();
    const auto rows = data::Dataset::range(40)
                          .map(
                              [](const data::Example& row) {
                                if (row[0].item<int64_t>() == 13) throw std::out_of_range("row 13");
                                return row;
                              },
                              {.num_parallel_calls = parallel_calls})
                          .batch(4);
    const DistributedDataset distributed = strategy->distribute(rows);
    auto iterator = distributed.iterator();
    std::set<int64_t> seen;
    int thrown = 0;
    for (int turn = 0; turn < 100; ++turn) {
      try {
        const auto parts = iterator.next();
        if (!parts) break;
        const auto sums =
            strategy->run([](const data::Example& part) { return part[0].sum(); }, *parts);
        (void)strategy->reduce(ReduceOp::kSum, sums);
        for (const data::Example& part : *parts) {
          for (int64_t i = 0; i < part.num_rows(); ++i) seen.insert(part[0][i].item<int64_t>());
        }
      } catch (const std::out_of_range& error) {
        EXPECT_STREQ(error.what(), "row 13");
        ++thrown;
      }
    }
    EXPECT_EQ(thrown, 1);
    EXPECT_FALSE(seen.contains(13));
    EXPECT_TRUE(seen.contains(11));
    EXPECT_TRUE(seen.contains(39));
    EXPECT_GE(seen.size(), 36u);  // of its batch the rows before it, at most
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, AfterExceptionsTest,
                         testing::Values(Case{"mirrored",
                                              [] {
                                                return std::make_unique<MirroredStrategy>(
                                                    MirroredOptions{.devices = cpus(3), .seed = 5});
                                              }},
                                         Case{"central",
                                              [] {
                                                return std::make_unique<CentralStorageStrategy>(
                                                    CentralStorageOptions{
                                                        .compute_devices = cpus(3), .seed = 5});
                                              }},
                                         Case{"one",
                                              [] {
                                                return std::make_unique<OneDeviceStrategy>(
                                                    OneDeviceOptions{.seed = 5});
                                              }}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace strata
