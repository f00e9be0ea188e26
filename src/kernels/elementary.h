#pragma once

#include <cstdint>

/// Elementary functions for kernels that are compiled for several instruction sets: additions,
/// multiplications, divisions and moves of bits, in the same order everywhere, so that a value has
/// the same bits in a scalar, in any vector and on any processor (the sources are compiled without
/// contraction). F is `float`, in loops that the compiler vectorises, or a vector of floats no
/// wider than the instruction set's. A NaN gives a NaN; infinities, zeros and denormal numbers give
/// what they should unless a function says otherwise. Errors are in units of the last place
/// (tests/kernels/elementary_test.cc).
///
/// Always inlined: a linker that kept one instruction set's copy of such a function for all would
/// give others instructions that their processor lacks.
#define STRATA_ELEMENTARY \
  template <typename F>   \
  inline __attribute__((always_inline))

namespace strata::kernels::elementary {

template <typename F>
struct Lanes {
  typedef uint32_t Bits __attribute__((vector_size(sizeof(F))));
  typedef int32_t Whole __attribute__((vector_size(sizeof(F))));
};
template <>
struct Lanes<float> {
  using Bits = uint32_t;
  using Whole = int32_t;
};

STRATA_ELEMENTARY F all(float value) { return F{} + value; }
STRATA_ELEMENTARY typename Lanes<F>::Bits bits_of(const F& x) {
  return __builtin_bit_cast(typename Lanes<F>::Bits, x);
}
STRATA_ELEMENTARY F magnitude(const F& x) {
  return __builtin_bit_cast(F, bits_of(x) & 0x7FFFFFFFU);
}
/// `magnitude`, not negative, with the sign of `sign`.
STRATA_ELEMENTARY F with_sign(const F& magnitude, const F& sign) {
  return __builtin_bit_cast(F, bits_of(magnitude) | (bits_of(sign) & 0x80000000U));
}

namespace internal {

/// 1.5 * 2^23: with it a sum is rounded to a whole number, which is in its low bits.
inline constexpr float kRounding = 12582912.0F;

/// x = n ln 2 + r; `shifted` is n + kRounding. For |x| < 2^15.
template <typename F>
struct Reduced {
  F shifted;
  F r;
};

STRATA_ELEMENTARY Reduced<F> reduced(const F& x) {
  const F shifted = x * 1.44269504F + kRounding;
  const F n = shifted - kRounding;
  return {shifted, (x - n * 0.693359375F) - n * -2.12194440e-4F};
}

/// e^r for |r| <= ln 2 / 2, by Cephes' polynomial.
STRATA_ELEMENTARY F exp_of_rest(const F& r) {
  F p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  return (p * (r * r) + r) + 1.0F;
}

/// The normal distribution's tail is its density times sqrt(2 pi) t P(t - kTailCentre), where t is
/// 1 / (1 + kTailScale x).
inline constexpr float kTailScale = 0.264F;
inline constexpr float kTailCentre = 0.55F;
inline constexpr float kTail[9] = {0.214891256F,   0.352643299F,   0.430669927F,
                                   0.365583061F,   0.169436612F,   -0.0230860583F,
                                   -0.0770035682F, -0.0105624508F, 0.0307934285F};

/// value * 2^n for normal results.
STRATA_ELEMENTARY F scaled(const F& value, const F& shifted) {
  return value * __builtin_bit_cast(F, (bits_of(shifted) << 23) + 0x3F800000U);
}

}  // namespace internal

/// e^x. 1.2 ulp.
STRATA_ELEMENTARY F exp(const F& x) {
  using Whole = typename Lanes<F>::Whole;
  F within = x < all<F>(-104.0F) ? all<F>(-104.0F) : x;
  within = within > all<F>(89.0F) ? all<F>(89.0F) : within;
  const auto [shifted, r] = internal::reduced(within);
  // In two halves: 2^n may be no normal number.
  const Whole n = __builtin_bit_cast(Whole, bits_of(shifted)) - 0x4B400000;
  const Whole half = n >> 1;
  const F low = __builtin_bit_cast(F, (half + 127) << 23);
  const F high = __builtin_bit_cast(F, (n - half + 127) << 23);
  return (internal::exp_of_rest(r) * low) * high;
}

/// e^x for x <= 0, as softmax needs it: below -87, where results are about to be denormal, 0.
/// 1.2 ulp.
STRATA_ELEMENTARY F exp_not_positive(const F& x) {
  const F within = x < all<F>(-87.0F) ? all<F>(-87.0F) : x;
  const auto [shifted, r] = internal::reduced(within);
  const F result = internal::scaled(internal::exp_of_rest(r), shifted);
  return x < all<F>(-87.0F) ? all<F>(0.0F) : result;
}

/// ln x; of negative numbers NaN, of zeros -infinity. 1 ulp.
STRATA_ELEMENTARY F log(const F& x) {
  using Whole = typename Lanes<F>::Whole;
  using Bits = typename Lanes<F>::Bits;
  const auto is_small = x < all<F>(1.17549435e-38F);
  const F normal = is_small ? x * 8388608.0F : x;
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)).
  const Bits moved = bits_of(normal) - 0x3F3504F3U;
  const Whole exponent = __builtin_bit_cast(Whole, moved) >> 23;
  const F m = __builtin_bit_cast(F, (moved & 0x007FFFFFU) + 0x3F3504F3U) - 1.0F;
  // The whole number as a float, by the bits of the sum.
  const F raw = __builtin_bit_cast(F, exponent + 0x4B400000) - internal::kRounding;
  const F e = is_small ? raw - 23.0F : raw;
  F p = m * 7.0376836292e-2F + -1.1514610310e-1F;
  p = p * m + 1.1676998740e-1F;
  p = p * m + -1.2420140846e-1F;
  p = p * m + 1.4249322787e-1F;
  p = p * m + -1.6668057665e-1F;
  p = p * m + 2.0000714765e-1F;
  p = p * m + -2.4999993993e-1F;
  p = p * m + 3.3333331174e-1F;
  const F square = m * m;
  const F y = (p * m * square + e * -2.12194440e-4F) - square * 0.5F;
  F result = (m + y) + e * 0.693359375F;
  const F infinity = all<F>(__builtin_inff());
  result = x == infinity ? infinity : result;
  result = x == all<F>(0.0F) ? -infinity : result;
  return x < all<F>(0.0F) ? all<F>(__builtin_nanf("")) : (x != x ? x : result);
}

/// Hyperbolic tangent. 2 ulp.
STRATA_ELEMENTARY F tanh(const F& x) {
  const F size = magnitude(x);
  // 1 - 2 / (e^2x + 1), from 9.02 on 1.
  const F within = size > all<F>(9.1F) ? all<F>(9.1F) : size;
  const auto [shifted, r] = internal::reduced(F(within + within));
  const F grown = internal::scaled(internal::exp_of_rest(r), shifted);
  const F large = 1.0F - 2.0F / (grown + 1.0F);
  const F square = size * size;
  F p = square * -5.70498872745e-3F + 2.06390887954e-2F;
  p = p * square + -5.37397155531e-2F;
  p = p * square + 1.33314422036e-1F;
  p = p * square + -3.33332819422e-1F;
  const F small = p * square * size + size;
  return with_sign(size < all<F>(0.625F) ? small : large, x);
}

/// 1 / (1 + e^-x); below 1e-38 0. 2.2 ulp.
STRATA_ELEMENTARY F sigmoid(const F& x) {
  const F e = exp_not_positive(F(-magnitude(x)));
  const F rest = e / (1.0F + e);
  return x < all<F>(0.0F) ? rest : 1.0F - rest;
}

template <typename F>
struct ValueAndSlope {
  F value;
  F slope;
};

/// 1 / (1 + e^-x), 3 ulp, and its derivative.
STRATA_ELEMENTARY ValueAndSlope<F> sigmoid_with_slope(const F& x) {
  const F e = exp_not_positive(F(-magnitude(x)));
  const F inverse = 1.0F / (1.0F + e);
  const F rest = e * inverse;
  return {x < all<F>(0.0F) ? rest : 1.0F - rest, rest * inverse};
}

template <typename F>
struct Normal {
  F distribution;  ///< The integral of the density up to x.
  F density;
};

/// The standard normal distribution, with the rounding error of x^2: 6 + x^2 / 2 ulp, the density
/// 2 + x^2 / 2; below 1e-38 0.
STRATA_ELEMENTARY Normal<F> normal(const F& x) {
  const F size = magnitude(x);
  const F e = exp_not_positive(F(size * size * -0.5F));
  const F t = 1.0F / (1.0F + size * internal::kTailScale);
  const F q = t - internal::kTailCentre;
  F p = q * internal::kTail[8] + internal::kTail[7];
  p = p * q + internal::kTail[6];
  p = p * q + internal::kTail[5];
  p = p * q + internal::kTail[4];
  p = p * q + internal::kTail[3];
  p = p * q + internal::kTail[2];
  p = p * q + internal::kTail[1];
  p = p * q + internal::kTail[0];
  const F tail = (p * t) * e;
  return {x < all<F>(0.0F) ? tail : 1.0F - tail, e * 0.398942280F};
}

/// The error function. 3 ulp.
STRATA_ELEMENTARY F erf(const F& x) {
  const F size = magnitude(x);
  const F square = size * size;
  F p = square * 7.853861353153693e-5F + -8.010193625184903e-4F;
  p = p * square + 5.188327685732524e-3F;
  p = p * square + -2.685381193529856e-2F;
  p = p * square + 1.128358514861418e-1F;
  p = p * square + -3.761262582423300e-1F;
  p = p * square + 1.128379165726710F;
  const F tail = normal(F(size * -1.41421356F)).distribution;
  return with_sign(size < all<F>(1.0F) ? size * p : 1.0F - 2.0F * tail, x);
}

}  // namespace strata::kernels::elementary

#undef STRATA_ELEMENTARY
