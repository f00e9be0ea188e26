// What a replica function throws ends the step for all workers, and no more than that: they go on,
// and end with the bits of a training in which nothing was thrown.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "multi_worker/spread.h"
#include "runtime/replica_group.h"
#include "strata/optim/optimizers.h"
#include "strata/tensor/fingerprint.h"

namespace strata {
namespace {

using test::Spread;

enum class Place { kBefore, kAfter, kAllBefore, kAllAfter, kShapes, kBetweenRuns };

std::string_view name_of(Place place) {
  constexpr std::array<std::string_view, 6> kNames = {"before",    "after",  "all before",
                                                      "all after", "shapes", "between runs"};
  return kNames[static_cast<size_t>(place)];
}

/// Some steps of training; `place` is thrown at in the step after `good` ones.
class FailingTraining {
 public:
  FailingTraining(Strategy& strategy, int worker) : strategy_(strategy), worker_(worker) {
    strategy.scope([&] {
      weights_.emplace_back(at::ones({300}), VariableOptions{.name = "large"});
      weights_.emplace_back(at::full({3}, 0.5), VariableOptions{.name = "small"});
      count_.emplace_back(at::full({1}, 0.0),
                          VariableOptions{.name = "count",
                                          .trainable = false,
                                          .synchronization = VariableSynchronization::kOnRead,
                                          .aggregation = VariableAggregation::kSum});
    });
    adam_.emplace(weights_, optimizers::AdamOptions{.learning_rate = 0.01});
  }

  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      const auto drawn = strategy_.run([&] {
        const at::Tensor noise = at::rand({3});
        adam_->minimize((weights_[0].value() * noise.sum()).sum() +
                        (weights_[1].value() * noise).pow(2).sum());
        count_[0].assign_add(noise.narrow(0, 0, 1));
        return noise;
      });
      drawn_ += strategy_.reduce(ReduceOp::kSum, drawn).sum().item<double>();
    }
  }

  /// Also a step, as the random streams count.
  /// @return what this worker's call threw.
  Status fail(Place place) {
    try {
      if (place == Place::kBetweenRuns) {
        strategy_.run([] {});
        const std::vector<at::Tensor> values(
            static_cast<size_t>(strategy_.group().num_local_replicas()), at::ones({worker_ + 1}));
        (void)strategy_.reduce(ReduceOp::kSum, PerReplica<at::Tensor>(values));
        return {};
      }
      strategy_.run([&] {
        const ReplicaContext& context = *get_replica_context();
        const bool throws = worker_ == 1 || place == Place::kAllBefore || place == Place::kAllAfter;
        if (place == Place::kShapes) {
          (void)context.all_reduce(ReduceOp::kSum, at::ones({worker_ + 1}));
        }
        if (throws && (place == Place::kBefore || place == Place::kAllBefore)) {
          throw std::out_of_range("row 7 is broken\nBacktrace: 1 2 3");
        }
        (void)context.all_reduce(ReduceOp::kSum, at::ones({1000}));
        if (throws) throw std::out_of_range("row 7 is broken\nBacktrace: 1 2 3");
        (void)context.all_reduce(ReduceOp::kSum, at::ones({1000}));
      });
    } catch (...) {
      return Status::from_current_exception();
    }
    return {};
  }

  std::string digest() const {
    std::vector<at::Tensor> state = {at::full({}, drawn_, at::kDouble), count_[0].value()};
    for (const Variable& weight : weights_) state.push_back(weight.value().detach());
    for (const auto& [name, slot] : adam_->slots()) state.push_back(slot);
    return tensor::fingerprint(state);
  }

 private:
  Strategy& strategy_;
  int worker_;
  std::vector<Variable> weights_;
  std::vector<Variable> count_;
  std::optional<optimizers::Adam> adam_;
  double drawn_ = 0;
};

/// The digests of `replicas`, all of whose processes do the same.
std::set<std::string> digests(const Spread& replicas, std::optional<Place> place,
                              const MultiWorkerMirroredOptions& options,
                              std::vector<Status>* seen = nullptr) {
  std::mutex mutex;
  std::set<std::string> found;
  if (seen) seen->resize(replicas.size());
  test::run_well(
      replicas,
      [&](Strategy& strategy, int worker) {
        FailingTraining training(strategy, worker);
        training.steps(3);
        if (place) {
          const Status status = training.fail(*place);
          EXPECT_FALSE(status.ok()) << worker;
          if (seen) (*seen)[static_cast<size_t>(worker)] = status;
        } else {
          strategy.run([] {});
        }
        training.steps(100);
        const std::string digest = training.digest();
        const std::lock_guard lock(mutex);
        found.insert(digest);
      },
      options);
  return found;
}

class AfterExceptionsTest
    : public testing::TestWithParam<std::tuple<Place, std::string, bool, bool>> {
 protected:
  MultiWorkerMirroredOptions options() const {
    MultiWorkerMirroredOptions options;
    options.communication_options.implementation = std::get<1>(GetParam());
    options.communication_options.overlap = std::get<2>(GetParam());
    options.shard_optimizer_state = std::get<3>(GetParam());
    return options;
  }
};

TEST_P(AfterExceptionsTest, TrainingGoesOnWithTheSameBits) {
  const Place place = std::get<0>(GetParam());
  const std::set<std::string> undisturbed = digests({3}, std::nullopt, {});
  ASSERT_EQ(undisturbed.size(), 1u);
  std::vector<Status> seen;
  EXPECT_EQ(digests({1, 2}, place, options(), &seen), undisturbed) << name_of(place);
  for (const Status& status : seen) {
    EXPECT_EQ(status.message().find("build a new one"), std::string::npos) << status.message();
  }
  if (place != Place::kBefore && place != Place::kAfter) return;
  EXPECT_EQ(seen[1].message(), "row 7 is broken\nBacktrace: 1 2 3");  // its own exception
  EXPECT_NE(seen[0].message().find("/job:worker/task:1"), std::string::npos) << seen[0].message();
  EXPECT_NE(seen[0].message().find("row 7 is broken"), std::string::npos) << seen[0].message();
  EXPECT_EQ(seen[0].message().find("Backtrace"), std::string::npos) << seen[0].message();
  EXPECT_EQ(seen[0].code(), ErrorCode::kAborted);
}

INSTANTIATE_TEST_SUITE_P(Places, AfterExceptionsTest,
                         testing::Combine(testing::Values(Place::kBefore, Place::kAfter,
                                                          Place::kAllBefore, Place::kAllAfter,
                                                          Place::kShapes, Place::kBetweenRuns),
                                          testing::Values("AUTO", "WIRE"), testing::Values(false),
                                          testing::Bool()));
INSTANTIATE_TEST_SUITE_P(Overlap, AfterExceptionsTest,
                         testing::Combine(testing::Values(Place::kBefore, Place::kAfter),
                                          testing::Values("WIRE"), testing::Values(true),
                                          testing::Bool()));

TEST(AfterExceptionsOften, EveryOtherStepMayThrow) {
  test::run_well({1, 1}, [&](Strategy& strategy, int worker) {
    FailingTraining training(strategy, worker);
    for (int round = 0; round < 10; ++round) {
      training.steps(1);
      EXPECT_FALSE(training.fail(round % 2 == 0 ? Place::kBefore : Place::kAllAfter).ok());
    }
    training.steps(1);
  });
}

TEST(AfterExceptionsGone, WhoMissesAWorkerHearsHowToGoOn) {
  const std::vector<Status> outcomes = test::run({1, 1}, [&](Strategy& strategy, int worker) {
    FailingTraining training(strategy, worker);
    training.steps(1);
    const Status status = training.fail(Place::kBefore);
    if (worker == 1) status.throw_if_error();
    EXPECT_FALSE(status.ok());
    training.steps(1);
  });
  EXPECT_FALSE(outcomes[0].ok());
  EXPECT_NE(outcomes[0].message().find("start the program again"), std::string::npos)
      << outcomes[0].message();
}

}  // namespace
}  // namespace strata
