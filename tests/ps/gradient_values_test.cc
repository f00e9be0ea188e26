#include "ps/tables/gradient_values.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <vector>

namespace strata::ps {
namespace {

template <typename T>
int64_t found_in(const std::vector<T>& values) {
  return find_not_finite<T>(reinterpret_cast<const std::byte*>(values.data()), PushEncoding::kFull,
                            static_cast<int64_t>(values.size()));
}

template <typename T>
class NotFiniteTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(NotFiniteTest, Types);

TYPED_TEST(NotFiniteTest, TheFirstIsFoundWhereverItIs) {
  using Limits = std::numeric_limits<TypeParam>;
  for (const int64_t size : {0, 1, 31, 32, 64, 65, 200, 4096, 4100}) {
    std::vector<TypeParam> values(static_cast<size_t>(size));
    for (size_t i = 0; i < values.size(); ++i) {  // the outermost that are finite
      values[i] = std::vector{Limits::max(), Limits::lowest(), Limits::denorm_min(), TypeParam(0),
                              -TypeParam(0)}[i % 5];
    }
    EXPECT_EQ(found_in(values), size);
    for (int64_t at = 0; at < size; at += 1 + at / 70) {
      for (const TypeParam bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                                  -Limits::quiet_NaN(), Limits::signaling_NaN()}) {
        std::vector<TypeParam> damaged = values;
        damaged[static_cast<size_t>(at)] = bad;
        damaged.back() = bad;
        ASSERT_EQ(found_in(damaged), at) << size;
      }
    }
  }
}

}  // namespace
}  // namespace strata::ps
