#include "strata/keras/layers/augmentation_policies.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/host_call.h"
#include "keras/layers/image_draws.h"
#include "keras/layers/image_layer.h"
#include "keras/layers/image_resize.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/random_shares.h"
#include "strata/keras/layers/color_augmentation.h"
#include "strata/keras/layers/histogram_equalization.h"
#include "strata/keras/layers/image_augmentation.h"

namespace strata::layers {
namespace {

struct RandomColorJitterArguments {
  RandomColorJitterOptions options = {};
};
struct RandAugmentArguments {
  RandAugmentOptions options = {};
};
struct AugMixArguments {
  AugMixOptions options = {};
};

template <typename Config,
          keras::OneOf<RandomColorJitterArguments, RandAugmentArguments, AugMixArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  config("value_range", options.value_range);
  if constexpr (requires { options.brightness_factor; }) {
    config("brightness_factor", options.brightness_factor);
    config("contrast_factor", options.contrast_factor);
    config("saturation_factor", options.saturation_factor);
    config("hue_factor", options.hue_factor);
  } else {
    if constexpr (requires { options.num_ops; }) {
      config("num_ops", options.num_ops);
    } else {
      config("num_chains", options.num_chains);
      config("chain_depth", options.chain_depth);
      config("alpha", options.alpha);
      config("all_ops", options.all_ops);
    }
    config("factor", options.factor);
    config("interpolation", options.interpolation);
  }
  config("seed", options.seed);
  config("data_format", options.data_format);
}

/// In training, as a layer of the caller's own.
at::Tensor changed(const keras::Layer& layer, const at::Tensor& x) {
  return layer.call({x}, {.training = true}).at(0);
}

/// What all of them share. `change` sees `[batch, channels, height, width]` in the dtype of the
/// arithmetic.
template <typename Arguments>
class PolicyImpl : public ImageLayerImpl {
 public:
  PolicyImpl(const Arguments& arguments, const char* class_name)
      : ImageLayerImpl(keras::base_options(arguments.options), class_name,
                       arguments.options.data_format),
        arguments_(arguments),
        class_name_(class_name) {
    if constexpr (requires { arguments_.options.factor; }) {
      arguments_.options.factor = resolved(class_name, arguments.options.factor, 0, 1);
      check_nearest_or_bilinear(class_name, arguments.options.interpolation);
    }
  }
  std::string_view class_name() const final { return class_name_; }

 protected:
  virtual at::Tensor change(const at::Tensor& x) = 0;

  Arguments arguments_;
  std::vector<keras::Layer> changes_;  ///< Of images with channels first.

 private:
  void describe(keras::ConfigWriter& config) const final { visit(config, arguments_); }
  void build(const keras::Shape& input) final {
    keras::Shape images = input;
    if (images.size() == 3) images.insert(images.begin(), 1);
    if (arguments_.options.data_format != kChannelsFirst) {
      images = {images.at(0), images.at(3), images.at(1), images.at(2)};
    }
    for (const keras::Layer& layer : changes_) layer->ensure_built({images});
  }
  at::Tensor transform(const at::Tensor& x, bool training) final {
    const at::Tensor y = x.to(dtype().compute_dtype());
    return !training || y.numel() == 0 ? y : change(y).to(y.scalar_type());
  }

  const char* class_name_;
};

class RandomColorJitterImpl final : public PolicyImpl<RandomColorJitterArguments> {
 public:
  explicit RandomColorJitterImpl(const RandomColorJitterArguments& arguments)
      : PolicyImpl(arguments, "RandomColorJitter") {
    const RandomColorJitterOptions& options = arguments.options;
    const RandomColorOptions inner = {
        .value_range = options.value_range, .data_format = kChannelsFirst, .dtype = options.dtype};
    if (options.brightness_factor) {
      changes_.push_back(RandomBrightness(*options.brightness_factor, inner));
    }
    if (options.contrast_factor)
      changes_.push_back(RandomContrast(*options.contrast_factor, inner));
    if (options.saturation_factor) {
      changes_.push_back(RandomSaturation(*options.saturation_factor, inner));
    }
    if (options.hue_factor) changes_.push_back(RandomHue(*options.hue_factor, inner));
  }

 private:
  at::Tensor change(const at::Tensor& x) override {
    at::Tensor y = x;
    for (const keras::Layer& layer : changes_) y = changed(layer, y);
    return y;
  }
};

/// The changes that RandAugment and AugMix choose among.
template <typename Options>
std::vector<keras::Layer> changes_of(const Options& options, bool with_colors) {
  const Factor& factor = options.factor;
  const AffineImageOptions affine = {.interpolation = options.interpolation,
                                     .data_format = kChannelsFirst,
                                     .dtype = options.dtype};
  const RandomColorOptions color = {
      .value_range = options.value_range, .data_format = kChannelsFirst, .dtype = options.dtype};
  const double bits = std::max(1.0, std::trunc(8 * factor.upper));
  std::vector<keras::Layer> changes = {RandomShear(factor, factor, affine),
                                       RandomTranslation(factor, factor, affine),
                                       RandomRotation(factor, affine),
                                       RandomPosterization(bits, color),
                                       Solarization(factor, factor, color),
                                       AutoContrast({.value_range = options.value_range,
                                                     .data_format = kChannelsFirst,
                                                     .dtype = options.dtype}),
                                       Equalization({.value_range = options.value_range,
                                                     .data_format = kChannelsFirst,
                                                     .dtype = options.dtype})};
  if (with_colors) {
    changes.push_back(RandomBrightness(factor, color));
    changes.push_back(RandomColorDegeneration(factor, color));
    changes.push_back(RandomContrast(factor, color));
    changes.push_back(RandomSharpness(factor, color));
  }
  return changes;
}

/// By one of the changes, or, where there are more `choices` than changes, perhaps by none.
at::Tensor changed_by_one(const std::vector<keras::Layer>& changes, size_t choices,
                          const at::Tensor& x) {
  const at::Tensor choice = at::empty({}, x.options().dtype(at::kFloat))
                                .uniform_(0, static_cast<double>(choices))
                                .floor();
  if (x.is_cpu() && !graph::tracing()) {
    const auto chosen = static_cast<size_t>(choice.item<float>());
    return chosen < changes.size() ? changed(changes[chosen], x) : x;
  }
  at::Tensor y = x;
  for (size_t i = 0; i < changes.size(); ++i) {
    y = at::where(choice == static_cast<double>(i), changed(changes[i], x), y);
  }
  return y;
}

class RandAugmentImpl final : public PolicyImpl<RandAugmentArguments> {
 public:
  explicit RandAugmentImpl(const RandAugmentArguments& arguments)
      : PolicyImpl(arguments, "RandAugment") {
    changes_ = changes_of(arguments_.options, /*with_colors=*/true);
    STRATA_CHECK(arguments.options.num_ops >= 0, kInvalidArgument,
                 "[layers] RandAugment: got num_ops=", arguments.options.num_ops,
                 "; expected 0 or more");
  }

 private:
  at::Tensor change(const at::Tensor& x) override {
    at::Tensor y = x;
    for (int64_t i = 0; i < arguments_.options.num_ops; ++i) {
      y = changed_by_one(changes_, changes_.size(), y);
    }
    return y;
  }
};

class AugMixImpl final : public PolicyImpl<AugMixArguments> {
 public:
  explicit AugMixImpl(const AugMixArguments& arguments) : PolicyImpl(arguments, "AugMix") {
    changes_ = changes_of(arguments_.options, arguments.options.all_ops);
    const AugMixOptions& options = arguments.options;
    STRATA_CHECK(options.num_chains >= 1 && options.chain_depth >= 0, kInvalidArgument,
                 "[layers] AugMix: got num_chains=", options.num_chains,
                 ", chain_depth=", options.chain_depth, "; expected 1 or more, and 0 or more");
    STRATA_CHECK(options.alpha > 0, kInvalidArgument, "[layers] AugMix: got alpha=", options.alpha,
                 "; expected a number above 0");
  }

 private:
  at::Tensor change(const at::Tensor& x) override {
    const AugMixOptions& options = arguments_.options;
    const at::Tensor alpha = at::full({}, options.alpha, x.options().dtype(at::kFloat));
    // Gamma distributed shares of one are Dirichlet's.
    const at::Tensor shares =
        log_gamma_draws({options.num_chains}, alpha).softmax(0).to(x.scalar_type());
    at::Tensor mixed = at::zeros_like(x);
    for (int64_t chain = 0; chain < options.num_chains; ++chain) {
      at::Tensor y = x;
      for (int64_t i = 0; i < options.chain_depth; ++i) {
        y = changed_by_one(changes_, changes_.size() + 1, y);
      }
      mixed = mixed + y * shares[chain];
    }
    const at::Tensor own = beta_draws({}, alpha).to(x.scalar_type());
    return (own * x + (1 - own) * mixed)
        .clamp(options.value_range.lower, options.value_range.upper);
  }
};

}  // namespace

RandomColorJitter::RandomColorJitter(const RandomColorJitterOptions& options)
    : Layer(std::make_shared<RandomColorJitterImpl>(RandomColorJitterArguments{options})) {}
RandAugment::RandAugment(const RandAugmentOptions& options)
    : Layer(std::make_shared<RandAugmentImpl>(RandAugmentArguments{options})) {}
AugMix::AugMix(const AugMixOptions& options)
    : Layer(std::make_shared<AugMixImpl>(AugMixArguments{options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> augmentation_policy_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {
      STRATA_LAYER_CLASS("RandomColorJitter", RandomColorJitterImpl, RandomColorJitterArguments),
      STRATA_LAYER_CLASS("RandAugment", RandAugmentImpl, RandAugmentArguments),
      STRATA_LAYER_CLASS("AugMix", AugMixImpl, AugMixArguments)};
}

}  // namespace strata::keras
