// Elementary functions against the standard library's in double precision.
#include "kernels/elementary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace strata::kernels {
namespace {

/// Inlined into a function that can be passed on.
#define STRATA_FUNCTION(name) [](const auto& x) { return elementary::name(x); }

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Of `got` from `want`, in units of the last place of floats of want's size.
double ulps(float got, double want) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) == std::isnan(want) ? 0 : 1e9;
  const auto rounded = static_cast<float>(want);
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) return 1e9;
  const int exponent = std::max(std::ilogb(want), -126);
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

/// The largest error over floats of every exponent and sign for which `counts`.
template <typename Got, typename Want, typename Counts>
double worst(const Got& got, const Want& want, const Counts& counts) {
  double largest = 0;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4099) {
    const auto low = static_cast<uint32_t>(bits);
    float x;
    std::memcpy(&x, &low, sizeof(x));
    if (!counts(x)) continue;
    largest = std::max(largest, ulps(got(x), want(static_cast<double>(x))));
  }
  return largest;
}

bool any(float) { return true; }

double normal_distribution(double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }

TEST(ElementaryTest, ErrorsAreOfAFewUnitsOfTheLastPlace) {
  EXPECT_LE(worst(
                STRATA_FUNCTION(exp), [](double x) { return std::exp(x); }, any),
            1.3);
  const auto softmaxs = [](float x) { return x <= 0 && x > -87; };
  EXPECT_LE(worst(
                STRATA_FUNCTION(exp_not_positive), [](double x) { return std::exp(x); }, softmaxs),
            1.3);
  EXPECT_LE(worst(
                STRATA_FUNCTION(log), [](double x) { return std::log(x); }, any),
            1.1);
  EXPECT_LE(worst(
                STRATA_FUNCTION(tanh), [](double x) { return std::tanh(x); }, any),
            2);
  EXPECT_LE(worst(
                STRATA_FUNCTION(erf), [](double x) { return std::erf(x); }, any),
            2.5);
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto not_tiny = [](float x) { return x > -87 || std::isnan(x); };
  EXPECT_LE(worst(STRATA_FUNCTION(sigmoid), logistic, not_tiny), 2.2);
  EXPECT_LE(
      worst([](float x) { return elementary::sigmoid_with_slope(x).value; }, logistic, not_tiny),
      3);
  // The wider, the more of x^2's rounding error.
  for (const float width : {1.0F, 4.0F, 13.0F}) {
    const auto within = [&](float x) { return std::abs(x) < width; };
    const double of_square = width * width / 2;
    EXPECT_LE(worst([](float x) { return elementary::normal(x).distribution; }, normal_distribution,
                    within),
              6 + of_square);
    EXPECT_LE(worst([](float x) { return elementary::normal(x).density; }, normal_density, within),
              2 + of_square);
  }
}

TEST(ElementaryTest, EdgesAreExact) {
  EXPECT_EQ(elementary::exp(kInfinity), kInfinity);
  EXPECT_EQ(elementary::exp(-kInfinity), 0);
  EXPECT_EQ(elementary::exp(0.0F), 1);
  EXPECT_EQ(elementary::exp(88.8F), kInfinity);
  EXPECT_EQ(elementary::exp_not_positive(0.0F), 1);
  EXPECT_EQ(elementary::exp_not_positive(-kInfinity), 0);
  EXPECT_EQ(elementary::log(kInfinity), kInfinity);
  EXPECT_EQ(elementary::log(0.0F), -kInfinity);
  EXPECT_EQ(elementary::log(-0.0F), -kInfinity);
  EXPECT_EQ(elementary::log(1.0F), 0);
  EXPECT_TRUE(std::isnan(elementary::log(-1.0F)));
  EXPECT_TRUE(std::isnan(elementary::log(-kInfinity)));
  for (const float sign : {1.0F, -1.0F}) {
    EXPECT_EQ(elementary::tanh(sign * kInfinity), sign);
    EXPECT_EQ(elementary::erf(sign * kInfinity), sign);
    EXPECT_EQ(std::signbit(elementary::tanh(sign * 0.0F)), sign < 0);
    EXPECT_EQ(std::signbit(elementary::erf(sign * 0.0F)), sign < 0);
  }
  EXPECT_EQ(elementary::sigmoid(kInfinity), 1);
  EXPECT_EQ(elementary::sigmoid(-kInfinity), 0);
  EXPECT_EQ(elementary::sigmoid(0.0F), 0.5F);
  EXPECT_EQ(elementary::normal(kInfinity).distribution, 1);
  EXPECT_EQ(elementary::normal(-kInfinity).distribution, 0);
  EXPECT_EQ(elementary::normal(-kInfinity).density, 0);
  EXPECT_EQ(elementary::normal(0.0F).distribution, 0.5F);
}

TEST(ElementaryTest, ANaNStaysOne) {
  EXPECT_TRUE(std::isnan(elementary::exp(kNaN)));
  EXPECT_TRUE(std::isnan(elementary::exp_not_positive(kNaN)));
  EXPECT_TRUE(std::isnan(elementary::log(kNaN)));
  EXPECT_TRUE(std::isnan(elementary::tanh(kNaN)));
  EXPECT_TRUE(std::isnan(elementary::erf(kNaN)));
  EXPECT_TRUE(std::isnan(elementary::sigmoid(kNaN)));
  EXPECT_TRUE(std::isnan(elementary::normal(kNaN).distribution));
  EXPECT_TRUE(std::isnan(elementary::normal(kNaN).density));
}

#if defined(__x86_64__)
// As wide as the instruction set that every such processor has.
typedef float FourFloats __attribute__((vector_size(16)));

TEST(ElementaryTest, VectorsHaveTheBitsOfScalars) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 99991) {
    const auto low = static_cast<uint32_t>(bits);
    float x;
    std::memcpy(&x, &low, sizeof(x));
    const FourFloats four = {x, -x, x + 1, x * 0.5F};
    const auto check = [&](const FourFloats& got, const auto& function) {
      for (int i = 0; i < 4; ++i) {
        const float want = function(four[i]);
        const float value = got[i];
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(value)) << four[i];
        } else {
          EXPECT_EQ(std::memcmp(&value, &want, sizeof(value)), 0) << four[i];
        }
      }
    };
    check(elementary::exp(four), STRATA_FUNCTION(exp));
    check(elementary::exp_not_positive(four), STRATA_FUNCTION(exp_not_positive));
    check(elementary::log(four), STRATA_FUNCTION(log));
    check(elementary::tanh(four), STRATA_FUNCTION(tanh));
    check(elementary::sigmoid(four), STRATA_FUNCTION(sigmoid));
    check(elementary::erf(four), STRATA_FUNCTION(erf));
    check(elementary::normal(four).density, [](float v) { return elementary::normal(v).density; });
  }
}
#endif

#undef STRATA_FUNCTION

}  // namespace
}  // namespace strata::kernels
