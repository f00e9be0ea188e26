#include "strata/interop/torch_data.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "strata/strategies/mirrored_strategy.h"

namespace strata::interop {
namespace {

using torch::data::transforms::Stack;

/// x is [i, i], y is i.
struct Count : torch::data::datasets::Dataset<Count> {
  explicit Count(int64_t rows, bool ragged = false) : rows(rows), ragged(ragged) {}
  torch::data::Example<> get(size_t index) override {
    const auto i = static_cast<int64_t>(index);
    return {at::full({ragged ? i + 1 : 2}, static_cast<double>(i)), at::tensor(i)};
  }
  std::optional<size_t> size() const override { return static_cast<size_t>(rows); }
  int64_t rows;
  bool ragged;
};

auto loader_of(int64_t rows, int64_t batch, size_t workers = 0) {
  return torch::data::make_data_loader(
      Count(rows).map(Stack<>()),
      torch::data::DataLoaderOptions().batch_size(batch).workers(workers));
}

int64_t sum_of_labels(const data::Dataset& dataset) {
  int64_t sum = 0;
  for (const data::Example& batch : dataset) {
    EXPECT_EQ(batch.x().size(0), batch.y().size(0));
    sum += batch.y().sum().item<int64_t>();
  }
  return sum;
}

TEST(FromDataLoaderTest, EveryPassIsAnEpoch) {
  const auto loader = loader_of(10, 4);
  const data::Dataset dataset = from_data_loader(*loader);
  EXPECT_EQ(sum_of_labels(dataset), 45);
  EXPECT_EQ(sum_of_labels(dataset), 45);
  // Given up half way; the next epoch is whole all the same.
  for (const data::Example& batch : dataset) {
    EXPECT_EQ(batch.x().sizes(), (std::vector<int64_t>{4, 2}));
    break;
  }
  EXPECT_EQ(sum_of_labels(dataset), 45);
}

TEST(FromDataLoaderTest, WithWorkersAndOwned) {
  const data::Dataset dataset = from_data_loader(loader_of(10, 3, /*workers=*/2));
  EXPECT_EQ(sum_of_labels(dataset), 45);
  for (const data::Example& batch : dataset) {
    (void)batch;
    break;
  }
  EXPECT_EQ(sum_of_labels(dataset), 45);
}

TEST(FromDataLoaderTest, StacksWhatIsNotStacked) {
  const auto rows = torch::data::make_data_loader(Count(10), torch::data::DataLoaderOptions(4));
  EXPECT_EQ(sum_of_labels(from_data_loader(*rows)), 45);
  const auto only_data = torch::data::make_data_loader(
      torch::data::datasets::TensorDataset(at::arange(6)), torch::data::DataLoaderOptions(4));
  std::vector<int64_t> sizes;
  for (const data::Example& batch : from_data_loader(*only_data)) {
    EXPECT_EQ(batch.size(), 1);
    sizes.push_back(batch.x().size(0));
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{4, 2}));
}

TEST(FromDataLoaderTest, UnequalRowsAreAnError) {
  const auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      Count(4, /*ragged=*/true), torch::data::DataLoaderOptions(4));
  try {
    sum_of_labels(from_data_loader(*loader));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("rows of shapes [1] and [2]"), std::string::npos)
        << error.what();
  }
}

TEST(FromDataLoaderTest, IsDistributed) {
  for (const int replicas : {1, 2, 3}) {
    set_logical_devices("cpu", replicas);
    MirroredOptions options;
    for (int i = 0; i < replicas; ++i) options.devices.push_back(str_cat("cpu:", i));
    MirroredStrategy strategy(options);
    const auto loader = loader_of(10, 4);
    std::vector<int64_t> sums(static_cast<size_t>(replicas));
    for (int epoch = 0; epoch < 2; ++epoch) {
      for_each_batch(strategy, *loader, [&](const torch::data::Example<>& batch) {
        EXPECT_LE(batch.data.size(0), (4 + replicas - 1) / replicas);
        const int id = get_replica_context()->replica_id_in_sync_group();
        sums[static_cast<size_t>(id)] += batch.target.sum().item<int64_t>();
      });
    }
    int64_t total = 0;
    for (const int64_t sum : sums) total += sum;
    EXPECT_EQ(total, 90) << replicas;
  }
}

}  // namespace
}  // namespace strata::interop
