#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>

namespace strata::detail {

// Arithmetic on sizes that a peer, a file or a user gave. Every such size passes through one of
// these before memory is allocated, mapped or indexed by it. Empty results stand for a size below
// zero or a result that T cannot hold; the caller says where, what came and what was expected.

/// a + b.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_sum(T a, std::type_identity_t<T> b) {
  T sum = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// The product of all sizes; 1 of none. The sizes that are not zero must fit by themselves, so that
/// the order of the sizes never matters and strides made of some of them fit, too.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_product(std::span<const T> sizes) {
  T product = 1;
  bool empty = false;
  for (const T size : sizes) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, size, &product)) {
      return std::nullopt;
    }
  }
  return empty ? T{0} : product;
}

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_product(std::initializer_list<T> sizes) {
  return checked_product(std::span<const T>(sizes.begin(), sizes.size()));
}

/// `size` rounded up to a multiple of `step`, which is above zero.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_round_up(T size, std::type_identity_t<T> step) {
  const std::optional<T> raised = checked_sum(size, static_cast<T>(step - 1));
  if (!raised.has_value()) return std::nullopt;
  return *raised / step * step;
}

/// Does [offset, offset + size) lie in [0, total)?
template <std::integral T>
[[nodiscard]] constexpr bool lies_within(T offset, std::type_identity_t<T> size,
                                         std::type_identity_t<T> total) {
  return offset >= 0 && size >= 0 && offset <= total && size <= total - offset;
}

}  // namespace strata::detail
