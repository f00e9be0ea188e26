#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::keras {

/// Sizes of a tensor's dimensions; kNone for an unknown size: that of the batch, the length of a
/// sequence.
using Shape = std::vector<int64_t>;

inline constexpr int64_t kNone = -1;

/// Prints like Keras: "(None, 28, 28)", "(None,)".
STRATA_API std::string to_string(const Shape& shape);

/// `N` sizes, or one for all: `3`, `{3, 5}`.
template <size_t N>
struct Sizes {
  std::array<int64_t, N> values = {};

  Sizes(int64_t all) { values.fill(all); }  // NOLINT(google-explicit-constructor)
  template <typename... T>
  requires(sizeof...(T) + 1 == N && N > 1)  //
      Sizes(int64_t first, T... others)
      : values{first, static_cast<int64_t>(others)...} {}

  int64_t operator[](size_t i) const { return values[i]; }
  friend bool operator==(const Sizes&, const Sizes&) = default;
};

}  // namespace strata::keras
