#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"

/// Layers that make images of frequencies over time of signals. Source: keras.layers 3.15.
namespace strata::layers {

struct SpectrogramModeWords {
  enum Word { kLog, kMagnitude, kPsd, kReal, kImag, kAngle, kStft };
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"log",  "magnitude", "psd", "real",
                                           "imag", "angle",     "stft"};
};
/// "stft": real and imaginary parts, one behind the other.
using SpectrogramMode = OneOf<SpectrogramModeWords>;

struct STFTSpectrogramOptions {
  SpectrogramMode mode = "log";
  int64_t frame_length = 256;
  std::optional<int64_t> frame_step = {};          ///< Unset: half a frame.
  std::optional<int64_t> fft_length = {};          ///< Unset: the next power of two.
  std::optional<std::string> window = "hann";      ///< See initializers::STFT.
  bool periodic = false;                           ///< Of the window.
  std::optional<std::string> scaling = "density";  ///< Or "spectrum"; unset: none.
  Padding padding = "valid";                       ///< Or "same".
  bool expand_dims = false;                        ///< Channels have a dimension of their own.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Spectrograms of signals `[batch, time, channels]`: `[batch, frames, frequencies * channels]`, or
/// with `expand_dims` `[batch, frames, frequencies, channels]`. Convolutions with kernels that can
/// be trained.
class STRATA_API STFTSpectrogram : public keras::Layer {
 public:
  explicit STFTSpectrogram(const STFTSpectrogramOptions& options = {});
};

struct MelSpectrogramOptions {
  int64_t fft_length = 2048;
  int64_t sequence_stride = 512;
  std::optional<int64_t> sequence_length = {};  ///< Of a frame; unset: fft_length.
  std::optional<std::string> window = "hann";   ///< Or "hamming"; unset: none.
  int64_t sampling_rate = 16000;                ///< Hz
  int64_t num_mel_bins = 128;
  double min_freq = 20;                 ///< Hz
  std::optional<double> max_freq = {};  ///< Hz; unset: half of the sampling rate.
  bool power_to_db = true;              ///< Decibels, at most `top_db` below the batch's loudest.
  double top_db = 80;
  double mag_exp = 2;  ///< The exponent of magnitudes.
  double min_power = 1e-10;
  double ref_power = 1;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Signals `[batch, time]` or `[time]` to `[batch, num_mel_bins, frames]`, with a frame centred on
/// every `sequence_stride`-th value.
class STRATA_API MelSpectrogram : public keras::Layer {
 public:
  explicit MelSpectrogram(const MelSpectrogramOptions& options = {});
};

}  // namespace strata::layers
