#include "keras/layers/convolve.h"
#include "keras/layers/kernel_weights.h"
#include "keras/layers/layer_class.h"
#include "strata/keras/layers/convolutional.h"

namespace strata::layers {
namespace {

template <size_t N>
struct DepthwiseArguments {
  keras::Sizes<N> kernel_size = 1;
  DepthwiseConvOptions<N> options = {};
};

template <size_t N>
struct SeparableArguments {
  int64_t filters = 0;
  keras::Sizes<N> kernel_size = 1;
  SeparableConvOptions<N> options = {};
};

template <typename Config, typename Arguments>
requires keras::OfAnyRank<Arguments, DepthwiseArguments> ||
    keras::OfAnyRank<Arguments, SeparableArguments>
void visit(Config& config, Arguments& conv) {
  auto& options = conv.options;
  constexpr bool kSeparable = requires { conv.filters; };
  config("depth_multiplier", options.depth_multiplier);
  if constexpr (kSeparable) config("filters", conv.filters);
  config("kernel_size", conv.kernel_size);
  config("strides", options.strides);
  config("padding", options.padding);
  config("data_format", options.data_format);
  config("dilation_rate", options.dilation_rate);
  config("activation", options.activation);
  config("use_bias", options.use_bias);
  config("depthwise_initializer", options.depthwise_initializer);
  config("bias_initializer", options.bias_initializer);
  config("depthwise_regularizer", options.depthwise_regularizer);
  config("bias_regularizer", options.bias_regularizer);
  config("activity_regularizer", options.activity_regularizer);
  config("depthwise_constraint", options.depthwise_constraint);
  config("bias_constraint", options.bias_constraint);
  if constexpr (kSeparable) {
    config("pointwise_initializer", options.pointwise_initializer);
    config("pointwise_regularizer", options.pointwise_regularizer);
    config("pointwise_constraint", options.pointwise_constraint);
  }
}

/// What both check.
template <typename Arguments>
void check(const std::string& name, const Arguments& arguments) {
  const auto& options = arguments.options;
  STRATA_CHECK(options.depth_multiplier > 0, kInvalidArgument, "[layers] ", name,
               ": got depth_multiplier=", options.depth_multiplier,
               "; expected a positive integer");
  check_window_options(name, arguments, /*allow_causal=*/false);
}

template <typename Arguments>
Windows windows_of(const Arguments& arguments) {
  return {arguments.kernel_size.values, arguments.options.strides.values,
          arguments.options.dilation_rate.values, arguments.options.padding};
}

/// @param x       `[batch, channels, spatial...]`, contiguous.
/// @param kernel  Keras's (spatial..., in, multiplier).
at::Tensor depthwise(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                     const Windows& windows) {
  const at::Tensor plain = plain_kernel(kernel, false);  // (in, multiplier, spatial...)
  std::vector<int64_t> shape = plain.sizes().vec();
  shape[0] *= shape[1];
  shape[1] = 1;
  return convolve(x, plain.view(shape), bias, windows, x.size(1));
}

template <size_t N>
keras::Shape depthwise_shape(const keras::Sizes<N>& kernel_size, int64_t channels,
                             int64_t multiplier) {
  keras::Shape shape(kernel_size.values.begin(), kernel_size.values.end());
  shape.push_back(channels);
  shape.push_back(multiplier);
  return shape;
}

template <size_t N, typename Options>
keras::WeightOptions depthwise_weight(const Options& options) {
  return {.initializer = options.depthwise_initializer,
          .regularizer = options.depthwise_regularizer,
          .constraint = options.depthwise_constraint,
          .memory_order = kernel_order(N, false)};
}

template <size_t N>
class DepthwiseConvImpl final : public keras::UnaryLayerImpl {
 public:
  explicit DepthwiseConvImpl(const DepthwiseArguments<N>& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check(class_name_, arguments_);
    set_input_spec({{.min_ndim = N + 2}});
  }

  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  void build(const keras::Shape& input) override {
    const DepthwiseConvOptions<N>& options = arguments_.options;
    compute_output_shape(input);
    const int64_t channels = known_channels(name(), input, options.data_format);
    kernel_ = add_weight(
        "kernel", depthwise_shape(arguments_.kernel_size, channels, options.depth_multiplier),
        depthwise_weight<N>(options));
    if (options.use_bias) {
      bias_ = add_weight("bias", {channels * options.depth_multiplier}, bias_weight(options));
    }
    set_input_spec({expect_channels(N, options.data_format, channels)});
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const DepthwiseConvOptions<N>& options = arguments_.options;
    compute_output_shape(x.sizes().vec());  // complains
    at::Tensor y = depthwise(planes(x, options.data_format), cast(*kernel_, x),
                             bias_ ? cast(*bias_, x) : at::Tensor(), windows_of(arguments_));
    y = options.activation(user_shape(y, options.data_format));
    add_activity_loss(options.activity_regularizer, y);
    return y;
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    const std::string& format = arguments_.options.data_format;
    const int64_t channels = input[static_cast<size_t>(channel_axis(input.size(), format))];
    return windowed_shape(
        name(), "kernel_size", windows_of(arguments_), input, format,
        channels == keras::kNone ? keras::kNone : channels * arguments_.options.depth_multiplier);
  }

  const std::string class_name_ = numbered("DepthwiseConv", N, "D");
  DepthwiseArguments<N> arguments_;
  std::optional<Variable> kernel_;
  std::optional<Variable> bias_;
};

template <size_t N>
class SeparableConvImpl final : public keras::UnaryLayerImpl {
 public:
  explicit SeparableConvImpl(const SeparableArguments<N>& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_filters(class_name_, arguments_.filters);
    check(class_name_, arguments_);
    set_input_spec({{.min_ndim = N + 2}});
  }

  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  void build(const keras::Shape& input) override {
    const SeparableConvOptions<N>& options = arguments_.options;
    compute_output_shape(input);
    const int64_t channels = known_channels(name(), input, options.data_format);
    depthwise_ =
        add_weight("depthwise_kernel",
                   depthwise_shape(arguments_.kernel_size, channels, options.depth_multiplier),
                   depthwise_weight<N>(options));
    pointwise_ = add_weight("pointwise_kernel",
                            depthwise_shape(keras::Sizes<N>(1), channels * options.depth_multiplier,
                                            arguments_.filters),
                            {.initializer = options.pointwise_initializer,
                             .regularizer = options.pointwise_regularizer,
                             .constraint = options.pointwise_constraint,
                             .memory_order = kernel_order(N, true)});
    if (options.use_bias) {
      bias_ = add_weight("bias", {arguments_.filters}, bias_weight(options));
    }
    set_input_spec({expect_channels(N, options.data_format, channels)});
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const SeparableConvOptions<N>& options = arguments_.options;
    compute_output_shape(x.sizes().vec());  // complains
    const at::Tensor middle =
        depthwise(planes(x, options.data_format), cast(*depthwise_, x), {}, windows_of(arguments_));
    const std::vector<int64_t> ones(N, 1), zeros(N);
    at::Tensor y =
        at::convolution(middle.contiguous(), plain_kernel(cast(*pointwise_, x), true),
                        bias_ ? cast(*bias_, x) : at::Tensor(), ones, zeros, ones, false, zeros, 1);
    y = options.activation(user_shape(y, options.data_format));
    add_activity_loss(options.activity_regularizer, y);
    return y;
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    return windowed_shape(name(), "kernel_size", windows_of(arguments_), input,
                          arguments_.options.data_format, arguments_.filters);
  }

  const std::string class_name_ = numbered("SeparableConv", N, "D");
  SeparableArguments<N> arguments_;
  std::optional<Variable> depthwise_;
  std::optional<Variable> pointwise_;
  std::optional<Variable> bias_;
};

template <size_t N>
auto make(keras::Sizes<N> kernel_size, const DepthwiseConvOptions<N>& options) {
  return std::make_shared<DepthwiseConvImpl<N>>(DepthwiseArguments<N>{kernel_size, options});
}
template <size_t N>
auto make(int64_t filters, keras::Sizes<N> kernel_size, const SeparableConvOptions<N>& options) {
  return std::make_shared<SeparableConvImpl<N>>(
      SeparableArguments<N>{filters, kernel_size, options});
}

}  // namespace

DepthwiseConv1D::DepthwiseConv1D(keras::Sizes<1> kernel_size,
                                 const DepthwiseConvOptions<1>& options)
    : Layer(make<1>(kernel_size, options)) {}
DepthwiseConv2D::DepthwiseConv2D(keras::Sizes<2> kernel_size,
                                 const DepthwiseConvOptions<2>& options)
    : Layer(make<2>(kernel_size, options)) {}
SeparableConv1D::SeparableConv1D(int64_t filters, keras::Sizes<1> kernel_size,
                                 const SeparableConvOptions<1>& options)
    : Layer(make<1>(filters, kernel_size, options)) {}
SeparableConv2D::SeparableConv2D(int64_t filters, keras::Sizes<2> kernel_size,
                                 const SeparableConvOptions<2>& options)
    : Layer(make<2>(filters, kernel_size, options)) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> depthwise_conv_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("DepthwiseConv1D", DepthwiseConvImpl<1>, DepthwiseArguments<1>),
          STRATA_LAYER_CLASS("DepthwiseConv2D", DepthwiseConvImpl<2>, DepthwiseArguments<2>),
          STRATA_LAYER_CLASS("SeparableConv1D", SeparableConvImpl<1>, SeparableArguments<1>),
          STRATA_LAYER_CLASS("SeparableConv2D", SeparableConvImpl<2>, SeparableArguments<2>)};
}

}  // namespace strata::keras
