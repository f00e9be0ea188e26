#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "keras/layers/affine_images.h"
#include "keras/layers/image_crop.h"
#include "keras/layers/image_layer.h"
#include "keras/layers/image_resize.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/random_factor.h"
#include "keras/layers/windows.h"
#include "strata/keras/layers/image_preprocessing.h"

namespace strata::layers {

Json to_config(const Factor& factor) {
  return factor.single ? Json(factor.upper) : Json::array({factor.lower, factor.upper});
}
void from_config(const Json& json, Factor& factor) {
  if (json.is_number()) {
    factor = json.as_double();
    return;
  }
  std::vector<double> values;
  keras::from_config(json, values);
  STRATA_CHECK(values.size() == 2, kDataLoss, "got ", values.size(), " numbers; expected 1 or 2");
  factor = {values[0], values[1]};
}
void from_config(const Json& json, std::optional<Factor>& factor) {
  factor.reset();
  if (!json.is_null()) from_config(json, factor.emplace(0.0));
}
Json to_config(const ValueRange& range) { return Json::array({range.lower, range.upper}); }
void from_config(const Json& json, ValueRange& range) {
  std::vector<double> values;
  keras::from_config(json, values);
  STRATA_CHECK(values.size() == 2, kDataLoss, "got ", values.size(), " numbers; expected 2");
  range = {values[0], values[1]};
}

namespace {

struct RandomFlipArguments {
  FlipMode mode = FlipMode::kHorizontalAndVertical;
  RandomImageOptions options = {};
};
struct RandomCropArguments {
  int64_t height = 1;
  int64_t width = 1;
  RandomImageOptions options = {};
};
struct RandomRotationArguments {
  Factor factor = 0;
  AffineImageOptions options = {};
};
struct RandomTranslationArguments {
  Factor height_factor = 0;
  Factor width_factor = 0;
  AffineImageOptions options = {};
};
/// As `Factor`, which has no value of its own.
struct MaybeFactor {
  std::optional<Factor> value;
};
Json to_config(const MaybeFactor& factor) {
  return factor.value ? to_config(*factor.value) : Json();
}
void from_config(const Json& json, MaybeFactor& factor) {
  factor.value.reset();
  if (json.is_null()) return;
  Factor value = 0;
  from_config(json, value);
  factor.value = value;
}
struct RandomZoomArguments {
  Factor height_factor = 0;
  MaybeFactor width_factor = {};
  RandomZoomOptions options = {};
};
struct RandomColorArguments {
  Factor factor = 0;
  RandomColorOptions options = {};
};

template <typename Config,
          keras::OneOf<RandomFlipArguments, RandomCropArguments, RandomRotationArguments,
                       RandomTranslationArguments, RandomZoomArguments, RandomColorArguments>
              Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  if constexpr (requires { layer.mode; }) config("mode", layer.mode);
  if constexpr (requires { layer.height; }) {
    config("height", layer.height);
    config("width", layer.width);
  }
  if constexpr (requires { layer.factor; }) config("factor", layer.factor);
  if constexpr (requires { layer.height_factor; }) {
    config("height_factor", layer.height_factor);
    config("width_factor", layer.width_factor);
  }
  if constexpr (requires { options.fill_mode; }) {
    config("fill_mode", options.fill_mode);
    config("interpolation", options.interpolation);
    config("fill_value", options.fill_value);
  }
  if constexpr (requires { options.value_range; }) config("value_range", options.value_range);
  config("seed", options.seed);
  config("data_format", options.data_format);
}

/// As `resolved`, for factors that Keras writes as they were given.
void check_factor(const char* class_name, const Factor& factor, double below) {
  for (const double f : {factor.lower, factor.upper}) {
    STRATA_CHECK(f <= 1 && (f > below || factor.single), kInvalidArgument, "[layers] ", class_name,
                 ": got a factor of ", to_config(factor).dump(),
                 "; expected a number (or two) in the range ", below < -1 ? "[" : "(", "-1, 1]");
  }
}

/// `count` numbers, from `lower` to `upper`, for x's device.
at::Tensor uniform(const at::Tensor& x, int64_t count, double lower, double upper) {
  return at::empty({count}, x.options().dtype(at::kFloat)).uniform_(lower, upper);
}
at::Tensor uniform(const at::Tensor& x, const Factor& factor) {
  return uniform(x, x.size(0), std::min(factor.lower, factor.upper),
                 std::max(factor.lower, factor.upper));
}

class RandomFlipImpl final : public ImageLayerImpl {
 public:
  explicit RandomFlipImpl(const RandomFlipArguments& arguments)
      : ImageLayerImpl(keras::base_options(arguments.options), "RandomFlip",
                       arguments.options.data_format),
        arguments_(arguments) {
    arguments.mode.check("[layers] RandomFlip");
    if (arguments.mode != FlipMode::kHorizontal) axes_.push_back(2);
    if (arguments.mode != FlipMode::kVertical) axes_.push_back(3);
  }
  std::string_view class_name() const override { return "RandomFlip"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor transform(const at::Tensor& x, bool training) override {
    const at::Tensor y = x.to(dtype().compute_dtype());
    if (!training) return y;
    const at::Tensor flips = (uniform(y, y.size(0), 0, 1) <= 0.5).view({-1, 1, 1, 1});
    return at::where(flips, y.flip(axes_), y);
  }

  RandomFlipArguments arguments_;
  std::vector<int64_t> axes_;
};

class RandomCropImpl final : public ImageLayerImpl {
 public:
  explicit RandomCropImpl(const RandomCropArguments& arguments)
      : ImageLayerImpl(keras::base_options(arguments.options), "RandomCrop",
                       arguments.options.data_format),
        arguments_(arguments) {
    check_positive("RandomCrop", "(height, width)", {arguments.height, arguments.width});
  }
  std::string_view class_name() const override { return "RandomCrop"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  std::pair<int64_t, int64_t> new_size() const override {
    return {arguments_.height, arguments_.width};
  }
  at::Tensor transform(const at::Tensor& x, bool training) override {
    const int64_t height = arguments_.height, width = arguments_.width;
    const at::Tensor y = x.to(dtype().compute_dtype());
    const int64_t rows = y.size(2) - height, columns = y.size(3) - width;
    if (rows == 0 && columns == 0) return y;
    if (!training || rows < 0 || columns < 0) return smart_resize(y, height, width);
    const at::Tensor draws = uniform(y, 2, 0, 1).to(at::kDouble);
    // The draw stays a tensor, so that a step can be recorded.
    const auto places = [&](int64_t i, int64_t most, int64_t size) {
      const at::Tensor start = draws[i].mul(static_cast<double>(most + 1)).to(at::kLong);
      return at::arange(size, start.options()).add(start.clamp_max(most));
    };
    return y.index_select(2, places(0, rows, height)).index_select(3, places(1, columns, width));
  }

  RandomCropArguments arguments_;
};

/// What rotation, translation and zoom share.
template <typename Arguments>
class AffineImageImpl : public ImageLayerImpl {
 public:
  AffineImageImpl(const Arguments& arguments, const char* class_name)
      : ImageLayerImpl(keras::base_options(arguments.options), class_name,
                       arguments.options.data_format),
        arguments_(arguments) {
    arguments.options.fill_mode.check(str_cat("[layers] ", class_name));
    check_nearest_or_bilinear(class_name, arguments.options.interpolation);
  }

 protected:
  /// a0, a1, a2, b0, b1, b2 of affine_images.h, each `[batch]`.
  virtual std::vector<at::Tensor> draw(const at::Tensor& x) = 0;

  Arguments arguments_;

 private:
  void describe(keras::ConfigWriter& config) const final { visit(config, arguments_); }
  at::Tensor transform(const at::Tensor& x, bool training) final {
    const at::Tensor y = x.to(dtype().compute_dtype());
    if (!training || y.size(0) == 0) return y;
    const auto& options = arguments_.options;
    return transform_affine(y, at::stack(draw(y), 1),
                            {options.fill_mode, options.interpolation, options.fill_value});
  }
};

class RandomRotationImpl final : public AffineImageImpl<RandomRotationArguments> {
 public:
  explicit RandomRotationImpl(const RandomRotationArguments& arguments)
      : AffineImageImpl(arguments, "RandomRotation") {
    arguments_.factor = resolved("RandomRotation", arguments.factor, -1, 1);
  }
  std::string_view class_name() const override { return "RandomRotation"; }

 private:
  std::vector<at::Tensor> draw(const at::Tensor& x) override {
    const double turn = 2 * std::numbers::pi;
    const at::Tensor angle =
        uniform(x, Factor(arguments_.factor.lower * turn, arguments_.factor.upper * turn));
    const at::Tensor cosine = angle.cos(), sine = angle.sin();
    const double cx = 0.5 * static_cast<double>(x.size(3) - 1);
    const double cy = 0.5 * static_cast<double>(x.size(2) - 1);
    return {cosine, -sine,  cx - cx * cosine + cy * sine,
            sine,   cosine, cy - cx * sine - cy * cosine};
  }
};

class RandomTranslationImpl final : public AffineImageImpl<RandomTranslationArguments> {
 public:
  explicit RandomTranslationImpl(const RandomTranslationArguments& arguments)
      : AffineImageImpl(arguments, "RandomTranslation") {
    check_factor("RandomTranslation", arguments.height_factor, std::nextafter(-1.0, -2.0));
    check_factor("RandomTranslation", arguments.width_factor, std::nextafter(-1.0, -2.0));
  }
  std::string_view class_name() const override { return "RandomTranslation"; }

 private:
  std::vector<at::Tensor> draw(const at::Tensor& x) override {
    const at::Tensor down = uniform(x, arguments_.height_factor) * x.size(2);
    const at::Tensor right = uniform(x, arguments_.width_factor) * x.size(3);
    const at::Tensor one = at::full_like(down, 1), zero = at::zeros_like(down);
    return {one, zero, -right, zero, one, -down};
  }
};

class RandomZoomImpl final : public AffineImageImpl<RandomZoomArguments> {
 public:
  explicit RandomZoomImpl(const RandomZoomArguments& arguments)
      : AffineImageImpl(arguments, "RandomZoom") {
    check_factor("RandomZoom", arguments.height_factor, -1);
    if (arguments.width_factor.value) check_factor("RandomZoom", *arguments.width_factor.value, -1);
  }
  std::string_view class_name() const override { return "RandomZoom"; }

 private:
  std::vector<at::Tensor> draw(const at::Tensor& x) override {
    const auto& width_factor = arguments_.width_factor.value;
    const at::Tensor height = uniform(x, arguments_.height_factor) + 1;
    const at::Tensor width = width_factor ? uniform(x, *width_factor) + 1 : height;
    const double cx = 0.5 * static_cast<double>(x.size(3) - 1);
    const double cy = 0.5 * static_cast<double>(x.size(2) - 1);
    const at::Tensor zero = at::zeros_like(height);
    return {width, zero, cx * (1 - width), zero, height, cy * (1 - height)};
  }
};

/// What contrast and brightness share.
class RandomColorImpl : public ImageLayerImpl {
 public:
  RandomColorImpl(const RandomColorArguments& arguments, const char* class_name)
      : ImageLayerImpl(keras::base_options(arguments.options), class_name,
                       arguments.options.data_format),
        arguments_(arguments) {}

 protected:
  virtual at::Tensor change(const at::Tensor& x) = 0;

  RandomColorArguments arguments_;

 private:
  void describe(keras::ConfigWriter& config) const final { visit(config, arguments_); }
  at::Tensor transform(const at::Tensor& x, bool training) final {
    const at::Tensor y = x.to(dtype().compute_dtype());
    if (!training || y.size(0) == 0) return y;
    const ValueRange& range = arguments_.options.value_range;
    return change(y).clamp(range.lower, range.upper);
  }
};

class RandomContrastImpl final : public RandomColorImpl {
 public:
  explicit RandomContrastImpl(const RandomColorArguments& arguments)
      : RandomColorImpl(arguments, "RandomContrast") {
    arguments_.factor = resolved("RandomContrast", arguments.factor, 0, 1);
  }
  std::string_view class_name() const override { return "RandomContrast"; }

 private:
  at::Tensor change(const at::Tensor& x) override {
    const at::Tensor by =
        uniform(x, x.size(0), 1 - arguments_.factor.lower, 1 + arguments_.factor.upper)
            .to(x.scalar_type())
            .view({-1, 1, 1, 1});
    const at::Tensor mean = x.mean(at::IntArrayRef({2, 3}), true);
    return (x - mean) * by + mean;
  }
};

class RandomBrightnessImpl final : public RandomColorImpl {
 public:
  explicit RandomBrightnessImpl(const RandomColorArguments& arguments)
      : RandomColorImpl(arguments, "RandomBrightness") {
    arguments_.factor = resolved("RandomBrightness", arguments.factor, -1, 1);
    ValueRange& range = arguments_.options.value_range;
    if (range.lower > range.upper) std::swap(range.lower, range.upper);
  }
  std::string_view class_name() const override { return "RandomBrightness"; }

 private:
  at::Tensor change(const at::Tensor& x) override {
    const ValueRange& range = arguments_.options.value_range;
    return x + (uniform(x, arguments_.factor) * (range.upper - range.lower))
                   .to(x.scalar_type())
                   .view({-1, 1, 1, 1});
  }
};

}  // namespace

RandomFlip::RandomFlip(const FlipMode& mode, const RandomImageOptions& options)
    : Layer(std::make_shared<RandomFlipImpl>(RandomFlipArguments{mode, options})) {}
RandomCrop::RandomCrop(int64_t height, int64_t width, const RandomImageOptions& options)
    : Layer(std::make_shared<RandomCropImpl>(RandomCropArguments{height, width, options})) {}
RandomRotation::RandomRotation(Factor factor, const AffineImageOptions& options)
    : Layer(std::make_shared<RandomRotationImpl>(RandomRotationArguments{factor, options})) {}
RandomTranslation::RandomTranslation(Factor height_factor, Factor width_factor,
                                     const AffineImageOptions& options)
    : Layer(std::make_shared<RandomTranslationImpl>(
          RandomTranslationArguments{height_factor, width_factor, options})) {}
RandomZoom::RandomZoom(Factor height_factor, const RandomZoomOptions& options)
    : Layer(std::make_shared<RandomZoomImpl>(
          RandomZoomArguments{height_factor, {options.width_factor}, options})) {}
RandomContrast::RandomContrast(Factor factor, const RandomColorOptions& options)
    : Layer(std::make_shared<RandomContrastImpl>(RandomColorArguments{factor, options})) {}
RandomBrightness::RandomBrightness(Factor factor, const RandomColorOptions& options)
    : Layer(std::make_shared<RandomBrightnessImpl>(RandomColorArguments{factor, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> random_image_layers() {
  using namespace layers;  // NOLINT
  return {
      STRATA_LAYER_CLASS("RandomFlip", RandomFlipImpl, RandomFlipArguments),
      STRATA_LAYER_CLASS("RandomCrop", RandomCropImpl, RandomCropArguments),
      STRATA_LAYER_CLASS("RandomRotation", RandomRotationImpl, RandomRotationArguments),
      STRATA_LAYER_CLASS("RandomTranslation", RandomTranslationImpl, RandomTranslationArguments),
      STRATA_LAYER_CLASS("RandomZoom", RandomZoomImpl, RandomZoomArguments),
      STRATA_LAYER_CLASS("RandomContrast", RandomContrastImpl, RandomColorArguments),
      STRATA_LAYER_CLASS("RandomBrightness", RandomBrightnessImpl, RandomColorArguments)};
}

}  // namespace strata::keras
