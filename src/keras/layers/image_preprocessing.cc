#include "strata/keras/layers/image_preprocessing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>
#include <limits>

#include "keras/layers/image_crop.h"
#include "keras/layers/image_layer.h"
#include "keras/layers/image_resize.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/windows.h"

namespace strata::layers {
namespace {

struct ResizingArguments {
  int64_t height = 1;
  int64_t width = 1;
  ResizingOptions options = {};
};
struct CenterCropArguments {
  int64_t height = 1;
  int64_t width = 1;
  ImageOptions options = {};
};

template <typename Config, keras::OneOf<ResizingArguments, CenterCropArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  config("height", layer.height);
  config("width", layer.width);
  config("data_format", options.data_format);
  if constexpr (requires { options.interpolation; }) {
    config("interpolation", options.interpolation);
    config("crop_to_aspect_ratio", options.crop_to_aspect_ratio);
    config("pad_to_aspect_ratio", options.pad_to_aspect_ratio);
    config("fill_mode", options.fill_mode);
    config("fill_value", options.fill_value);
    config("antialias", options.antialias);
  }
}

/// Rounds and cuts to the range of `dtype`.
at::Tensor saturate(const at::Tensor& x, at::ScalarType dtype) {
  const at::Tensor rounded = x.round();
  switch (dtype) {
    case at::kByte:
      return rounded.clamp(0, 255).to(dtype);
    case at::kChar:
      return rounded.clamp(-128, 127).to(dtype);
    case at::kShort:
      return rounded.clamp(-32768, 32767).to(dtype);
    default:
      return rounded.to(dtype);
  }
}

class ResizingImpl final : public ImageLayerImpl {
 public:
  explicit ResizingImpl(const ResizingArguments& arguments)
      : ImageLayerImpl(keras::base_options(arguments.options), "Resizing",
                       arguments.options.data_format),
        arguments_(arguments) {
    const ResizingOptions& options = arguments.options;
    check_positive("Resizing", "(height, width)", {arguments.height, arguments.width});
    check_interpolation("Resizing", options.interpolation);
    STRATA_CHECK(options.fill_mode == "constant", kInvalidArgument,
                 "[layers] Resizing: got fill_mode='", options.fill_mode,
                 "'; only 'constant' is supported");
    STRATA_CHECK(!options.crop_to_aspect_ratio || !options.pad_to_aspect_ratio, kInvalidArgument,
                 "[layers] Resizing: Only one of `pad_to_aspect_ratio` & `crop_to_aspect_ratio` "
                 "can be true");
  }
  std::string_view class_name() const override { return "Resizing"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  std::pair<int64_t, int64_t> new_size() const override {
    return {arguments_.height, arguments_.width};
  }
  std::vector<at::ScalarType> compute_output_dtypes(
      const std::vector<at::ScalarType>& inputs) const override {
    return {at::isFloatingType(inputs.at(0)) ? dtype().compute_dtype() : inputs[0]};
  }

  at::Tensor transform(const at::Tensor& x, bool) override {
    const ResizingOptions& options = arguments_.options;
    const int64_t height = arguments_.height, width = arguments_.width;
    const bool whole = !x.is_floating_point();
    at::Tensor y = (whole ? x.to(at::kFloat) : x);
    if (options.crop_to_aspect_ratio) y = crop_to_aspect_ratio(y, height, width);
    if (options.pad_to_aspect_ratio) y = pad_to_aspect_ratio(y, options.fill_value);
    y = resize_images(planes(y, kChannelsFirst), height, width, options.interpolation,
                      options.antialias);
    return whole ? saturate(y, x.scalar_type()) : y;
  }

  at::Tensor pad_to_aspect_ratio(const at::Tensor& x, double value) const {
    const auto missing = [](int64_t size, int64_t other, int64_t target, int64_t other_target) {
      const auto wanted = static_cast<int64_t>(static_cast<float>(other * target) /
                                               static_cast<float>(other_target));
      return (std::max(size, wanted) - size) / 2;
    };
    const int64_t rows = missing(x.size(2), x.size(3), arguments_.height, arguments_.width);
    const int64_t columns = missing(x.size(3), x.size(2), arguments_.width, arguments_.height);
    if (rows == 0 && columns == 0) return x;
    return at::constant_pad_nd(x, {columns, columns, rows, rows}, value);
  }

  ResizingArguments arguments_;
};

class CenterCropImpl final : public ImageLayerImpl {
 public:
  explicit CenterCropImpl(const CenterCropArguments& arguments)
      : ImageLayerImpl(keras::base_options(arguments.options), "CenterCrop",
                       arguments.options.data_format),
        arguments_(arguments) {
    check_positive("CenterCrop", "(height, width)", {arguments.height, arguments.width});
  }
  std::string_view class_name() const override { return "CenterCrop"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  std::pair<int64_t, int64_t> new_size() const override {
    return {arguments_.height, arguments_.width};
  }

  at::Tensor transform(const at::Tensor& x, bool) override {
    const int64_t height = arguments_.height, width = arguments_.width;
    const at::Tensor y = x.to(dtype().compute_dtype());
    if (y.size(2) < height || y.size(3) < width) return smart_resize(y, height, width);
    return y.narrow(2, (y.size(2) - height) / 2, height).narrow(3, (y.size(3) - width) / 2, width);
  }

  CenterCropArguments arguments_;
};

}  // namespace

at::Tensor crop_to_aspect_ratio(const at::Tensor& x, int64_t height, int64_t width) {
  const auto fitting = [](int64_t size, int64_t other, int64_t target, int64_t other_target) {
    const auto wanted = static_cast<int64_t>(static_cast<double>(other * target) /
                                             static_cast<double>(other_target));
    return std::max<int64_t>(std::min(size, wanted), 1);
  };
  const int64_t rows = fitting(x.size(2), x.size(3), height, width);
  const int64_t columns = fitting(x.size(3), x.size(2), width, height);
  return x.narrow(2, (x.size(2) - rows) / 2, rows).narrow(3, (x.size(3) - columns) / 2, columns);
}

at::Tensor smart_resize(const at::Tensor& x, int64_t height, int64_t width) {
  return resize_images(planes(crop_to_aspect_ratio(x, height, width), kChannelsFirst), height,
                       width, "bilinear", false);
}

Resizing::Resizing(int64_t height, int64_t width, const ResizingOptions& options)
    : Layer(std::make_shared<ResizingImpl>(ResizingArguments{height, width, options})) {}
CenterCrop::CenterCrop(int64_t height, int64_t width, const ImageOptions& options)
    : Layer(std::make_shared<CenterCropImpl>(CenterCropArguments{height, width, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> image_preprocessing_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Resizing", ResizingImpl, ResizingArguments),
          STRATA_LAYER_CLASS("CenterCrop", CenterCropImpl, CenterCropArguments)};
}

}  // namespace strata::keras
