#include "strata/keras/layers/convolutional.h"

#include <ATen/ops/relu.h>

#include "keras/layers/convolve.h"
#include "keras/layers/kernel_weights.h"
#include "keras/layers/layer_class.h"

namespace strata::layers {
namespace {

template <size_t N>
struct ConvArguments {
  int64_t filters = 0;
  keras::Sizes<N> kernel_size = 1;
  ConvOptions<N> options = {};
};

template <typename Config, keras::OfAnyRank<ConvArguments> Arguments>
void visit(Config& config, Arguments& conv) {
  visit_conv(config, conv);
}

template <size_t N>
class ConvImpl final : public keras::UnaryLayerImpl {
 public:
  explicit ConvImpl(const ConvArguments<N>& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    const ConvOptions<N>& options = arguments_.options;
    const std::string& name = class_name_;
    check_filters(name, arguments_.filters);
    check_window_options(name, arguments_, /*allow_causal=*/N == 1);
    check_strides(name, options.strides.values, options.dilation_rate.values);
    STRATA_CHECK(options.groups > 0 && arguments_.filters % options.groups == 0, kInvalidArgument,
                 "[layers] ", name, ": got groups=", options.groups,
                 ", filters=", arguments_.filters,
                 "; expected a positive number of groups that divides the filters");
    set_input_spec({{.min_ndim = N + 2}});
  }

  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  Windows windows() const {
    return {arguments_.kernel_size.values, arguments_.options.strides.values,
            arguments_.options.dilation_rate.values, arguments_.options.padding};
  }

  void build(const keras::Shape& input) override {
    const ConvOptions<N>& options = arguments_.options;
    compute_output_shape(input);
    const int64_t channels = known_channels(name(), input, options.data_format);
    STRATA_CHECK(channels % options.groups == 0, kInvalidArgument, "[keras] layer '", name(),
                 "': The number of input channels must be evenly divisible by the number of "
                 "groups. Received groups=",
                 options.groups, ", but the input has ", channels,
                 " channels (full input shape is ", keras::to_string(input), ")");
    keras::Shape shape(arguments_.kernel_size.values.begin(), arguments_.kernel_size.values.end());
    shape.push_back(channels / options.groups);
    shape.push_back(arguments_.filters);
    kernel_ = add_weight("kernel", shape, kernel_weight(options, kernel_order(N, true)));
    if (options.use_bias) {
      bias_ = add_weight("bias", {arguments_.filters}, bias_weight(options));
    }
    set_input_spec({expect_channels(N, options.data_format, channels)});
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const ConvOptions<N>& options = arguments_.options;
    compute_output_shape(x.sizes().vec());  // complains
    const at::Tensor kernel = plain_kernel(cast(*kernel_, x), true);
    const at::Tensor bias = bias_ ? cast(*bias_, x) : at::Tensor();
    at::Tensor y =
        convolve(planes(x, options.data_format), kernel, bias, windows(), options.groups);
    if (relu_) {
      at::relu_(y);  // it has no other owner
      y = user_shape(y, options.data_format);
    } else {
      y = options.activation(user_shape(y, options.data_format));
    }
    add_activity_loss(options.activity_regularizer, y);
    return y;
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    return windowed_shape(name(), "kernel_size", windows(), input, arguments_.options.data_format,
                          arguments_.filters);
  }

  const std::string class_name_ = numbered("Conv", N, "D");
  ConvArguments<N> arguments_;
  const bool relu_ = arguments_.options.activation.name() == "relu";
  std::optional<Variable> kernel_;
  std::optional<Variable> bias_;
};

template <size_t N>
std::shared_ptr<ConvImpl<N>> make_conv(int64_t filters, keras::Sizes<N> kernel_size,
                                       const ConvOptions<N>& options) {
  return std::make_shared<ConvImpl<N>>(ConvArguments<N>{filters, kernel_size, options});
}

}  // namespace

Conv1D::Conv1D(int64_t filters, keras::Sizes<1> kernel_size, const ConvOptions<1>& options)
    : Layer(make_conv<1>(filters, kernel_size, options)) {}
Conv2D::Conv2D(int64_t filters, keras::Sizes<2> kernel_size, const ConvOptions<2>& options)
    : Layer(make_conv<2>(filters, kernel_size, options)) {}
Conv3D::Conv3D(int64_t filters, keras::Sizes<3> kernel_size, const ConvOptions<3>& options)
    : Layer(make_conv<3>(filters, kernel_size, options)) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> convolutional_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Conv1D", ConvImpl<1>, ConvArguments<1>),
          STRATA_LAYER_CLASS("Conv2D", ConvImpl<2>, ConvArguments<2>),
          STRATA_LAYER_CLASS("Conv3D", ConvImpl<3>, ConvArguments<3>)};
}

}  // namespace strata::keras
