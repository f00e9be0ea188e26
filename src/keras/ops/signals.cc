#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/fft_fft.h>
#include <ATen/ops/fft_fft2.h>
#include <ATen/ops/fft_ifft2.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>
#include <ATen/ops/hamming_window.h>
#include <ATen/ops/hann_window.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/real.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "keras/ops/arguments.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

/// A pair of real and imaginary parts, as Keras has complex numbers.
at::Tensor complex_of(C call) {
  const Tensors parts = promoted(call.tensors(0, "x"));
  STRATA_CHECK(parts.size() == 2, kInvalidArgument, "[keras] operation: got ", parts.size(),
               " tensors; expected two, the real and the imaginary parts");
  return at::complex(parts[0].contiguous(), parts[1].contiguous());
}
Tensors parts_of_complex(const at::Tensor& x) { return {at::real(x), at::imag(x)}; }

std::optional<int64_t> length_of(C call) {
  const Json& length = call.option("fft_length");
  return length.is_null() ? std::nullopt : std::optional(length.as_int());
}

struct Frames {
  int64_t length, stride, fft;
  at::Tensor window;  ///< `[fft]`: the option's, with zeros at both sides.
  bool plain;         ///< No window was asked for.
};
Frames frames_of(C call, const at::Tensor& like) {
  Frames frames{.length = call.integer("sequence_length", 0),
                .stride = call.integer("sequence_stride", 0),
                .fft = call.integer("fft_length", 0),
                .window = {},
                .plain = call.wrote("window") && call.option("window").is_null()};
  STRATA_CHECK(frames.fft >= frames.length, kInvalidArgument,
               "[keras] STFT: got fft_length = ", frames.fft,
               " and sequence_length = ", frames.length, "; expected the first to be no less");
  if (frames.plain) {
    frames.window = at::ones({frames.fft}, like.options());
    return frames;
  }
  const Json& window = call.option("window");
  if (window.is_array()) {
    std::vector<double> values;
    from_config(window, values);
    frames.window = at::tensor(values, at::kDouble).to(like.options());
  } else {
    const std::string name = call.text("window", "hann");
    STRATA_CHECK(name == "hann" || name == "hamming", kInvalidArgument,
                 "[keras] STFT: got window '", name, "'; expected 'hann', 'hamming' or an array");
    frames.window = name == "hann" ? at::hann_window(frames.length, true, like.options())
                                   : at::hamming_window(frames.length, true, like.options());
  }
  const int64_t before = (frames.fft - frames.length) / 2;
  frames.window = at::constant_pad_nd(frames.window, {before, frames.fft - frames.length - before});
  return frames;
}

/// True unless the option says false.
bool centred(C call) { return call.option("center").is_null() || call.flag("center"); }

at::Tensor reflected(const at::Tensor& x, int64_t by) {
  const int64_t size = x.size(-1);
  const at::Tensor place = at::arange(-by, size + by, x.options().dtype(at::kLong)).abs();
  return x.index_select(-1, at::where(place >= size, 2 * (size - 1) - place, place));
}

Tensors stft(C call) {
  const at::Tensor x = call.tensor(0, "x");
  const Frames frames = frames_of(call, x);
  const at::Tensor signal = centred(call) ? reflected(x, frames.fft / 2) : x;
  return parts_of_complex(
      at::fft_rfft(signal.unfold(-1, frames.fft, frames.stride) * frames.window));
}

at::Tensor istft(C call) {
  const at::Tensor spectrum = complex_of(call);
  const Frames frames = frames_of(call, at::real(spectrum));
  const at::Tensor parts = at::fft_irfft(spectrum, frames.fft) * frames.window;
  const int64_t count = parts.size(-2), all = frames.fft + frames.stride * (count - 1);
  const at::Tensor place = (at::arange(count, at::kLong).unsqueeze(1) * frames.stride +
                            at::arange(frames.fft, at::kLong))
                               .flatten()
                               .to(parts.device());
  std::vector<int64_t> shape = parts.sizes().vec();
  shape.pop_back();
  shape.back() = all;
  const at::Tensor sum = at::zeros(shape, parts.options()).index_add(-1, place, parts.flatten(-2));
  const at::Tensor norm =
      at::zeros({all}, parts.options())
          .index_add(0, place, frames.window.square().expand({count, frames.fft}).flatten());
  at::Tensor y = sum / at::where(norm > 1e-10, norm, 1.0);
  if (frames.plain) y = y * (static_cast<double>(frames.fft) / static_cast<double>(frames.stride));
  const int64_t start = centred(call) ? frames.fft / 2 : 0;
  int64_t end = centred(call) ? all - frames.fft / 2 : all;
  if (const Json& length = call.option("length"); !length.is_null()) {
    end = std::min(start + length.as_int(), all);
  }
  return y.narrow(-1, start, end - start);
}

const OperationRow kSignalRows[] = {
    several("math", "FFT", [](C call) { return parts_of_complex(at::fft_fft(complex_of(call))); }),
    several("math", "FFT2",
            [](C call) { return parts_of_complex(at::fft_fft2(complex_of(call))); }),
    several("math", "IFFT2",
            [](C call) { return parts_of_complex(at::fft_ifft2(complex_of(call))); }),
    several(
        "math", "RFFT",
        [](C call) {
          return parts_of_complex(at::fft_rfft(floating(call.tensor(0, "x")), length_of(call)));
        },
        "fft_length"),
    one(
        "math", "IRFFT", [](C call) { return at::fft_irfft(complex_of(call), length_of(call)); },
        "fft_length"),
    several("math", "STFT", stft, "sequence_length sequence_stride fft_length window center"),
    one("math", "ISTFT", istft, "sequence_length sequence_stride fft_length length window center"),
    one(
        "math", "ExtractSequences",
        [](C call) {
          return call.tensor(0, "x").unfold(-1, call.integer("sequence_length", 1),
                                            call.integer("sequence_stride", 1));
        },
        "sequence_length sequence_stride"),
};

}  // namespace

std::span<const OperationRow> signal_operations() { return kSignalRows; }

}  // namespace strata::keras::detail
