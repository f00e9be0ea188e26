#pragma once

#include "strata/keras/ops/call.h"

/// Error functions, Fourier transforms.
/// Source: keras.ops 3.15.
namespace strata::keras::ops {

inline Value auto erf(const Value auto& x) { return call("Erf", {}, x); }
inline Value auto erfc(const Value auto& x) { return call("Erfc", {}, x); }
inline Value auto erfinv(const Value auto& x) { return call("Erfinv", {}, x); }
inline Value auto rsqrt(const Value auto& x) { return call("Rsqrt", {}, x); }
inline Value auto view_as_complex(const Value auto& x) { return call("ViewAsComplex", {}, x); }
inline Value auto view_as_real(const Value auto& x) { return call("ViewAsReal", {}, x); }

// Complex numbers are pairs of real and imaginary parts.
template <Value T>
std::vector<T> fft(const T& real, const T& imag) {
  return call_all("FFT", {}, std::vector<T>{real, imag});
}
template <Value T>
std::vector<T> fft2(const T& real, const T& imag) {
  return call_all("FFT2", {}, std::vector<T>{real, imag});
}
template <Value T>
std::vector<T> ifft2(const T& real, const T& imag) {
  return call_all("IFFT2", {}, std::vector<T>{real, imag});
}
inline auto rfft(const Value auto& x, std::optional<int64_t> fft_length = {}) {
  return call_all("RFFT", {{"fft_length", detail::json_or_null(fft_length)}}, x);
}
template <Value T>
T irfft(const T& real, const T& imag, std::optional<int64_t> fft_length = {}) {
  return call("IRFFT", {{"fft_length", detail::json_or_null(fft_length)}},
              std::vector<T>{real, imag});
}
/// @param window  "hann", "hamming", or "": none.
inline auto stft(const Value auto& x, int64_t sequence_length, int64_t sequence_stride,
                 int64_t fft_length, const std::string& window = "hann", bool center = true) {
  return call_all("STFT",
                  {{"sequence_length", sequence_length},
                   {"sequence_stride", sequence_stride},
                   {"fft_length", fft_length},
                   {"window", window.empty() ? Json() : Json(window)},
                   {"center", center}},
                  x);
}
template <Value T>
T istft(const T& real, const T& imag, int64_t sequence_length, int64_t sequence_stride,
        int64_t fft_length, std::optional<int64_t> length = {}, const std::string& window = "hann",
        bool center = true) {
  return call("ISTFT",
              {{"sequence_length", sequence_length},
               {"sequence_stride", sequence_stride},
               {"fft_length", fft_length},
               {"length", detail::json_or_null(length)},
               {"window", window.empty() ? Json() : Json(window)},
               {"center", center}},
              std::vector<T>{real, imag});
}
inline Value auto extract_sequences(const Value auto& x, int64_t sequence_length,
                                    int64_t sequence_stride) {
  return call("ExtractSequences",
              {{"sequence_length", sequence_length}, {"sequence_stride", sequence_stride}}, x);
}

}  // namespace strata::keras::ops
