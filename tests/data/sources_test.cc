#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "data/elements.h"

namespace strata::data {
namespace {

TEST(FromTensorSlicesTest, YieldsOneElementForEachRow) {
  const Dataset dataset =
      Dataset::from_tensor_slices({floats({1, 2, 3, 4}, {2, 2}), longs({7, 8})});
  EXPECT_EQ(describe(dataset),
            (std::vector<std::string>{"Float[2](1,2) Long[](7)", "Float[2](3,4) Long[](8)"}));
  EXPECT_EQ(dataset.cardinality(), 2);
  EXPECT_EQ(dataset.batch_size(), std::nullopt);
}

TEST(FromTensorSlicesTest, SharesDenseTensorsAndKeepsDtypes) {
  const at::Tensor x = at::zeros({4, 2}, at::kByte);
  const auto element = Dataset::from_tensor_slices({x}).iterator(0).next();
  EXPECT_EQ(element->x().const_data_ptr(), x.const_data_ptr());
  EXPECT_EQ(element->x().scalar_type(), at::kByte);
}

TEST(FromTensorSlicesTest, TakesTransposedTensors) {
  const at::Tensor x = at::arange(6).view({2, 3}).t();  // rows 0,3 | 1,4 | 2,5
  EXPECT_EQ(rows_of(Dataset::from_tensor_slices({x})),
            (std::vector<std::vector<int64_t>>{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(rows_of(Dataset::from_tensor_slices({x}).batch(3)),
            (std::vector<std::vector<int64_t>>{{0, 3, 1, 4, 2, 5}}));
}

TEST(FromTensorSlicesTest, TakesNoPartInAutograd) {
  const at::Tensor x = at::zeros({2, 2}).requires_grad_();
  const Dataset dataset = Dataset::from_tensor_slices({x});
  EXPECT_FALSE(dataset.iterator(0).next()->x().requires_grad());
  EXPECT_FALSE(dataset.batch(2).iterator(0).next()->x().requires_grad());
}

TEST(FromTensorSlicesTest, MayBeEmpty) {
  const Dataset dataset = Dataset::from_tensor_slices({at::zeros({0, 3})});
  EXPECT_EQ(dataset.cardinality(), 0);
  EXPECT_TRUE(describe(dataset).empty());
  EXPECT_TRUE(describe(dataset.shuffle(3).repeat().batch(2).prefetch()).empty());
}

TEST(FromTensorSlicesTest, RowsMayHaveNoElements) {
  const Dataset dataset = Dataset::from_tensor_slices({at::zeros({3, 0})});
  EXPECT_EQ(describe(dataset.batch(2)),
            (std::vector<std::string>{"Float[2, 0]()", "Float[1, 0]()"}));
}

TEST(FromTensorSlicesTest, RejectsWhatHasNoRows) {
  const auto expect_bad = [](const Example& tensors, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::kInvalidArgument, parts,
                 [&] { (void)Dataset::from_tensor_slices(tensors); });
  };
  expect_bad({}, {"from_tensor_slices: got no tensors"});
  expect_bad({at::zeros({2}), at::zeros({})}, {"a scalar in field 1", "from_tensors"});
  expect_bad({at::zeros({2}), at::zeros({3})}, {"3 rows in field 1", "2 in field 0"});
  expect_bad({at::Tensor()}, {"undefined tensor in field 0"});
  expect_bad({at::eye(2).to_sparse()}, {"Sparse", "to_dense()"});
}

TEST(FromTensorSlicesTest, ReportsChangesInPlace) {
  const Dataset dataset = Dataset::from_tensor_slices({at::zeros({4, 2})});
  const Dataset guilty = dataset.map([](Example e) {
    e.x().add_(1);
    return e;
  });
  Iterator iterator = guilty.iterator(0);
  EXPECT_TRUE(iterator.next().has_value());
  expect_error(ErrorCode::kFailedPrecondition, {"changed in place", "clone()"},
               [&] { (void)iterator.next(); });

  Iterator batches = dataset.batch(2).iterator(0);
  batches.next()->x().add_(1);  // a batch is the caller's own
  EXPECT_TRUE(batches.next().has_value());
}

TEST(FromTensorsTest, YieldsTheTensorsOnce) {
  const Dataset dataset = Dataset::from_tensors({longs({1, 2}), at::zeros({})});
  EXPECT_EQ(describe(dataset), std::vector<std::string>{"Long[2](1,2) Float[](0)"});
  EXPECT_EQ(dataset.cardinality(), 1);
  EXPECT_EQ(rows_of(dataset.repeat(2).batch(3)), (std::vector<std::vector<int64_t>>{{1, 2, 1, 2}}));
  expect_error(ErrorCode::kInvalidArgument, {"from_tensors: got no tensors"},
               [] { (void)Dataset::from_tensors({}); });
}

TEST(RangeTest, CountsLikePython) {
  EXPECT_EQ(values_of(Dataset::range(3)), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(values_of(Dataset::range(2, 9, 3)), (std::vector<int64_t>{2, 5, 8}));
  EXPECT_EQ(values_of(Dataset::range(5, -2, -3)), (std::vector<int64_t>{5, 2, -1}));
  EXPECT_EQ(Dataset::range(5, 5).cardinality(), 0);
  EXPECT_EQ(Dataset::range(5, 4).cardinality(), 0);
  EXPECT_EQ(Dataset::range(4, 5, -1).cardinality(), 0);
  EXPECT_EQ(describe(Dataset::range(1)), std::vector<std::string>{"Long[](0)"});
  EXPECT_EQ(describe(Dataset::range(2).batch(2)), std::vector<std::string>{"Long[2](0,1)"});
}

TEST(RangeTest, MayBeHuge) {
  const Dataset dataset = Dataset::range(0, int64_t{1} << 60);
  EXPECT_EQ(values_of(dataset.skip((int64_t{1} << 60) - 2)),
            (std::vector<int64_t>{(int64_t{1} << 60) - 2, (int64_t{1} << 60) - 1}));
  constexpr auto kLow = std::numeric_limits<int64_t>::min();
  constexpr auto kHigh = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Dataset::range(kLow, kHigh, kHigh).cardinality(), 3);
  expect_error(ErrorCode::kInvalidArgument, {"range: got 18446744073709551615 elements"},
               [] { (void)Dataset::range(kLow, kHigh); });
  expect_error(ErrorCode::kInvalidArgument, {"got step 0"}, [] { (void)Dataset::range(0, 1, 0); });
}

TEST(FromGeneratorTest, StartsAfreshInEachIteration) {
  const Dataset dataset = counting_generator(3);
  EXPECT_EQ(values_of(dataset), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(values_of(dataset), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(values_of(dataset.repeat(2)), (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(dataset.cardinality(), Dataset::kUnknown);
}

TEST(FromGeneratorTest, FactoriesMakeAGeneratorForEachIteration) {
  int made = 0;
  const Dataset dataset = Dataset::from_generator([&made]() -> Generator {
    ++made;
    return [left = 2]() mutable -> std::optional<Example> {
      return left-- > 0 ? std::optional<Example>(Example{longs({left})}) : std::nullopt;
    };
  });
  EXPECT_EQ(values_of(dataset), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(values_of(dataset), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(made, 2);
}

TEST(FromGeneratorTest, IsNotAskedAgainAfterItsEnd) {
  int calls = 0;
  const Dataset dataset = Dataset::from_generator([&calls]() -> std::optional<Example> {
    ++calls;
    return std::nullopt;
  });
  Iterator iterator = dataset.iterator(0);
  EXPECT_FALSE(iterator.next());
  EXPECT_FALSE(iterator.next());
  EXPECT_EQ(calls, 1);
}

TEST(FromGeneratorTest, PositionsNeedAGeneratorThatRepeatsItself) {
  Iterator longer = counting_generator(5).iterator(0);
  for (int i = 0; i < 4; ++i) (void)longer.next();
  Iterator shorter = counting_generator(3).iterator(0);
  expect_error(ErrorCode::kInvalidArgument, {"ended after 3 elements", "expected the 4"},
               [&] { shorter.restore(longer.position()); });
}

TEST(FromGeneratorTest, RejectsEmptyFunctions) {
  expect_error(ErrorCode::kInvalidArgument, {"from_generator: got an empty function"},
               [] { (void)Dataset::from_generator(Generator()); });
  expect_error(ErrorCode::kInvalidArgument, {"from_generator: got an empty function"},
               [] { (void)Dataset::from_generator(GeneratorFactory()); });
  const Dataset dataset = Dataset::from_generator([]() -> Generator { return nullptr; });
  expect_error(ErrorCode::kInvalidArgument, {"an empty function from the factory"},
               [&] { (void)dataset.iterator(0); });
}

}  // namespace
}  // namespace strata::data
