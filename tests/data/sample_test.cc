#include <cmath>
#include <set>

#include "data/elements.h"

namespace strata::data {
namespace {

Dataset tens(int64_t which, int64_t n) { return Dataset::range(1000 * which, 1000 * which + n); }

TEST(SampleTest, DrawsByWeight) {
  const Dataset dataset = Dataset::sample_from_datasets(
      {tens(0, 10).repeat(), tens(1, 10).repeat(), tens(2, 10).repeat()}, {.weights = {1, 0, 3}});
  std::vector<int> counts(3);
  constexpr int kCount = 8000;
  for (const int64_t value : values_of(dataset, 0, kCount))
    ++counts[static_cast<size_t>(value / 1000)];
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[0] / double{kCount}, 0.25, 5 * 0.433 / std::sqrt(kCount));
  EXPECT_EQ(dataset.cardinality(), Dataset::kInfinite);
}

TEST(SampleTest, GoesOnUntilAllHaveEnded) {
  const Dataset dataset = Dataset::sample_from_datasets({tens(0, 3), tens(1, 50)});
  const auto values = values_of(dataset);
  EXPECT_EQ(values.size(), 53u);
  EXPECT_EQ(std::set<int64_t>(values.begin(), values.end()).size(), 53u);
  EXPECT_EQ(dataset.cardinality(), 53);
  // Each keeps its order.
  int64_t last = -1;
  for (const int64_t value : values) {
    if (value >= 1000) continue;
    EXPECT_GT(value, last);
    last = value;
  }
  // One that is never drawn does not keep it from ending.
  EXPECT_EQ(
      values_of(Dataset::sample_from_datasets({tens(0, 3), tens(1, 50)}, {.weights = {1, 0}})),
      (std::vector<int64_t>{0, 1, 2}));
}

TEST(SampleTest, StopsWithTheFirstIfAsked) {
  const Dataset dataset =
      Dataset::sample_from_datasets({tens(0, 3), tens(1, 50)}, {.stop_on_empty_dataset = true});
  const auto values = values_of(dataset);
  EXPECT_LT(values.size(), 53u);
  EXPECT_EQ(std::count_if(values.begin(), values.end(), [](int64_t v) { return v < 1000; }), 3);
  EXPECT_EQ(dataset.cardinality(), Dataset::kUnknown);
}

TEST(SampleTest, IsKeyedBySeedAndEpoch) {
  const auto sample = [](const SampleOptions& options) {
    return Dataset::sample_from_datasets({tens(0, 20), tens(1, 20)}, options);
  };
  EXPECT_EQ(values_of(sample({.seed = 1}), 3), values_of(sample({.seed = 1}), 3));
  EXPECT_NE(values_of(sample({.seed = 1}), 3), values_of(sample({.seed = 2}), 3));
  EXPECT_NE(values_of(sample({.seed = 1}), 3), values_of(sample({.seed = 1}), 4));
  const SampleOptions fixed{.rerandomize_each_iteration = false};
  EXPECT_EQ(values_of(sample(fixed), 3), values_of(sample(fixed), 4));
}

TEST(SampleTest, RejectsBadArguments) {
  const auto sample = [](std::vector<double> weights) {
    return [weights] {
      (void)Dataset::sample_from_datasets({tens(0, 2), tens(1, 2)}, {.weights = weights});
    };
  };
  expect_error(ErrorCode::kInvalidArgument, {"got 1 weights for 2 datasets"}, sample({1}));
  expect_error(ErrorCode::kInvalidArgument, {"got weight -1"}, sample({-1, 1}));
  expect_error(ErrorCode::kInvalidArgument, {"weights that are all 0"}, sample({0, 0}));
  expect_error(ErrorCode::kInvalidArgument, {"sample_from_datasets: got no datasets"},
               [] { (void)Dataset::sample_from_datasets({}); });
  expect_error(ErrorCode::kInvalidArgument, {"choose_from_datasets: got no datasets"},
               [] { (void)Dataset::choose_from_datasets({}, Dataset::range(1)); });
}

TEST(ChooseTest, RejectsChoicesThatAreNone) {
  const auto choose = [](const Dataset& choices) {
    return [choices] {
      (void)values_of(Dataset::choose_from_datasets({tens(0, 2), tens(1, 2)}, choices));
    };
  };
  expect_error(ErrorCode::kInvalidArgument, {"got choice 2 among 2"}, choose(Dataset::range(2, 3)));
  expect_error(ErrorCode::kInvalidArgument, {"got choice -1 among 2"},
               choose(Dataset::range(-1, 0)));
  expect_error(ErrorCode::kInvalidArgument, {"no int64 scalar"},
               choose(Dataset::range(4).batch(2)));
}

}  // namespace
}  // namespace strata::data
