#pragma once

// sigmoid and tanh of recurrent layers' gates: those of elementary.h with fused multiply-adds and
// without branches, so half as many instructions. As there, a value's bits do not depend on the
// vector's width; a NaN gives a NaN. Errors are in units of the last place
// (tests/kernels/gate_functions_test.cc).

#include "kernels/elementary.h"
#include "kernels/simd.h"

namespace strata::kernels {
namespace {
namespace gate_functions {

/// e^x = scale * (1 + rest) with |rest| < 0.42, for x in [-88.1, 0].
struct Exponential {
  Vec scale;  ///< A power of 2; 0 instead of 2^-127.
  Vec rest;
};

inline __attribute__((always_inline)) Exponential exponential(Vec x) {
  // 1.5 * 2^23: with it a sum is rounded to a whole number, which is in its low bits.
  const Vec rounding = all(12582912.0F);
  const Vec shifted = fma(x, all(1.44269504F), rounding);
  const Vec n = sub(shifted, rounding);
  const Vec r = fma(n, all(2.12194440e-4F), fma(n, all(-0.693359375F), x));
  // Cephes' polynomial.
  Vec p = fma(r, all(1.9875691500e-4F), all(1.3981999507e-3F));
  p = fma(p, r, all(8.3334519073e-3F));
  p = fma(p, r, all(4.1665795894e-2F));
  p = fma(p, r, all(1.6666665459e-1F));
  p = fma(p, r, all(5.0000001201e-1F));
  return {__builtin_bit_cast(Vec, (elementary::bits_of(shifted) << 23) + 0x3F800000U),
          fma(p, mul(r, r), r)};
}

/// 1 / (1 + e^-x); below 1e-38 0. 2.5 ulp.
inline __attribute__((always_inline)) Vec sigmoid(Vec x) {
  const Vec least = all(-88.1F);
  const Vec size = -elementary::magnitude(x);
  const auto [scale, rest] = exponential(size < least ? least : size);
  const Vec e = fma(scale, rest, scale);
  const Vec small = e / add(all(1.0F), e);
  return x < zero() ? small : sub(all(1.0F), small);
}

/// Hyperbolic tangent: -m / (m + 2) with m = e^-2|x| - 1, which keeps the digits of a small x.
/// 2.5 ulp.
inline __attribute__((always_inline)) Vec tanh(Vec x) {
  const Vec most = all(9.1F);
  const Vec size = elementary::magnitude(x);
  const auto [scale, rest] = exponential(mul(size > most ? most : size, all(-2.0F)));
  const Vec m = fma(scale, rest, sub(scale, all(1.0F)));
  return elementary::with_sign(elementary::magnitude(Vec(m / add(m, all(2.0F)))), x);
}

}  // namespace gate_functions
}  // namespace
}  // namespace strata::kernels
