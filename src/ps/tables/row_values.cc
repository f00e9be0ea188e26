#include "ps/tables/row_values.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/split_mix64.h"

namespace strata::ps {
namespace {

using strata::detail::kSplitMix64Step;
using strata::detail::split_mix64;

/// The random numbers of a row.
class Numbers {
 public:
  Numbers(uint64_t seed, uint64_t row)
      : state_(split_mix64(seed + kSplitMix64Step) ^ split_mix64(row * kSplitMix64Step + 1)) {}

  /// In (0, 1).
  double next() {
    state_ += kSplitMix64Step;
    return (static_cast<double>(split_mix64(state_) >> 11) + 0.5) * 0x1p-53;
  }

 private:
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
