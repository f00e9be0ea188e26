#include "strata/keras/layers/color_augmentation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "keras/layers/image_draws.h"
#include "keras/layers/image_layer.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/random_factor.h"
#include "strata/keras/ops/image.h"

namespace strata::layers {
namespace {

at::Tensor hsv(const at::Tensor& x) { return keras::ops::image::rgb_to_hsv(x, kChannelsFirst); }
at::Tensor rgb(const at::Tensor& h, const at::Tensor& s, const at::Tensor& v) {
  return keras::ops::image::hsv_to_rgb(at::stack({h, s, v}, 1), kChannelsFirst);
}
at::Tensor gray(const at::Tensor& x) {
  return keras::ops::image::rgb_to_grayscale(x, kChannelsFirst);
}

at::Tensor invert(const at::Tensor& x, const Factor& factor, const ValueRange& range) {
  return at::where(chosen(x, factor), range.upper - x, x);
}

at::Tensor posterize(const at::Tensor& x, const Factor& factor, const ValueRange& range) {
  // Whole numbers below the upper end, or the one that both ends are.
  const at::Tensor bits = factor.lower == factor.upper
                              ? draws(x, factor).round()
                              : draws(x, factor).floor().clamp_max(factor.upper - 1);
  const at::Tensor step = (8 - bits).exp2();
  const at::Tensor bytes = rescaled(x, range, kBytes).trunc();
  return rescaled((bytes / step).floor() * step, kBytes, range);
}

at::Tensor saturate(const at::Tensor& x, const Factor& factor, const ValueRange& range) {
  const at::Tensor drawn = draws(x, factor).view({-1, 1, 1});
  const at::Tensor parts = hsv(x);
  const at::Tensor s = parts.select(1, 1) * (drawn / (1 - drawn + 1e-7));
  return rgb(parts.select(1, 0), s.clamp(range.lower, range.upper), parts.select(1, 2));
}

at::Tensor turn_hue(const at::Tensor& x, const Factor& factor, const ValueRange& range) {
  const at::Tensor back = draws(x, 0, 1) > 0.5;
  const at::Tensor drawn = draws(x, factor) * 0.5;
  const at::Tensor by = at::where(back, -drawn, drawn).view({-1, 1, 1});
  const at::Tensor parts = hsv(rescaled(x, range, kUnit));
  at::Tensor h = parts.select(1, 0) + by;
  h = at::where(h > 1, h - 1, h);
  h = at::where(h < 0, h + 1, h);
  return rescaled(rgb(h, parts.select(1, 1), parts.select(1, 2)).clamp(0, 1), kUnit, range);
}

at::Tensor degenerate(const at::Tensor& x, const Factor& factor, const ValueRange& range) {
  return (x + draws(x, factor) * (gray(x) - x)).clamp(range.lower, range.upper);
}

at::Tensor sharpen(const at::Tensor& x, const Factor& factor, const ValueRange& range) {
  const double a = 1.0 / 13, b = 5.0 / 13;
  const int64_t channels = x.size(1);
  const at::Tensor kernel = at::tensor({a, a, a, a, b, a, a, a, a}, at::kDouble)
                                .to(x.options())
                                .view({1, 1, 3, 3})
                                .expand({channels, 1, 3, 3});
  const at::Tensor smooth = at::conv2d(x, kernel, {}, 1, at::IntArrayRef({1, 1}), 1, channels);
  return (x + (1 - 2 * draws(x, factor)) * (smooth - x)).clamp(range.lower, range.upper);
}

/// One that has a factor and nothing else of its own.
struct ColorChange {
  const char* class_name;
  double least, most;  ///< Of the factor.
  at::Tensor (*change)(const at::Tensor& x, const Factor& factor, const ValueRange& range);
};
constexpr ColorChange kInvert = {"RandomInvert", 0, 1, invert};
constexpr ColorChange kPosterization = {"RandomPosterization", 1, 8, posterize};
constexpr ColorChange kSaturation = {"RandomSaturation", -1, 1, saturate};
constexpr ColorChange kHue = {"RandomHue", 0, 1, turn_hue};
constexpr ColorChange kDegeneration = {"RandomColorDegeneration", -1, 1, degenerate};
constexpr ColorChange kSharpness = {"RandomSharpness", 0, 1, sharpen};

struct ColorChangeArguments {
  Factor factor = 1.0;
  RandomColorOptions options = {};
};
struct RandomGrayscaleArguments {
  double share = 0.5;
  RandomGrayscaleOptions options = {};
};
struct SolarizationArguments {
  Factor addition_factor = 0.0;
  Factor threshold_factor = 0.0;
  RandomColorOptions options = {};
};
struct AutoContrastArguments {
  AutoContrastOptions options = {};
};
struct RandomErasingArguments {
  Factor factor = 1.0;
  RandomErasingOptions options = {};
};

template <typename Config,
          keras::OneOf<ColorChangeArguments, RandomGrayscaleArguments, SolarizationArguments,
                       AutoContrastArguments, RandomErasingArguments>
              Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  if constexpr (requires { layer.share; }) config("factor", layer.share);
  if constexpr (requires { layer.factor; }) config("factor", layer.factor);
  if constexpr (requires { layer.addition_factor; }) {
    config("addition_factor", layer.addition_factor);
    config("threshold_factor", layer.threshold_factor);
  }
  if constexpr (requires { options.scale; }) {
    config("scale", options.scale);
    config("fill_value", options.fill_value);
  }
  if constexpr (requires { options.value_range; }) {
    config("value_range", options.value_range);
    if constexpr (requires { options.seed; }) config("seed", options.seed);
  } else {
    config.ignore("seed");
  }
  config("data_format", options.data_format);
}

/// What all of them share. `change` sees images in the dtype of the arithmetic.
template <typename Arguments>
class ColorImpl : public ImageLayerImpl {
 public:
  ColorImpl(const Arguments& arguments, const char* class_name)
      : ImageLayerImpl(keras::base_options(arguments.options), class_name,
                       arguments.options.data_format),
        arguments_(arguments),
        class_name_(class_name) {
    if constexpr (requires { arguments_.options.value_range; }) {
      ValueRange& range = arguments_.options.value_range;
      if (range.lower > range.upper) std::swap(range.lower, range.upper);
    }
  }
  std::string_view class_name() const final { return class_name_; }

 protected:
  virtual at::Tensor change(const at::Tensor& x) = 0;
  virtual bool always() const { return false; }

  Arguments arguments_;

 private:
  void describe(keras::ConfigWriter& config) const final { visit(config, arguments_); }
  at::Tensor transform(const at::Tensor& x, bool training) final {
    const at::Tensor y = x.to(dtype().compute_dtype());
    if ((!training && !always()) || y.size(0) == 0) return y;
    return change(y).to(y.scalar_type());
  }

  const char* class_name_;
};

template <const ColorChange& kChange>
class ColorChangeImpl final : public ColorImpl<ColorChangeArguments> {
 public:
  explicit ColorChangeImpl(const ColorChangeArguments& arguments)
      : ColorImpl(arguments, kChange.class_name) {
    arguments_.factor = resolved(kChange.class_name, arguments.factor, kChange.least, kChange.most);
  }

 private:
  at::Tensor change(const at::Tensor& x) override {
    return kChange.change(x, arguments_.factor, arguments_.options.value_range);
  }
};

class RandomGrayscaleImpl final : public ColorImpl<RandomGrayscaleArguments> {
 public:
  explicit RandomGrayscaleImpl(const RandomGrayscaleArguments& arguments)
      : ColorImpl(arguments, "RandomGrayscale") {
    STRATA_CHECK(arguments.share >= 0 && arguments.share <= 1, kInvalidArgument,
                 "[layers] RandomGrayscale: `factor` should be between 0 and 1. Received: factor=",
                 arguments.share);
  }

 private:
  at::Tensor change(const at::Tensor& x) override {
    return at::where(draws(x, 0, 1) < arguments_.share, gray(x), x);
  }
};

class SolarizationImpl final : public ColorImpl<SolarizationArguments> {
 public:
  explicit SolarizationImpl(const SolarizationArguments& arguments)
      : ColorImpl(arguments, "Solarization") {
    arguments_.addition_factor = resolved("Solarization", arguments.addition_factor, 0, 1);
    arguments_.threshold_factor = resolved("Solarization", arguments.threshold_factor, 0, 1);
  }

 private:
  /// Keras has the lower end of a range in pixels, the upper one as a share.
  static at::Tensor drawn(const at::Tensor& x, const Factor& factor) {
    return draws(x, std::min(factor.lower, factor.upper * 255), factor.upper * 255);
  }
  at::Tensor change(const at::Tensor& x) override {
    const ValueRange& range = arguments_.options.value_range;
    const at::Tensor y =
        (rescaled(x, range, kBytes) + drawn(x, arguments_.addition_factor)).clamp(0, 255);
    return rescaled(at::where(y < drawn(x, arguments_.threshold_factor), y, 255 - y), kBytes,
                    range);
  }
};

class AutoContrastImpl final : public ColorImpl<AutoContrastArguments> {
 public:
  explicit AutoContrastImpl(const AutoContrastArguments& arguments)
      : ColorImpl(arguments, "AutoContrast") {}

 private:
  bool always() const override { return true; }
  at::Tensor change(const at::Tensor& x) override {
    const ValueRange& range = arguments_.options.value_range;
    const at::Tensor y = rescaled(x, range, kBytes);
    const at::Tensor low = y.amin({2, 3}, true), span = y.amax({2, 3}, true) - low;
    const at::Tensor stretched = ((y - low) * (255.0 / span)).clamp(0, 255);
    return at::where(span == 0, x, rescaled(stretched, kBytes, range));
  }
};

class RandomErasingImpl final : public ColorImpl<RandomErasingArguments> {
 public:
  explicit RandomErasingImpl(const RandomErasingArguments& arguments)
      : ColorImpl(arguments, "RandomErasing") {
    arguments_.factor = resolved("RandomErasing", arguments.factor, 0, 1);
    arguments_.options.scale = resolved("RandomErasing", arguments.options.scale, 0, 1);
  }

 private:
  /// Places along a dimension that are in the part.
  at::Tensor part(const at::Tensor& x, int64_t dim) const {
    const auto size = static_cast<double>(x.size(dim));
    const at::Tensor length = draws(x, arguments_.options.scale).sqrt() * size;
    const at::Tensor from = draws(x, 0, 1) * (size - length);
    std::vector<int64_t> shape(4, 1);
    shape[static_cast<size_t>(dim)] = x.size(dim);
    const at::Tensor place = at::arange(x.size(dim), x.options()).view(shape);
    return (place >= from).logical_and(place < from + length);
  }
  at::Tensor change(const at::Tensor& x) override {
    const RandomErasingOptions& options = arguments_.options;
    const at::Tensor inside = part(x, 3).logical_and(part(x, 2));
    const at::Tensor erased = chosen(x, arguments_.factor).logical_and(inside);
    if (options.fill_value) {
      return at::where(
          erased,
          std::clamp(*options.fill_value, options.value_range.lower, options.value_range.upper), x);
    }
    const at::Tensor noise =
        at::empty(x.sizes(), x.options()).normal_() * options.value_range.upper;
    return at::where(erased, noise.clamp(options.value_range.lower, options.value_range.upper), x);
  }
};

}  // namespace

RandomGrayscale::RandomGrayscale(double factor, const RandomGrayscaleOptions& options)
    : Layer(std::make_shared<RandomGrayscaleImpl>(RandomGrayscaleArguments{factor, options})) {}
RandomInvert::RandomInvert(Factor factor, const RandomColorOptions& options)
    : Layer(std::make_shared<ColorChangeImpl<kInvert>>(ColorChangeArguments{factor, options})) {}
RandomPosterization::RandomPosterization(Factor factor, const RandomColorOptions& options)
    : Layer(std::make_shared<ColorChangeImpl<kPosterization>>(
          ColorChangeArguments{factor, options})) {}
RandomSaturation::RandomSaturation(Factor factor, const RandomColorOptions& options)
    : Layer(std::make_shared<ColorChangeImpl<kSaturation>>(ColorChangeArguments{factor, options})) {
}
RandomHue::RandomHue(Factor factor, const RandomColorOptions& options)
    : Layer(std::make_shared<ColorChangeImpl<kHue>>(ColorChangeArguments{factor, options})) {}
RandomColorDegeneration::RandomColorDegeneration(Factor factor, const RandomColorOptions& options)
    : Layer(
          std::make_shared<ColorChangeImpl<kDegeneration>>(ColorChangeArguments{factor, options})) {
}
RandomSharpness::RandomSharpness(Factor factor, const RandomColorOptions& options)
    : Layer(std::make_shared<ColorChangeImpl<kSharpness>>(ColorChangeArguments{factor, options})) {}
Solarization::Solarization(Factor addition_factor, Factor threshold_factor,
                           const RandomColorOptions& options)
    : Layer(std::make_shared<SolarizationImpl>(
          SolarizationArguments{addition_factor, threshold_factor, options})) {}
AutoContrast::AutoContrast(const AutoContrastOptions& options)
    : Layer(std::make_shared<AutoContrastImpl>(AutoContrastArguments{options})) {}
RandomErasing::RandomErasing(Factor factor, const RandomErasingOptions& options)
    : Layer(std::make_shared<RandomErasingImpl>(RandomErasingArguments{factor, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> color_augmentation_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {
      STRATA_LAYER_CLASS("RandomGrayscale", RandomGrayscaleImpl, RandomGrayscaleArguments),
      STRATA_LAYER_CLASS("RandomInvert", ColorChangeImpl<kInvert>, ColorChangeArguments),
      STRATA_LAYER_CLASS("RandomPosterization", ColorChangeImpl<kPosterization>,
                         ColorChangeArguments),
      STRATA_LAYER_CLASS("RandomSaturation", ColorChangeImpl<kSaturation>, ColorChangeArguments),
      STRATA_LAYER_CLASS("RandomHue", ColorChangeImpl<kHue>, ColorChangeArguments),
      STRATA_LAYER_CLASS("RandomColorDegeneration", ColorChangeImpl<kDegeneration>,
                         ColorChangeArguments),
      STRATA_LAYER_CLASS("RandomSharpness", ColorChangeImpl<kSharpness>, ColorChangeArguments),
      STRATA_LAYER_CLASS("Solarization", SolarizationImpl, SolarizationArguments),
      STRATA_LAYER_CLASS("AutoContrast", AutoContrastImpl, AutoContrastArguments),
      STRATA_LAYER_CLASS("RandomErasing", RandomErasingImpl, RandomErasingArguments)};
}

}  // namespace strata::keras
