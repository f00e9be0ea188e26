#include "core/join.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

namespace strata {
namespace {

struct Named {
  std::string name;
};

TEST(JoinTest, PutsSeparatorsBetween) {
  EXPECT_EQ(join(std::vector<int>{}), "");
  EXPECT_EQ(join(std::vector<int>{7}), "7");
  EXPECT_EQ(join(std::vector<double>{0.5, 2}, {}, "/"), "0.5/2");
}

TEST(JoinTest, PrintsWhatItIsTold) {
  const std::array names = {Named{"a"}, Named{""}, Named{"c"}};
  EXPECT_EQ(join(names, &Named::name), "a, , c");
  const std::map<std::string, int> sizes = {{"x", 1}, {"y", 2}};
  EXPECT_EQ(
      join(sizes, [](const auto& each) { return each.first + "=" + std::to_string(each.second); }),
      "x=1, y=2");
}

}  // namespace
}  // namespace strata
