#include "strata/keras/layers/spectrograms.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arctan2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/minimum.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "keras/layers/layer_class.h"
#include "strata/keras/ops/signals.h"
#include "strata/keras/stft_initializer.h"

namespace strata::layers {
namespace {

struct STFTSpectrogramArguments {
  STFTSpectrogramOptions options = {};
};
/// As files have them, resolved.
struct MelSpectrogramArguments {
  MelSpectrogramOptions options = {};
};

template <typename Config,
          keras::OneOf<STFTSpectrogramArguments, MelSpectrogramArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  if constexpr (requires { options.frame_length; }) {
    config("mode", options.mode);
    config("frame_length", options.frame_length);
    config("frame_step", options.frame_step);
    config("fft_length", options.fft_length);
    config("window", options.window);
    config("periodic", options.periodic);
    config("scaling", options.scaling);
    config("padding", options.padding);
    config("data_format", options.data_format);
    config("expand_dims", options.expand_dims);
  } else {
    config("fft_length", options.fft_length);
    config("sequence_stride", options.sequence_stride);
    config("sequence_length", options.sequence_length);
    config("window", options.window);
    config("sampling_rate", options.sampling_rate);
    config("num_mel_bins", options.num_mel_bins);
    config("min_freq", options.min_freq);
    config("max_freq", options.max_freq);
    config("power_to_db", options.power_to_db);
    config("top_db", options.top_db);
    config("mag_exp", options.mag_exp);
    config("min_power", options.min_power);
    config("ref_power", options.ref_power);
  }
}

constexpr double kEpsilon = 1e-7;

class STFTSpectrogramImpl final : public keras::UnaryLayerImpl {
 public:
  explicit STFTSpectrogramImpl(const STFTSpectrogramArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)),
        options_(arguments.options),
        step_(options_.frame_step.value_or(options_.frame_length / 2)) {
    constexpr const char* kWhere = "[layers] STFTSpectrogram";
    options_.mode.check(kWhere);
    options_.padding.check(kWhere);
    options_.data_format.check(kWhere);
    STRATA_CHECK(options_.padding != Padding::kCausal, kInvalidArgument, kWhere,
                 ": Padding is invalid, it should be 'valid', 'same'. Received: padding=causal");
    STRATA_CHECK(options_.frame_length > 1 || options_.frame_step, kInvalidArgument, kWhere,
                 ": got frame_length=", options_.frame_length, "; expected 2 or more");
    STRATA_CHECK(step_ >= 1 && step_ <= options_.frame_length, kInvalidArgument, kWhere,
                 ": `frame_step` should be a positive integer not greater than `frame_length`. "
                 "Received frame_step=",
                 step_, ", frame_length=", options_.frame_length);
    STRATA_CHECK(options_.fft_length.value_or(options_.frame_length) >= options_.frame_length,
                 kInvalidArgument, kWhere,
                 ": `fft_length` should be not less than `frame_length`. Received fft_length=",
                 options_.fft_length.value_or(0), ", frame_length=", options_.frame_length);
    (void)initializer("real");  // checks window and scaling
    set_input_spec({{.ndim = 3}});
  }
  std::string_view class_name() const override { return "STFTSpectrogram"; }

 private:
  void describe(keras::ConfigWriter& config) const override {
    const STFTSpectrogramArguments arguments{options_};
    visit(config, arguments);
  }

  bool first() const { return options_.data_format == DataFormat::kChannelsFirst; }
  int64_t frequencies() const {
    const auto length = static_cast<uint64_t>(options_.frame_length);
    return options_.fft_length.value_or(static_cast<int64_t>(std::bit_ceil(length))) / 2 + 1;
  }
  initializers::Initializer initializer(const char* side) const {
    return initializers::STFT({.side = side,
                               .window = options_.window,
                               .scaling = options_.scaling,
                               .periodic = options_.periodic});
  }

  void build(const keras::Shape&) override {
    const keras::Shape shape = {options_.frame_length, 1, frequencies()};
    if (options_.mode != SpectrogramMode::kImag) {
      real_ = add_weight("real_kernel", shape, {.initializer = initializer("real")});
    }
    if (options_.mode != SpectrogramMode::kReal) {
      imag_ = add_weight("imag_kernel", shape, {.initializer = initializer("imag")});
    }
  }

  /// @param x  `[batch * channels, 1, time]`  @return `[batch, channels, frequencies, frames]`
  at::Tensor convolved(const at::Tensor& x, const Variable& kernel, int64_t channels) const {
    const at::Tensor y = at::conv1d(x, cast(kernel, x).permute({2, 1, 0}), {}, step_);
    return y.reshape({y.size(0) / channels, channels, y.size(1), y.size(2)});
  }

  /// @param y  `[batch, channels, frequencies, frames]`
  at::Tensor arranged(const at::Tensor& y) const {
    if (options_.expand_dims) return first() ? y.transpose(2, 3) : y.permute({0, 3, 2, 1});
    const at::Tensor flat = y.flatten(1, 2);
    return first() ? flat : flat.transpose(1, 2);
  }

  at::Tensor call(const at::Tensor& given, const keras::Call&) override {
    STRATA_CHECK(given.scalar_type() != at::kBFloat16, kInvalidArgument, "[keras] layer '", name(),
                 "': Invalid input type. Expected `float16`, `float32` or `float64`. Received: "
                 "input type=bfloat16");
    const at::Tensor planes = first() ? given : given.transpose(1, 2);
    const int64_t channels = planes.size(1), time = planes.size(2);
    at::Tensor x = planes.reshape({planes.size(0) * channels, 1, time});
    if (options_.padding == Padding::kSame) {
      const int64_t frames = (time + step_ - 1) / step_;
      const int64_t more =
          std::max<int64_t>((frames - 1) * step_ + options_.frame_length - time, 0);
      x = at::constant_pad_nd(x, {more / 2, more - more / 2});
    }
    const SpectrogramMode& mode = options_.mode;
    at::Tensor real, imag;
    if (real_) real = convolved(x, *real_, channels);
    if (imag_) imag = convolved(x, *imag_, channels);
    if (mode == SpectrogramMode::kReal) return arranged(real);
    if (mode == SpectrogramMode::kImag) return arranged(imag);
    if (mode == SpectrogramMode::kAngle) return arranged(at::arctan2(imag, real));
    if (mode == SpectrogramMode::kStft) return arranged(at::cat({real, imag}, 2));
    const at::Tensor power = real.square() + imag.square();
    if (mode == SpectrogramMode::kPsd) {
      // What is in the lower half of a transform counts for the upper half, too.
      return arranged(power +
                      at::constant_pad_nd(power.narrow(2, 1, power.size(2) - 2), {0, 0, 1, 1}));
    }
    const at::Tensor magnitude = arranged(power.clamp_min(kEpsilon).sqrt());
    return mode == SpectrogramMode::kMagnitude ? magnitude : magnitude.clamp_min(kEpsilon).log();
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    const int64_t channels = first() ? input[1] : input[2], time = first() ? input[2] : input[1];
    int64_t frames = keras::kNone;
    if (time != keras::kNone) {
      frames = options_.padding == Padding::kSame ? (time + step_ - 1) / step_
                                                  : (time - options_.frame_length) / step_ + 1;
    }
    const int64_t bins = frequencies() * (options_.mode == SpectrogramMode::kStft ? 2 : 1);
    if (options_.expand_dims) {
      return first() ? keras::Shape{input[0], channels, frames, bins}
                     : keras::Shape{input[0], frames, bins, channels};
    }
    const int64_t columns = channels == keras::kNone ? keras::kNone : bins * channels;
    return first() ? keras::Shape{input[0], columns, frames}
                   : keras::Shape{input[0], frames, columns};
  }

  const STFTSpectrogramOptions options_;
  const int64_t step_;
  std::optional<Variable> real_, imag_;
};

// --- MelSpectrogram ---

/// HTK's mel scale.
double mel_of(double hertz) { return 1127.0 * std::log1p(hertz / 700.0); }

class MelSpectrogramImpl final : public keras::UnaryLayerImpl {
 public:
  explicit MelSpectrogramImpl(const MelSpectrogramArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), options_(arguments.options) {
    if (!options_.sequence_length) options_.sequence_length = options_.fft_length;
    if (!options_.max_freq) {
      options_.max_freq = static_cast<double>(options_.sampling_rate / 2);
    }
    STRATA_CHECK(options_.fft_length >= *options_.sequence_length, kInvalidArgument,
                 "[layers] MelSpectrogram: `fft_length` must be greater than or equal to "
                 "`sequence_length`. Received: `sequence_length`=",
                 *options_.sequence_length, ", `fft_length`=", options_.fft_length, ".");
    STRATA_CHECK(options_.sequence_stride > 0 && options_.num_mel_bins > 0, kInvalidArgument,
                 "[layers] MelSpectrogram: got sequence_stride=", options_.sequence_stride,
                 " and num_mel_bins=", options_.num_mel_bins, "; expected 1 or more");
  }
  std::string_view class_name() const override { return "MelSpectrogram"; }

 private:
  void describe(keras::ConfigWriter& config) const override {
    const MelSpectrogramArguments arguments{options_};
    visit(config, arguments);
  }

  /// `[frequencies, mel bins]`: triangles on the mel scale, from 0 over 1 to 0.
  at::Tensor mel_weights(const at::Tensor& like) const {
    const int64_t frequencies = options_.fft_length / 2 + 1;
    const auto nyquist = static_cast<double>(options_.sampling_rate) / 2;
    const at::Tensor hertz = at::linspace(0, nyquist, frequencies, at::kDouble);
    const at::Tensor mel = ((hertz / 700.0).log1p() * 1127.0).unsqueeze(1);
    const int64_t bins = options_.num_mel_bins;
    const at::Tensor edges =
        at::linspace(mel_of(options_.min_freq), mel_of(*options_.max_freq), bins + 2, at::kDouble);
    const at::Tensor lower = edges.narrow(0, 0, bins), centre = edges.narrow(0, 1, bins);
    const at::Tensor upper = edges.narrow(0, 2, bins);
    const at::Tensor rising = (mel - lower) / (centre - lower);
    const at::Tensor falling = (upper - mel) / (upper - centre);
    at::Tensor weights = at::minimum(rising, falling).clamp_min(0);
    weights.select(0, 0).zero_();  // HTK leaves the constant part out
    return weights.to(like.options());
  }

  at::Tensor call(const at::Tensor& given, const keras::Call&) override {
    const at::ScalarType compute = dtype().compute_dtype();
    const at::Tensor x = given.to(compute == at::kDouble ? at::kDouble : at::kFloat);
    const keras::Tensors parts =
        keras::ops::stft(x, *options_.sequence_length, options_.sequence_stride,
                         options_.fft_length, options_.window.value_or(""));
    at::Tensor spectrum = (parts[0].square() + parts[1].square()).sqrt().pow(options_.mag_exp);
    spectrum = at::matmul(spectrum, mel_weights(spectrum));
    if (options_.power_to_db) spectrum = decibels(spectrum);
    return spectrum.transpose(-1, -2).to(compute);
  }

  at::Tensor decibels(const at::Tensor& power) const {
    const double reference = std::log10(std::max(std::abs(options_.ref_power), options_.min_power));
    const at::Tensor level = 10 * power.clamp_min(options_.min_power).log10() - 10 * reference;
    if (level.numel() == 0) return level;
    return level.clamp_min(level.max() - options_.top_db);
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    const int64_t time = input.back();
    const int64_t frames = time == keras::kNone
                               ? keras::kNone
                               : (time + options_.sequence_stride + 1) / options_.sequence_stride;
    keras::Shape output = input;
    output.back() = options_.num_mel_bins;
    output.push_back(frames);
    return output;
  }

  MelSpectrogramOptions options_;
};

}  // namespace

STFTSpectrogram::STFTSpectrogram(const STFTSpectrogramOptions& options)
    : Layer(std::make_shared<STFTSpectrogramImpl>(STFTSpectrogramArguments{options})) {}
MelSpectrogram::MelSpectrogram(const MelSpectrogramOptions& options)
    : Layer(std::make_shared<MelSpectrogramImpl>(MelSpectrogramArguments{options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> spectrogram_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {STRATA_LAYER_CLASS("STFTSpectrogram", STFTSpectrogramImpl, STFTSpectrogramArguments),
          STRATA_LAYER_CLASS("MelSpectrogram", MelSpectrogramImpl, MelSpectrogramArguments)};
}

}  // namespace strata::keras
