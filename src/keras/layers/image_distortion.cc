#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "keras/layers/affine_images.h"
#include "keras/layers/image_draws.h"
#include "keras/layers/image_layer.h"
#include "keras/layers/image_resize.h"
#include "keras/layers/layer_class.h"
#include "keras/ops/interpolate.h"
#include "strata/keras/layers/image_augmentation.h"
#include "strata/keras/ops/image.h"

namespace strata::layers {
namespace {

struct RandomShearArguments {
  Factor x_factor = 0.0;
  Factor y_factor = 0.0;
  AffineImageOptions options = {};
};
struct RandomPerspectiveArguments {
  Factor factor = 1.0;
  RandomPerspectiveOptions options = {};
};
struct RandomElasticTransformArguments {
  Factor factor = 1.0;
  RandomElasticTransformOptions options = {};
};
struct RandomGaussianBlurArguments {
  Factor factor = 1.0;
  RandomGaussianBlurOptions options = {};
};

template <typename Config,
          keras::OneOf<RandomShearArguments, RandomPerspectiveArguments,
                       RandomElasticTransformArguments, RandomGaussianBlurArguments>
              Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  if constexpr (requires { layer.factor; }) config("factor", layer.factor);
  if constexpr (requires { layer.x_factor; }) {
    config("x_factor", layer.x_factor);
    config("y_factor", layer.y_factor);
  }
  if constexpr (requires { options.scale; }) config("scale", options.scale);
  if constexpr (requires { options.kernel_size; }) {
    config("kernel_size", options.kernel_size);
    config("sigma", options.sigma);
  }
  if constexpr (requires { options.fill_mode; }) config("fill_mode", options.fill_mode);
  if constexpr (requires { options.interpolation; }) {
    config("interpolation", options.interpolation);
    config("fill_value", options.fill_value);
  }
  if constexpr (requires { options.value_range; }) config("value_range", options.value_range);
  config("seed", options.seed);
  config("data_format", options.data_format);
}

/// What these layers share. `move` sees images in the dtype of the arithmetic.
template <typename Arguments>
class DistortionImpl : public ImageLayerImpl {
 public:
  DistortionImpl(const Arguments& arguments, const char* class_name)
      : ImageLayerImpl(keras::base_options(arguments.options), class_name,
                       arguments.options.data_format),
        arguments_(arguments),
        class_name_(class_name) {
    const auto& options = arguments.options;
    if constexpr (requires { options.interpolation; }) {
      check_nearest_or_bilinear(class_name, options.interpolation);
    }
    if constexpr (requires { options.fill_mode; }) {
      options.fill_mode.check(str_cat("[layers] ", class_name));
    }
    if constexpr (requires { arguments_.factor; }) {
      arguments_.factor = resolved(class_name, arguments.factor, 0, 1);
    }
  }
  std::string_view class_name() const final { return class_name_; }

 protected:
  virtual at::Tensor move(const at::Tensor& x) = 0;

  Arguments arguments_;

 private:
  void describe(keras::ConfigWriter& config) const final { visit(config, arguments_); }
  at::Tensor transform(const at::Tensor& x, bool training) final {
    const at::Tensor y = x.to(dtype().compute_dtype());
    return !training || y.size(0) == 0 ? y : move(y).to(y.scalar_type());
  }

  const char* class_name_;
};

class RandomShearImpl final : public DistortionImpl<RandomShearArguments> {
 public:
  explicit RandomShearImpl(const RandomShearArguments& arguments)
      : DistortionImpl(arguments, "RandomShear") {
    arguments_.x_factor = both_ways("x_factor", arguments.x_factor);
    arguments_.y_factor = both_ways("y_factor", arguments.y_factor);
  }

 private:
  /// Files of Keras have the range that one number was made: from -f on.
  static Factor both_ways(const char* option, const Factor& factor) {
    const double least = std::min(factor.lower, factor.upper);
    const double most = std::max(factor.lower, factor.upper);
    STRATA_CHECK(most <= 1 && most >= 0 && least >= -1, kInvalidArgument,
                 "[layers] RandomShear: The `factor` argument should be a number (or a list of two "
                 "numbers) in the range [0, 1]. Received: ",
                 option, "=", to_config(factor).dump());
    return {least, most};
  }

  at::Tensor move(const at::Tensor& x) override {
    const auto drawn = [&](double from, double to) {
      return at::empty({x.size(0)}, x.options().dtype(at::kFloat)).uniform_(from, to);
    };
    const at::Tensor way = at::where(drawn(0, 1) > 0.5, -1.0, 1.0).to(at::kFloat);
    const at::Tensor down = drawn(arguments_.y_factor.lower, arguments_.y_factor.upper) * way;
    const at::Tensor right = drawn(arguments_.x_factor.lower, arguments_.x_factor.upper) * way;
    const at::Tensor one = at::ones_like(down), zero = at::zeros_like(down);
    const AffineImageOptions& options = arguments_.options;
    return transform_affine(x, at::stack({one, right, zero, down, one, zero}, 1),
                            {options.fill_mode, options.interpolation, options.fill_value});
  }
};

class RandomPerspectiveImpl final : public DistortionImpl<RandomPerspectiveArguments> {
 public:
  explicit RandomPerspectiveImpl(const RandomPerspectiveArguments& arguments)
      : DistortionImpl(arguments, "RandomPerspective") {
    STRATA_CHECK(arguments.options.scale >= 0 && arguments.options.scale <= 1, kInvalidArgument,
                 "[layers] RandomPerspective: The `scale` argument should be a number in the range "
                 "[0,1]. Received: scale=",
                 arguments.options.scale);
  }

 private:
  at::Tensor move(const at::Tensor& x) override {
    const RandomPerspectiveOptions& options = arguments_.options;
    const auto right = static_cast<double>(x.size(3) - 1);
    const auto below = static_cast<double>(x.size(2) - 1);
    const at::Tensor from =
        at::tensor({0.0, 0.0, right, 0.0, 0.0, below, right, below}, at::kDouble)
            .view({1, 4, 2})
            .to(x.options())
            .expand({x.size(0), 4, 2});
    const at::Tensor by = at::empty({x.size(0), 4, 2}, x.options())
                              .uniform_(-0.5 * options.scale, 0.5 * options.scale);
    const at::Tensor moved = keras::ops::image::perspective_transform(
        x, from, from + from * by, options.interpolation, options.fill_value, kChannelsFirst);
    return at::where(chosen(x, arguments_.factor), moved, x);
  }
};

/// A bell of `size` numbers with the sum 1. @param sigma  A scalar, drawn.
at::Tensor bell(int64_t size, const at::Tensor& sigma) {
  const at::Tensor place = at::arange(size, sigma.options()) - static_cast<double>(size - 1) / 2;
  const at::Tensor values = (-0.5 * (place / sigma).square()).exp();
  return values / values.sum();
}

/// Each channel by itself, of the same size: zeros are outside.
at::Tensor smoothed(const at::Tensor& x, const at::Tensor& column, const at::Tensor& row) {
  const int64_t channels = x.size(1), h = column.size(0), w = row.size(0);
  const at::Tensor kernel =
      (column.unsqueeze(1) * row.unsqueeze(0)).to(x.scalar_type()).expand({channels, 1, h, w});
  const at::Tensor padded =
      at::constant_pad_nd(x, {(w - 1) / 2, w - 1 - (w - 1) / 2, (h - 1) / 2, h - 1 - (h - 1) / 2});
  return at::conv2d(padded, kernel, {}, 1, at::IntArrayRef({0, 0}), 1, channels);
}

class RandomElasticTransformImpl final : public DistortionImpl<RandomElasticTransformArguments> {
 public:
  explicit RandomElasticTransformImpl(const RandomElasticTransformArguments& arguments)
      : DistortionImpl(arguments, "RandomElasticTransform") {
    arguments_.options.scale = resolved("RandomElasticTransform", arguments.options.scale, 0, 1);
  }

 private:
  at::Tensor move(const at::Tensor& x) override {
    const RandomElasticTransformOptions& options = arguments_.options;
    if (options.scale.upper == 0 || arguments_.factor.upper == 0) return x;
    const at::Tensor scale = at::empty({}, x.options().dtype(at::kFloat))
                                 .uniform_(options.scale.lower, options.scale.upper);
    const auto longer = static_cast<double>(std::max(x.size(2), x.size(3)));
    const auto shorter = static_cast<double>(std::min(x.size(2), x.size(3)));
    const at::Tensor alpha = 0.1 * scale * longer;
    const at::Tensor sigma = (0.05 * scale * shorter).clamp_min(1e-6);
    const auto window = static_cast<int64_t>(6 * 0.05 * options.scale.upper * shorter) | int64_t{1};
    const at::Tensor weights = bell(window, sigma);
    const auto noise = [&] {
      const at::Tensor drawn =
          at::empty({x.size(0), 1, x.size(2), x.size(3)}, scale.options()).normal_();
      return (alpha * smoothed(drawn * sigma, weights, weights)).flatten(1);
    };
    const at::Tensor row = at::arange(x.size(2), scale.options()).repeat_interleave(x.size(3));
    const at::Tensor column = at::arange(x.size(3), scale.options()).repeat({x.size(2)});
    const at::Tensor dx = noise(), dy = noise();
    const int64_t order = options.interpolation == Interpolation::kNearest ? 0 : 1;
    const at::Tensor moved =
        keras::detail::interpolate(
            x.to(at::kFloat), {row + dy, column + dx},
            {.order = order, .fill_mode = options.fill_mode, .fill_value = options.fill_value})
            .view(x.sizes())
            .to(x.scalar_type());
    return at::where(chosen(x, arguments_.factor), moved, x)
        .clamp(options.value_range.lower, options.value_range.upper);
  }
};

class RandomGaussianBlurImpl final : public DistortionImpl<RandomGaussianBlurArguments> {
 public:
  explicit RandomGaussianBlurImpl(const RandomGaussianBlurArguments& arguments)
      : DistortionImpl(arguments, "RandomGaussianBlur") {
    for (const int64_t size : arguments.options.kernel_size.values) {
      STRATA_CHECK(size > 0 && size % 2 == 1, kInvalidArgument,
                   "[layers] RandomGaussianBlur: kernel_size must be an odd number. Received: "
                   "kernel_size=",
                   size);
    }
    arguments_.options.sigma = resolved("RandomGaussianBlur", arguments.options.sigma, 0, 1);
  }

 private:
  at::Tensor move(const at::Tensor& x) override {
    const RandomGaussianBlurOptions& options = arguments_.options;
    const at::Tensor sigma = at::empty({2}, x.options().dtype(at::kFloat))
                                 .uniform_(options.sigma.lower, options.sigma.upper) +
                             1e-6;
    const at::Tensor blurred = smoothed(x, bell(options.kernel_size[1], sigma.select(0, 1)),
                                        bell(options.kernel_size[0], sigma.select(0, 0)));
    return at::where(chosen(x, arguments_.factor), blurred, x)
        .clamp(options.value_range.lower, options.value_range.upper);
  }
};

}  // namespace

RandomShear::RandomShear(Factor x_factor, Factor y_factor, const AffineImageOptions& options)
    : Layer(std::make_shared<RandomShearImpl>(RandomShearArguments{x_factor, y_factor, options})) {}
RandomPerspective::RandomPerspective(Factor factor, const RandomPerspectiveOptions& options)
    : Layer(std::make_shared<RandomPerspectiveImpl>(RandomPerspectiveArguments{factor, options})) {}
RandomElasticTransform::RandomElasticTransform(Factor factor,
                                               const RandomElasticTransformOptions& options)
    : Layer(std::make_shared<RandomElasticTransformImpl>(
          RandomElasticTransformArguments{factor, options})) {}
RandomGaussianBlur::RandomGaussianBlur(Factor factor, const RandomGaussianBlurOptions& options)
    : Layer(
          std::make_shared<RandomGaussianBlurImpl>(RandomGaussianBlurArguments{factor, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> distortion_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {
      STRATA_LAYER_CLASS("RandomShear", RandomShearImpl, RandomShearArguments),
      STRATA_LAYER_CLASS("RandomPerspective", RandomPerspectiveImpl, RandomPerspectiveArguments),
      STRATA_LAYER_CLASS("RandomElasticTransform", RandomElasticTransformImpl,
                         RandomElasticTransformArguments),
      STRATA_LAYER_CLASS("RandomGaussianBlur", RandomGaussianBlurImpl,
                         RandomGaussianBlurArguments)};
}

}  // namespace strata::keras
