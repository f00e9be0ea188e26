#include "strata/keras/layers/normalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>

#include "keras/call_context.h"
#include "keras/fusion.h"
#include "keras/layers/layer_axes.h"
#include "keras/layers/layer_class.h"
#include "kernels/layer_norm.h"

namespace strata::layers {
namespace {

bool is_half(const at::Tensor& x) {
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
}

/// Sums in float32 at least, as Keras.
at::Tensor widened(const at::Tensor& x) { return is_half(x) ? x.to(at::kFloat) : x; }

/// Keras writes a list once the layer is built, whatever it was given.
Axes written(const Axes& axes, bool built) {
  if (!built) return axes;
  std::vector<int64_t> values = axes.values;
  if (axes.is_list) std::sort(values.begin(), values.end());
  return Axes(std::move(values));
}

/// `shape` with all sizes but those at `axes` 1: for a weight that is at these axes.
std::vector<int64_t> broadcast_shape(at::IntArrayRef shape, const std::vector<int64_t>& axes) {
  std::vector<int64_t> sizes(shape.size(), 1);
  for (int64_t axis : axes) sizes[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
  return sizes;
}

keras::Shape sizes_at(const keras::Shape& shape, const std::vector<int64_t>& axes) {
  keras::Shape sizes;
  for (int64_t axis : axes) sizes.push_back(shape[static_cast<size_t>(axis)]);
  return sizes;
}

bool are_last(const std::vector<int64_t>& axes, int64_t rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<int64_t>(axes.size() - i)) return false;
  }
  return true;
}

// --- LayerNormalization

struct LayerNormalizationArguments {
  LayerNormalizationOptions options = {};
};

template <typename Config, typename Options>
void visit_affine(Config& config, Options& options) {
  config("epsilon", options.epsilon);
  config("center", options.center);
  config("scale", options.scale);
  config("beta_initializer", options.beta_initializer);
  config("gamma_initializer", options.gamma_initializer);
  config("beta_regularizer", options.beta_regularizer);
  config("gamma_regularizer", options.gamma_regularizer);
  config("beta_constraint", options.beta_constraint);
  config("gamma_constraint", options.gamma_constraint);
}

void visit(keras::ConfigReader& config, LayerNormalizationArguments& arguments) {
  config("axis", arguments.options.axis);
  visit_affine(config, arguments.options);
  config.only("rms_scaling", false);
}

template <typename Options>
keras::WeightOptions gamma_of(const Options& options) {
  return {.initializer = options.gamma_initializer,
          .regularizer = options.gamma_regularizer,
          .constraint = options.gamma_constraint};
}
template <typename Options>
keras::WeightOptions beta_of(const Options& options) {
  return {.initializer = options.beta_initializer,
          .regularizer = options.beta_regularizer,
          .constraint = options.beta_constraint};
}

class LayerNormalizationImpl final : public keras::UnaryLayerImpl, public keras::detail::Fusible {
 public:
  explicit LayerNormalizationImpl(const LayerNormalizationArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), options_(arguments.options) {}

  std::string_view class_name() const override { return "LayerNormalization"; }
  keras::detail::FusionRole fusion_role() const override {
    return keras::detail::FusionRole::kRowNormalization;
  }

 private:
  void describe(keras::ConfigWriter& config) const override {
    config("axis", written(options_.axis, built()));
    visit_affine(config, options_);
    config("rms_scaling", false);
  }

  void build(const keras::Shape& input) override {
    axes_ = resolve_axes(options_.axis, input, name());
    const keras::Shape shape = sizes_at(input, axes_);
    if (options_.scale) gamma_ = add_weight("gamma", shape, gamma_of(options_));
    if (options_.center) beta_ = add_weight("beta", shape, beta_of(options_));
  }

  at::Tensor call(const at::Tensor& given, const keras::Call&) override {
    keras::detail::Fusion* const fusion =
        std::exchange(keras::detail::call_context().fusion, nullptr);
    if (fusion == nullptr) return normalized(given);
    if (are_last(axes_, given.dim())) {
      if (auto own = kernels::layer_norm_of_sum(
              given, fusion->beside, gamma_ ? gamma_->value() : at::Tensor(),
              beta_ ? beta_->value() : at::Tensor(), normalized_shape(given), options_.epsilon)) {
        fusion->sum = std::move(own->sum);
        return std::move(own->y);
      }
    }
    fusion->sum = given + fusion->beside;
    return normalized(fusion->sum);
  }

  at::IntArrayRef normalized_shape(const at::Tensor& x) const {
    return x.sizes().slice(static_cast<size_t>(axes_[0]));
  }

  at::Tensor normalized(const at::Tensor& given) const {
    const at::Tensor x = widened(given);
    const at::Tensor gamma = gamma_ ? cast(*gamma_, x) : at::Tensor();
    const at::Tensor beta = beta_ ? cast(*beta_, x) : at::Tensor();
    at::Tensor y;
    if (are_last(axes_, x.dim())) {
      y = at::layer_norm(x, normalized_shape(x), gamma, beta, options_.epsilon);
    } else {
      const at::Tensor apart = x - at::mean(x, axes_, /*keepdim=*/true);
      y = apart * (at::mean(apart.square(), axes_, true) + options_.epsilon).rsqrt();
      const auto shape = broadcast_shape(x.sizes(), axes_);
      if (gamma.defined()) y = y * gamma.reshape(shape);
      if (beta.defined()) y = y + beta.reshape(shape);
    }
    return y.to(dtype().compute_dtype());
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    resolve_axes(options_.axis, input, name());
    return input;
  }
  bool supports_masking() const override { return true; }
  bool autocast() const override { return false; }

  LayerNormalizationOptions options_;
  std::vector<int64_t> axes_;
  std::optional<Variable> gamma_;
  std::optional<Variable> beta_;
};

// --- GroupNormalization

struct GroupNormalizationArguments {
  GroupNormalizationOptions options = {};
};

template <typename Config, typename Arguments>
void visit_group(Config& config, Arguments& arguments) {
  config("groups", arguments.options.groups);
  config("axis", arguments.options.axis);
  visit_affine(config, arguments.options);
}
void visit(keras::ConfigReader& config, GroupNormalizationArguments& arguments) {
  visit_group(config, arguments);
}

class GroupNormalizationImpl final : public keras::UnaryLayerImpl {
 public:
  explicit GroupNormalizationImpl(const GroupNormalizationArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    const int64_t groups = arguments.options.groups;
    STRATA_CHECK(groups > 0 || groups == -1, kInvalidArgument,
                 "[layers] GroupNormalization: Received an invalid value for argument `groups`, "
                 "expected a positive integer (or `-1` for instance normalization). Received: "
                 "groups=",
                 groups);
  }

  std::string_view class_name() const override { return "GroupNormalization"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit_group(config, arguments_); }

  void build(const keras::Shape& input) override {
    GroupNormalizationOptions& options = arguments_.options;
    axis_ = resolve_axis(options.axis, input, name());
    const int64_t channels = input[static_cast<size_t>(axis_)];
    STRATA_CHECK(channels != keras::kNone, kInvalidArgument, "[keras] Layer \"", name(),
                 "\": Axis ", options.axis,
                 " of input tensor should have a defined dimension but the layer received an input "
                 "with shape ",
                 keras::to_string(input));
    if (options.groups == -1) options.groups = channels;
    STRATA_CHECK(channels >= options.groups, kInvalidArgument, "[keras] Layer \"", name(),
                 "\": Number of groups (", options.groups,
                 ") cannot be more than the number of channels (", channels, ").");
    STRATA_CHECK(channels % options.groups == 0, kInvalidArgument, "[keras] Layer \"", name(),
                 "\": Number of groups (", options.groups,
                 ") must be a multiple of the number of channels (", channels, ").");
    if (options.scale) gamma_ = add_weight("gamma", {channels}, gamma_of(options));
    if (options.center) beta_ = add_weight("beta", {channels}, beta_of(options));
    set_input_spec(
        {{.ndim = static_cast<int64_t>(input.size()), .axes = {{options.axis, channels}}}});
  }

  at::Tensor call(const at::Tensor& given, const keras::Call&) override {
    if (given.numel() == 0) return given.to(dtype().compute_dtype());  // libtorch refuses it
    const GroupNormalizationOptions& options = arguments_.options;
    const at::Tensor x = widened(given);
    at::Tensor gamma = gamma_ ? cast(*gamma_, x) : at::Tensor();
    const at::Tensor beta = beta_ ? cast(*beta_, x) : at::Tensor();
    // libtorch 2.11 makes beta's gradient like gamma, and fails without one.
    if (beta_ && !gamma_) gamma = at::ones({x.size(axis_)}, x.options());
    const auto norm = [&](const at::Tensor& channels_second) {
      return at::group_norm(channels_second, options.groups, gamma, beta, options.epsilon);
    };
    at::Tensor y;
    if (axis_ == x.dim() - 1 && x.is_contiguous() && x.dim() > 1) {
      const int64_t rows = x.numel() / (x.size(0) * x.size(axis_));
      const at::Tensor image = x.view({x.size(0), rows, 1, x.size(axis_)}).permute({0, 3, 1, 2});
      y = norm(image).permute({0, 2, 3, 1}).reshape(x.sizes());
    } else {
      y = norm(x.movedim(axis_, 1)).movedim(1, axis_);
    }
    return y.to(dtype().compute_dtype());
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override { return input; }
  bool supports_masking() const override { return true; }
  bool autocast() const override { return false; }

  GroupNormalizationArguments arguments_;
  int64_t axis_ = 0;
  std::optional<Variable> gamma_;
  std::optional<Variable> beta_;
};

// --- RMSNormalization

struct RMSNormalizationArguments {
  RMSNormalizationOptions options = {};
};

void visit(keras::ConfigReader& config, RMSNormalizationArguments& arguments) {
  config("axis", arguments.options.axis);
  config("epsilon", arguments.options.epsilon);
}

class RMSNormalizationImpl final : public keras::UnaryLayerImpl {
 public:
  explicit RMSNormalizationImpl(const RMSNormalizationArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), options_(arguments.options) {}

  std::string_view class_name() const override { return "RMSNormalization"; }

 private:
  void describe(keras::ConfigWriter& config) const override {
    config("axis", written(options_.axis, built()));
    config("epsilon", options_.epsilon);
  }

  void build(const keras::Shape& input) override {
    axes_ = resolve_axes(options_.axis, input, name());
    const keras::Shape sizes = sizes_at(input, axes_);
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int64_t last = input[input.size() - sizes.size() + i];
      STRATA_CHECK(sizes[i] == last || sizes[i] == 1 || last == keras::kNone || last == 1,
                   kInvalidArgument, "[keras] Layer \"", name(), "\": got an input of shape ",
                   keras::to_string(input), ", and a scale of shape ", keras::to_string(sizes),
                   " for `axis`; expected the last axes, or such as are as long: scale is "
                   "multiplied along the last ones");
    }
    scale_ = add_weight("scale", sizes, {.initializer = "ones"});
  }

  at::Tensor call(const at::Tensor& given, const keras::Call&) override {
    const at::Tensor x = widened(given);
    const at::Tensor scale = cast(*scale_, x);
    if (are_last(axes_, x.dim())) {
      if (auto own = kernels::rms_norm(x, scale, options_.epsilon)) {
        return own->to(given.scalar_type());
      }
    }
    const at::Tensor y =
        x * (at::mean(x.square(), axes_, /*keepdim=*/true) + options_.epsilon).rsqrt();
    return (y * scale).to(given.scalar_type());
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    resolve_axes(options_.axis, input, name());
    return input;
  }

  RMSNormalizationOptions options_;
  std::vector<int64_t> axes_;
  std::optional<Variable> scale_;
};

// --- UnitNormalization

struct UnitNormalizationArguments {
  UnitNormalizationOptions options = {};
};

template <typename Config, typename Arguments>
void visit_unit(Config& config, Arguments& arguments) {
  config("axis", arguments.options.axis);
}
void visit(keras::ConfigReader& config, UnitNormalizationArguments& arguments) {
  visit_unit(config, arguments);
}

class UnitNormalizationImpl final : public keras::UnaryLayerImpl {
 public:
  explicit UnitNormalizationImpl(const UnitNormalizationArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {}

  std::string_view class_name() const override { return "UnitNormalization"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit_unit(config, arguments_); }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const auto axes = resolve_axes(arguments_.options.axis, x.sizes().vec(), name());
    // Not shorter than 1e-12; clamped before the root, zeros have a gradient.
    return x * x.square().sum(axes, /*keepdim=*/true).clamp_min(1e-24).rsqrt();
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    resolve_axes(arguments_.options.axis, input, name());
    return input;
  }
  bool supports_masking() const override { return true; }

  UnitNormalizationArguments arguments_;
};

}  // namespace

LayerNormalization::LayerNormalization(const LayerNormalizationOptions& options)
    : Layer(std::make_shared<LayerNormalizationImpl>(LayerNormalizationArguments{options})) {}
GroupNormalization::GroupNormalization(const GroupNormalizationOptions& options)
    : Layer(std::make_shared<GroupNormalizationImpl>(GroupNormalizationArguments{options})) {}
RMSNormalization::RMSNormalization(const RMSNormalizationOptions& options)
    : Layer(std::make_shared<RMSNormalizationImpl>(RMSNormalizationArguments{options})) {}
UnitNormalization::UnitNormalization(const UnitNormalizationOptions& options)
    : Layer(std::make_shared<UnitNormalizationImpl>(UnitNormalizationArguments{options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> normalization_layers() {
  using namespace layers;  // NOLINT
  return {
      STRATA_LAYER_CLASS("LayerNormalization", LayerNormalizationImpl, LayerNormalizationArguments),
      STRATA_LAYER_CLASS("GroupNormalization", GroupNormalizationImpl, GroupNormalizationArguments),
      STRATA_LAYER_CLASS("RMSNormalization", RMSNormalizationImpl, RMSNormalizationArguments),
      STRATA_LAYER_CLASS("UnitNormalization", UnitNormalizationImpl, UnitNormalizationArguments)};
}

}  // namespace strata::keras
