#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include "data/elements.h"

namespace strata::data {
namespace {

using Rows = std::vector<std::vector<int64_t>>;

// Yields these elements.
Dataset from_list(std::vector<Example> elements) {
  return Dataset::from_generator(
      [elements = std::move(elements), i = size_t{0}]() mutable -> std::optional<Example> {
        return i < elements.size() ? std::optional<Example>(elements[i++]) : std::nullopt;
      });
}

TEST(BatchTest, KeepsARaggedLastBatch) {
  for (const Dataset& dataset : {Dataset::range(5), counting_generator(5)}) {
    EXPECT_EQ(rows_of(dataset.batch(2)), (Rows{{0, 1}, {2, 3}, {4}}));
    EXPECT_EQ(rows_of(dataset.batch(2, {.drop_remainder = true})), (Rows{{0, 1}, {2, 3}}));
    EXPECT_EQ(rows_of(dataset.batch(5)), (Rows{{0, 1, 2, 3, 4}}));
    EXPECT_EQ(rows_of(dataset.batch(9)), (Rows{{0, 1, 2, 3, 4}}));
    EXPECT_EQ(rows_of(dataset.batch(9, {.drop_remainder = true})), Rows{});
  }
  EXPECT_EQ(rows_of(Dataset::range(0).batch(2)), Rows{});
}

TEST(BatchTest, StacksEveryField) {
  const Dataset dataset =
      Dataset::from_tensor_slices({floats({1, 2, 3, 4, 5, 6}, {3, 2}), longs({7, 8, 9})});
  const std::vector<std::string> expected = {"Float[2, 2](1,2,3,4) Long[2](7,8)",
                                             "Float[1, 2](5,6) Long[1](9)"};
  EXPECT_EQ(describe(dataset.batch(2)), expected);
  EXPECT_EQ(describe(dataset.map([](Example e) { return e; }).batch(2)), expected);
}

// One row size for each way that rows are copied.
TEST(BatchTest, GathersRowsOfAnySize) {
  for (const int64_t size : {1, 2, 3, 4, 8, 16, 40, 64, 784, 5000}) {
    const at::Tensor x = at::zeros({70, size}, at::kByte);
    for (int64_t r = 0; r < 70; ++r) x[r].fill_(r);
    const Dataset order = Dataset::range(70).shuffle(70).batch(32);
    Iterator rows = order.iterator(0);
    for (const Example& batch : Dataset::from_tensor_slices({x}).shuffle(70).batch(32)) {
      const at::Tensor expected = rows.next()->x().to(at::kByte).unsqueeze(1).expand({-1, size});
      ASSERT_TRUE(batch.x().equal(expected)) << size;
    }
  }
}

TEST(BatchTest, BatchesOfBatches) {
  const Dataset dataset = Dataset::range(8).batch(2).batch(2);
  EXPECT_EQ(describe(dataset),
            (std::vector<std::string>{"Long[2, 2](0,1,2,3)", "Long[2, 2](4,5,6,7)"}));
}

TEST(BatchTest, TakesStridedElementsAndThoseWithGradients) {
  const Dataset strided = from_list({{at::ones({2, 3}).t()}, {at::zeros({3, 2})}});
  EXPECT_EQ(describe(strided.batch(2)),
            std::vector<std::string>{"Float[2, 3, 2](1,1,1,1,1,1,0,0,0,0,0,0)"});
  const Dataset with_gradient = from_list({{at::ones({1}).requires_grad_()}, {at::zeros({1})}});
  EXPECT_TRUE(with_gradient.batch(2).iterator(0).next()->x().requires_grad());
}

TEST(BatchTest, UnlikeElementsAreNamed) {
  const auto expect_bad = [](std::vector<Example> elements, const std::vector<std::string>& parts) {
    const Dataset dataset = from_list(std::move(elements)).batch(4);
    Iterator iterator = dataset.iterator(0);
    expect_error(ErrorCode::kInvalidArgument, parts, [&] { (void)iterator.next(); });
  };
  const at::Tensor one = at::ones({2});
  expect_bad({{one, at::ones({2, 3})}, {one, at::ones({2, 4})}},
             {"batch: got shapes [2, 3] and [2, 4] in field 1", "elements 0 and 1"});
  expect_bad({{one}, {one}, {one.to(at::kLong)}},
             {"Float on cpu and Long on cpu", "elements 0 and 2"});
  expect_bad({{one}, {one, one}}, {"2 fields in element 1", "1 in element 0"});
}

TEST(BatchTest, KnowsItsSize) {
  const Dataset batches = Dataset::range(9).batch(4);
  EXPECT_EQ(batches.batch_size(), 4);
  EXPECT_EQ(batches.cardinality(), 3);
  EXPECT_EQ(Dataset::range(9).batch(4, {.drop_remainder = true}).cardinality(), 2);
  EXPECT_EQ(Dataset::range(9).repeat().batch(4).cardinality(), Dataset::kInfinite);
  EXPECT_EQ(counting_generator(9).batch(4).cardinality(), Dataset::kUnknown);
  EXPECT_EQ(batches.shuffle(3).repeat().take(9).skip(1).shard(2, 0).cache().prefetch().batch_size(),
            4);
  EXPECT_EQ(batches.map([](Example e) { return e; }).batch_size(), std::nullopt);
  EXPECT_EQ(batches.unbatch().batch_size(), std::nullopt);
  EXPECT_EQ(Dataset::range(9).batch_size(), std::nullopt);
}

TEST(BatchTest, RejectsAnEmptyBatch) {
  expect_error(ErrorCode::kInvalidArgument, {"batch: got batch_size 0"},
               [] { (void)Dataset::range(3).batch(0); });
}

TEST(UnbatchTest, UndoesBatch) {
  EXPECT_EQ(describe(Dataset::range(5).batch(2).unbatch()), describe(Dataset::range(5)));
  EXPECT_EQ(rows_of(Dataset::range(5).batch(2).unbatch().batch(3)), (Rows{{0, 1, 2}, {3, 4}}));
  EXPECT_EQ(values_of(Dataset::range(7).batch(3).unbatch().skip(4)),
            (std::vector<int64_t>{4, 5, 6}));
  EXPECT_EQ(Dataset::range(5).batch(2).unbatch().cardinality(), Dataset::kUnknown);
  EXPECT_EQ(Dataset::range(5).batch(2).repeat().unbatch().cardinality(), Dataset::kInfinite);
  EXPECT_EQ(Dataset::range(0).batch(2).unbatch().cardinality(), 0);
}

TEST(UnbatchTest, PassesOverEmptyElements) {
  const Dataset dataset =
      from_list({{longs({})}, {longs({1, 2})}, {longs({})}, {longs({3})}, {longs({})}});
  EXPECT_EQ(rows_of(dataset.unbatch()), (Rows{{1}, {2}, {3}}));
}

TEST(UnbatchTest, NeedsRows) {
  Iterator scalars = Dataset::range(2).unbatch().iterator(0);
  expect_error(ErrorCode::kInvalidArgument, {"a scalar in field 0"}, [&] { (void)scalars.next(); });
  Iterator uneven = from_list({{at::ones({2}), at::ones({3})}}).unbatch().iterator(0);
  expect_error(ErrorCode::kInvalidArgument, {"3 rows in field 1"}, [&] { (void)uneven.next(); });
}

}  // namespace
}  // namespace strata::data
