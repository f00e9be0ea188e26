#include "strata/core/one_of.h"

#include <gtest/gtest.h>

#include <optional>

#include "support/expect_error.h"

namespace strata {
namespace {

struct FlavorWords {
  enum Word { kSweet, kSour, kSalty };
  static constexpr const char* kOption = "flavor";
  static constexpr const char* kWords[] = {"sweet", "sour", "salty"};
};
using Flavor = OneOf<FlavorWords>;

struct DishOptions {
  Flavor flavor = "sour";
  std::optional<Flavor> second = {};
};

std::string flavor_of(const DishOptions& options) {
  options.flavor.check("[kitchen] Dish");
  return options.flavor;
}

TEST(OneOfTest, TakesWordsAndEnumerators) {
  EXPECT_EQ(flavor_of({}), "sour");
  EXPECT_EQ(flavor_of({.flavor = "salty"}), "salty");
  EXPECT_EQ(flavor_of({.flavor = Flavor::kSalty}), "salty");
  EXPECT_EQ(flavor_of({.flavor = std::string("sweet")}), "sweet");
  EXPECT_EQ(Flavor(), Flavor::kSweet);
}

TEST(OneOfTest, ComparesWordsWithEnumerators) {
  const DishOptions options = {.flavor = "salty", .second = Flavor::kSour};
  EXPECT_TRUE(options.flavor == Flavor::kSalty);
  EXPECT_TRUE(options.flavor != "sour");
  EXPECT_TRUE(options.second == "sour");
  EXPECT_EQ(str_cat(options.flavor), "salty");
}

TEST(OneOfTest, NamesOptionAndWordsOfAnUnknownWord) {
  expect_error([] { flavor_of({.flavor = "bitter"}); }, ErrorCode::kInvalidArgument,
               "[kitchen] Dish: got flavor='bitter'; expected 'sweet', 'sour' or 'salty'");
  expect_error([] { flavor_of({.flavor = ""}); }, ErrorCode::kInvalidArgument,
               "[kitchen] Dish: got flavor=''; expected 'sweet', 'sour' or 'salty'");
}

}  // namespace
}  // namespace strata
