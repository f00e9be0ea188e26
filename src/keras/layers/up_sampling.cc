#include "keras/layers/image_layout.h"
#include "keras/layers/image_resize.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/windows.h"
#include "strata/keras/layers/reshaping.h"

namespace strata::layers {
namespace {

struct UpSampling1DArguments {
  int64_t size = 2;
  ReshapingOptions options = {};
};
struct UpSampling2DArguments {
  keras::Sizes<2> size = 2;
  UpSampling2DOptions options = {};
};
struct UpSampling3DArguments {
  keras::Sizes<3> size = 2;
  ImageReshapingOptions options = {};
};

template <
    typename Config,
    keras::OneOf<UpSampling1DArguments, UpSampling2DArguments, UpSampling3DArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  config("size", layer.size);
  if constexpr (requires { layer.options.data_format; }) {
    config("data_format", layer.options.data_format);
  }
  if constexpr (requires { layer.options.interpolation; }) {
    config("interpolation", layer.options.interpolation);
  }
}

class UpSampling1DImpl final : public MovingLayerImpl {
 public:
  explicit UpSampling1DImpl(const UpSampling1DArguments& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_positive("UpSampling1D", "size", arguments.size);
    set_input_spec({{.ndim = 3}});
  }
  std::string_view class_name() const override { return "UpSampling1D"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    return x.unsqueeze(2)
        .expand({x.size(0), x.size(1), arguments_.size, x.size(2)})
        .reshape({x.size(0), x.size(1) * arguments_.size, x.size(2)});
  }
  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    return {input[0], input[1] == keras::kNone ? keras::kNone : input[1] * arguments_.size,
            input[2]};
  }

  UpSampling1DArguments arguments_;
};

template <size_t N, typename Arguments>
class UpSamplingImpl final : public MovingLayerImpl {
 public:
  explicit UpSamplingImpl(const Arguments& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_positive(class_name_, "size", arguments.size.values);
    check_data_format(class_name_, arguments.options.data_format);
    if constexpr (N == 2) check_interpolation(class_name_, arguments.options.interpolation);
    set_input_spec({{.ndim = N + 2}});
  }
  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const std::string& format = arguments_.options.data_format;
    const at::Tensor input = planes(x, format);
    if constexpr (N == 2) {
      if (arguments_.options.interpolation != "nearest") {
        return user_shape(resize_images(input, input.size(2) * arguments_.size[0],
                                        input.size(3) * arguments_.size[1],
                                        arguments_.options.interpolation, false),
                          format);
      }
    }
    at::Tensor y = input;
    for (size_t i = 0; i < N; ++i) y = repeat(y, static_cast<int64_t>(i) + 2, arguments_.size[i]);
    return user_shape(y, format);
  }

  /// Each slice along `dim`, `times` times.
  static at::Tensor repeat(const at::Tensor& x, int64_t dim, int64_t times) {
    if (times == 1) return x;
    std::vector<int64_t> expanded = x.sizes().vec(), merged = expanded;
    expanded.insert(expanded.begin() + dim + 1, times);
    merged[static_cast<size_t>(dim)] *= times;
    return x.unsqueeze(dim + 1).expand(expanded).reshape(merged);
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    keras::Shape output = input;
    for (size_t i = 0; i < N; ++i) {
      int64_t& size = output[first_spatial_axis(arguments_.options.data_format) + i];
      if (size != keras::kNone) size *= arguments_.size[i];
    }
    return output;
  }

  const std::string class_name_ = "UpSampling" + std::to_string(N) + "D";
  Arguments arguments_;
};

using UpSampling2DImpl = UpSamplingImpl<2, UpSampling2DArguments>;
using UpSampling3DImpl = UpSamplingImpl<3, UpSampling3DArguments>;

}  // namespace

UpSampling1D::UpSampling1D(int64_t size, const ReshapingOptions& options)
    : Layer(std::make_shared<UpSampling1DImpl>(UpSampling1DArguments{size, options})) {}
UpSampling2D::UpSampling2D(keras::Sizes<2> size, const UpSampling2DOptions& options)
    : Layer(std::make_shared<UpSampling2DImpl>(UpSampling2DArguments{size, options})) {}
UpSampling3D::UpSampling3D(keras::Sizes<3> size, const ImageReshapingOptions& options)
    : Layer(std::make_shared<UpSampling3DImpl>(UpSampling3DArguments{size, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> up_sampling_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("UpSampling1D", UpSampling1DImpl, UpSampling1DArguments),
          STRATA_LAYER_CLASS("UpSampling2D", UpSampling2DImpl, UpSampling2DArguments),
          STRATA_LAYER_CLASS("UpSampling3D", UpSampling3DImpl, UpSampling3DArguments)};
}

}  // namespace strata::keras
