#include <stdexcept>

#include "data/elements.h"

namespace strata::data {
namespace {

TEST(ZipTest, JoinsFieldsAndEndsWithTheShortest) {
  const Dataset dataset =
      Dataset::zip({Dataset::range(3), counting_generator(9), Dataset::range(5, 9)});
  EXPECT_EQ(describe(dataset), (std::vector<std::string>{"Long[](0) Long[](0) Long[](5)",
                                                         "Long[](1) Long[](1) Long[](6)",
                                                         "Long[](2) Long[](2) Long[](7)"}));
  EXPECT_EQ(describe(dataset.skip(2)).size(), 1u);
  EXPECT_EQ(describe(dataset.skip(4)).size(), 0u);
}

// In-memory sources in their own order are joined; the result is the same as of elements.
TEST(ZipTest, OfSlicesIsGathered) {
  const at::Tensor x = floats({0, 1, 2, 3, 4, 5, 6, 7}, {4, 2});
  const Dataset joined = Dataset::zip({Dataset::from_tensor_slices({x}), Dataset::range(5)});
  const Dataset zipped = Dataset::zip({Dataset::from_tensor_slices({x}), counting_generator(5)});
  EXPECT_EQ(joined.cardinality(), 4);
  EXPECT_EQ(describe(joined), describe(zipped));
  EXPECT_EQ(describe(joined.shuffle(3).batch(3), 2), describe(zipped.shuffle(3).batch(3), 2));
  const Dataset reordered = Dataset::zip({Dataset::range(5).shuffle(5), Dataset::range(5)});
  EXPECT_EQ(describe(reordered, 2),
            describe(Dataset::zip({Dataset::range(5).shuffle(5), counting_generator(5)}), 2));
}

TEST(ZipTest, KnowsSizes) {
  const Dataset three = Dataset::range(3);
  EXPECT_EQ(Dataset::zip({three, Dataset::range(9).repeat()}).cardinality(), 3);
  EXPECT_EQ(Dataset::zip({three.repeat(), three.repeat()}).cardinality(), Dataset::kInfinite);
  EXPECT_EQ(Dataset::zip({three, counting_generator(2)}).cardinality(), Dataset::kUnknown);
  EXPECT_EQ(Dataset::zip({three.batch(2), three.batch(2)}).batch_size(), 2);
  EXPECT_EQ(Dataset::zip({three.batch(2), three.batch(3)}).batch_size(), std::nullopt);
  EXPECT_EQ(Dataset::zip({three.batch(2), three}).batch_size(), std::nullopt);
}

TEST(ZipTest, OfNothingIsAnError) {
  expect_error(ErrorCode::kInvalidArgument, {"zip: got no datasets"},
               [] { (void)Dataset::zip({}); });
}

TEST(MapTest, MapsEachElement) {
  const Dataset dataset = Dataset::range(3).map([](const Example& e) {
    return Example{e.x().mul(10), e.x()};
  });
  EXPECT_EQ(describe(dataset),
            (std::vector<std::string>{"Long[](0) Long[](0)", "Long[](10) Long[](1)",
                                      "Long[](20) Long[](2)"}));
  expect_error(ErrorCode::kInvalidArgument, {"map: got an empty function"},
               [] { (void)Dataset::range(3).map(MapFunction()); });
}

TEST(MapTest, IsNotCalledForSkippedElements) {
  int calls = 0;
  const Dataset dataset = Dataset::range(100).map([&calls](Example e) {
    ++calls;
    return e;
  });
  EXPECT_EQ(values_of(dataset.skip(90).shard(5, 1)), (std::vector<int64_t>{91, 96}));
  EXPECT_EQ(calls, 2);
}

TEST(MapTest, AnErrorConsumesItsElement) {
  const Dataset dataset = Dataset::range(3).map([](Example e) {
    if (e.x().item<int64_t>() == 1) throw std::out_of_range("one");
    return e;
  });
  Iterator iterator = dataset.iterator(0);
  EXPECT_EQ(describe(*iterator.next()), "Long[](0)");
  EXPECT_THROW((void)iterator.next(), std::out_of_range);
  EXPECT_EQ(describe(*iterator.next()), "Long[](2)");
  EXPECT_FALSE(iterator.next());
}

}  // namespace
}  // namespace strata::data
