// The gates' functions of recurrent layers against the standard library's in double precision. That
// instruction sets agree to the bit is recurrent_test.cc's.
#include "kernels/gate_functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace strata::kernels {
namespace {

/// The largest error over floats of every exponent and sign from `least` on, in units of the last
/// place of the true value, which is no smaller than the least normal number.
template <typename Got, typename Want>
double largest_ulps(const Got& got, const Want& want, float least) {
  double largest = 0;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1021) {
    const auto low = static_cast<uint32_t>(bits);
    float x;
    std::memcpy(&x, &low, sizeof(x));
    const float y = got(x);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(y)) << bits;
      continue;
    }
    if (x < least) continue;
    const double exact = want(static_cast<double>(x));
    const int exponent = std::max(std::ilogb(exact), -126);
    largest = std::max(largest, std::abs(y - exact) / std::ldexp(1.0, exponent - 23));
  }
  return largest;
}

float sigmoid_of(float x) { return gate_functions::sigmoid(all(x))[0]; }
float tanh_of(float x) { return gate_functions::tanh(all(x))[0]; }

TEST(GateFunctionsTest, ErrorsAreOfAFewUnitsOfTheLastPlace) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_LE(largest_ulps(
                sigmoid_of, [](double x) { return 1 / (1 + std::exp(-x)); }, -87.0F),
            2.5);
  EXPECT_LE(largest_ulps(
                tanh_of, [](double x) { return std::tanh(x); }, -kInfinity),
            2.5);
}

TEST(GateFunctionsTest, EndsAndSigns) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float large : {88.0F, 1e10F, std::numeric_limits<float>::max(), kInfinity}) {
    EXPECT_EQ(sigmoid_of(large), 1);
    EXPECT_EQ(sigmoid_of(-large), 0);
    EXPECT_EQ(tanh_of(large), 1);
    EXPECT_EQ(tanh_of(-large), -1);
  }
  EXPECT_EQ(sigmoid_of(0), 0.5F);
  EXPECT_EQ(sigmoid_of(-0.0F), 0.5F);
  EXPECT_FALSE(std::signbit(tanh_of(0)));
  EXPECT_TRUE(std::signbit(tanh_of(-0.0F)));
  EXPECT_EQ(tanh_of(std::numeric_limits<float>::denorm_min()),
            std::numeric_limits<float>::denorm_min());
}

}  // namespace
}  // namespace strata::kernels
