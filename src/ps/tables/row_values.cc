#include "ps/tables/row_values.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace strata::ps {
namespace {

/// SplitMix64 (Steele, Lea and Flood, 2014): one addition and a mix a number, any starting point.
class Numbers {
 public:
  Numbers(uint64_t seed, uint64_t row) : state_(mix(seed + kStep) ^ mix(row * kStep + 1)) {}

  /// In (0, 1).
  double next() {
    state_ += kStep;
    return (static_cast<double>(mix(state_) >> 11) + 0.5) * 0x1p-53;
  }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15;

  static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
  }

  uint64_t state_;
};

}  // namespace

template <typename T>
void make_row(const RowInitializer& initializer, int64_t row, int64_t width, T* values) {
  Numbers numbers(initializer.seed, static_cast<uint64_t>(row));
  const double a = initializer.a;
  const double b = initializer.b;
  switch (initializer.kind) {
    case RowInitializer::Kind::kConstant:
      std::fill_n(values, width, static_cast<T>(a));
      return;
    case RowInitializer::Kind::kUniform:
      for (int64_t i = 0; i < width; ++i) values[i] = static_cast<T>(a + (b - a) * numbers.next());
      return;
    case RowInitializer::Kind::kNormal:
      for (int64_t i = 0; i < width; i += 2) {  // Box and Muller, 1958: two at a time
        const double radius = b * std::sqrt(-2 * std::log(numbers.next()));
        const double angle = 2 * std::numbers::pi * numbers.next();
        values[i] = static_cast<T>(a + radius * std::cos(angle));
        if (i + 1 < width) values[i + 1] = static_cast<T>(a + radius * std::sin(angle));
      }
      return;
  }
}

template void make_row(const RowInitializer&, int64_t, int64_t, float*);
template void make_row(const RowInitializer&, int64_t, int64_t, double*);

}  // namespace strata::ps
