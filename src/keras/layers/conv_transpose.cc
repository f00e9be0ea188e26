#include "keras/layers/convolve.h"
#include "keras/layers/kernel_weights.h"
#include "keras/layers/layer_class.h"
#include "strata/keras/layers/convolutional.h"

namespace strata::layers {
namespace {

template <size_t N>
struct ConvTransposeArguments {
  int64_t filters = 0;
  keras::Sizes<N> kernel_size = 1;
  ConvTransposeOptions<N> options = {};
};

template <typename Config, keras::OfAnyRank<ConvTransposeArguments> Arguments>
void visit(Config& config, Arguments& conv) {
  visit_conv(config, conv);
}

template <size_t N>
class ConvTransposeImpl final : public keras::UnaryLayerImpl {
 public:
  explicit ConvTransposeImpl(const ConvTransposeArguments<N>& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    const ConvTransposeOptions<N>& options = arguments_.options;
    check_filters(class_name_, arguments_.filters);
    check_window_options(class_name_, arguments_, /*allow_causal=*/false);
    check_strides(class_name_, options.strides.values, options.dilation_rate.values);
    for (size_t i = 0; options.output_padding && i < N; ++i) {
      const int64_t padding = (*options.output_padding)[i];
      STRATA_CHECK(padding >= 0 && padding < options.strides[i], kInvalidArgument, "[layers] ",
                   class_name_,
                   ": `output_padding` must be strictly less than `strides` for all "
                   "dimensions. At dimension ",
                   i, ", `output_padding` is ", padding, " but `strides` is ", options.strides[i]);
    }
    set_input_spec({{.min_ndim = N + 2}});
  }

  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  int64_t span(size_t i) const {
    return (arguments_.kernel_size[i] - 1) * arguments_.options.dilation_rate[i] + 1;
  }
  /// All that the input reaches.
  int64_t full_size(size_t i, int64_t input) const {
    return (input - 1) * arguments_.options.strides[i] + span(i);
  }
  int64_t output_size(size_t i, int64_t input) const {
    const ConvTransposeOptions<N>& options = arguments_.options;
    const auto& extra = options.output_padding;
    if (options.padding == "valid") {
      return full_size(i, input) +
             (extra ? (*extra)[i] : std::max<int64_t>(options.strides[i] - span(i), 0));
    }
    return extra ? (input - 1) * options.strides[i] + span(i) % 2 + (*extra)[i]
                 : input * options.strides[i];
  }

  void build(const keras::Shape& input) override {
    const ConvTransposeOptions<N>& options = arguments_.options;
    compute_output_shape(input);
    const int64_t channels = known_channels(name(), input, options.data_format);
    keras::Shape shape(arguments_.kernel_size.values.begin(), arguments_.kernel_size.values.end());
    shape.push_back(arguments_.filters);
    shape.push_back(channels);
    kernel_ = add_weight("kernel", shape, kernel_weight(options, kernel_order(N, true)));
    if (options.use_bias) {
      bias_ = add_weight("bias", {arguments_.filters}, bias_weight(options));
    }
    set_input_spec({expect_channels(N, options.data_format, channels)});
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const ConvTransposeOptions<N>& options = arguments_.options;
    compute_output_shape(x.sizes().vec());  // complains
    const at::Tensor input = planes(x, options.data_format);
    // libtorch crops as much in front as behind; what Keras crops or adds beyond that is behind.
    std::vector<int64_t> crop(N), extra(N), wanted(N);
    for (size_t i = 0; i < N; ++i) {
      const int64_t size = input.size(static_cast<int64_t>(i) + 2), full = full_size(i, size);
      wanted[i] = output_size(i, size);
      if (options.padding == "same") crop[i] = std::max<int64_t>(full - wanted[i], 0) / 2;
      extra[i] = std::max<int64_t>(wanted[i] - (full - 2 * crop[i]), 0);
    }
    at::Tensor y = at::convolution(input, plain_kernel(cast(*kernel_, x), true),
                                   bias_ ? cast(*bias_, x) : at::Tensor(), options.strides.values,
                                   crop, options.dilation_rate.values, true, extra, 1);
    for (size_t i = 0; i < N; ++i) {
      const auto dim = static_cast<int64_t>(i) + 2;
      if (y.size(dim) > wanted[i]) y = y.narrow(dim, 0, wanted[i]);
    }
    y = options.activation(user_shape(y, options.data_format));
    add_activity_loss(options.activity_regularizer, y);
    return y;
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    const std::string& format = arguments_.options.data_format;
    STRATA_CHECK(input.size() == N + 2, kInvalidArgument, "[keras] layer '", name(),
                 "': got input of shape ", keras::to_string(input), "; expected ", N + 2,
                 " dimensions");
    keras::Shape output = input;
    output[static_cast<size_t>(channel_axis(input.size(), format))] = arguments_.filters;
    for (size_t i = 0; i < N; ++i) {
      int64_t& size = output[first_spatial_axis(format) + i];
      if (size == keras::kNone) continue;
      size = output_size(i, size);
      STRATA_CHECK(size > 0, kInvalidArgument, "[keras] layer '", name(),
                   "': Computed output size would be zero or negative. Received: inputs.shape=",
                   keras::to_string(input));
    }
    return output;
  }

  const std::string class_name_ = numbered("Conv", N, "DTranspose");
  ConvTransposeArguments<N> arguments_;
  std::optional<Variable> kernel_;
  std::optional<Variable> bias_;
};

template <size_t N>
auto make(int64_t filters, keras::Sizes<N> kernel_size, const ConvTransposeOptions<N>& options) {
  return std::make_shared<ConvTransposeImpl<N>>(
      ConvTransposeArguments<N>{filters, kernel_size, options});
}

}  // namespace

Conv1DTranspose::Conv1DTranspose(int64_t filters, keras::Sizes<1> kernel_size,
                                 const ConvTransposeOptions<1>& options)
    : Layer(make<1>(filters, kernel_size, options)) {}
Conv2DTranspose::Conv2DTranspose(int64_t filters, keras::Sizes<2> kernel_size,
                                 const ConvTransposeOptions<2>& options)
    : Layer(make<2>(filters, kernel_size, options)) {}
Conv3DTranspose::Conv3DTranspose(int64_t filters, keras::Sizes<3> kernel_size,
                                 const ConvTransposeOptions<3>& options)
    : Layer(make<3>(filters, kernel_size, options)) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> conv_transpose_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Conv1DTranspose", ConvTransposeImpl<1>, ConvTransposeArguments<1>),
          STRATA_LAYER_CLASS("Conv2DTranspose", ConvTransposeImpl<2>, ConvTransposeArguments<2>),
          STRATA_LAYER_CLASS("Conv3DTranspose", ConvTransposeImpl<3>, ConvTransposeArguments<3>)};
}

}  // namespace strata::keras
