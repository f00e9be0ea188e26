#include "strata/data/iterator.h"

#include <limits>

#include "data/elements.h"

namespace strata::data {
namespace {

TEST(PositionTest, GoesThroughText) {
  const Position position(
      "zip", {},
      {Position("rows", {3, std::numeric_limits<int64_t>::min()}), Position("map", {-1})});
  EXPECT_EQ(position.to_string(), "zip(rows[3,-9223372036854775808],map[-1])");
  EXPECT_EQ(Position::from_string(position.to_string()), position);
  EXPECT_EQ(Position::from_string(""), Position());
  EXPECT_EQ(Position().to_string(), "");
  EXPECT_FALSE(position == Position("zip", {}));
}

TEST(PositionTest, DamagedTextNamesTheOffset) {
  const auto expect_bad = [](const std::string& text, const std::string& where) {
    expect_error(ErrorCode::kInvalidArgument, {"Position::from_string", where},
                 [&] { (void)Position::from_string(text); });
  };
  expect_bad("[1]", "got '[' at offset 0 of 3; expected a transform's name");
  expect_bad("rows[1", "got the end at offset 6 of 6; expected ',' or ']'");
  expect_bad("rows[x]", "got 'x' at offset 5 of 7; expected a 64-bit number");
  expect_bad("rows[9223372036854775808]", "expected a 64-bit number");
  expect_bad("rows[1]x", "got 'x' at offset 7 of 8; expected the end");
  expect_bad("map(rows[1]", "expected ',' or ')'");
  expect_bad("map(", "expected a transform's name");
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "map(";
  expect_bad(deep, "expected at most 1000 nested transforms");
}

}  // namespace
}  // namespace strata::data
