#include "strata/keras/layers/batch_mixing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>

#include "keras/layers/image_draws.h"
#include "keras/layers/image_layout.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/random_shares.h"

namespace strata::layers {
namespace {

struct MixUpArguments {
  MixUpOptions options = {};
};
struct CutMixArguments {
  Factor factor = 1.0;
  CutMixOptions options = {};
};

template <typename Config, keras::OneOf<MixUpArguments, CutMixArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  if constexpr (requires { layer.factor; }) {
    config("factor", layer.factor);
  } else {
    config("alpha", layer.options.alpha);
  }
  config("seed", layer.options.seed);
  config("data_format", layer.options.data_format);
}

/// What both share.
template <typename Arguments>
class BatchMixingImpl : public keras::LayerImpl {
 public:
  BatchMixingImpl(const Arguments& arguments, const char* class_name)
      : LayerImpl(keras::base_options(arguments.options)),
        arguments_(arguments),
        class_name_(class_name) {
    check_data_format(class_name, arguments.options.data_format);
  }
  std::string_view class_name() const final { return class_name_; }

 protected:
  struct Mixed {
    at::Tensor images;
    at::Tensor weights;  ///< Of the image itself, `[batch]`.
  };
  /// @param x       `[batch, channels, height, width]`
  /// @param others  What each image is mixed with.
  virtual Mixed mix(const at::Tensor& x, const at::Tensor& others) = 0;

  Arguments arguments_;

 private:
  void describe(keras::ConfigWriter& config) const final { visit(config, arguments_); }
  bool autocast() const final { return false; }
  std::vector<keras::Shape> compute_output_shapes(const std::vector<keras::Shape>& inputs,
                                                  const Json&) const final {
    return inputs;
  }

  keras::Tensors call(const keras::Tensors& inputs, const keras::Call& call) final {
    const at::Tensor& images = inputs.at(0);
    STRATA_CHECK(inputs.size() <= 2 && (images.dim() == 3 || images.dim() == 4), kInvalidArgument,
                 "[keras] layer '", name(), "': got ", inputs.size(),
                 " inputs, the first of shape ", keras::to_string(images.sizes().vec()),
                 "; expected images [batch, height, width, channels], and labels if there are any");
    const at::ScalarType compute = dtype().compute_dtype();
    keras::Tensors outputs = {images.to(compute)};
    if (inputs.size() > 1) {
      STRATA_CHECK(inputs[1].dim() == 2 && inputs[1].size(0) == images.size(0) &&
                       inputs[1].is_floating_point(),
                   kInvalidArgument, "[keras] layer '", name(), "': got labels of ",
                   toString(inputs[1].scalar_type()), " and shape ",
                   keras::to_string(inputs[1].sizes().vec()),
                   "; expected floating ones [batch, classes]: one_hot makes them of numbers");
      outputs.push_back(inputs[1]);
    }
    // One image has no other.
    if (!call.training || images.dim() == 3 || images.size(0) == 0) return outputs;
    const at::Tensor x = planes_view(outputs[0], arguments_.options.data_format);
    const at::Tensor order = random_order(x.size(0), x);
    const Mixed mixed = mix(x, x.index_select(0, order));
    outputs[0] = user_shape(mixed.images, arguments_.options.data_format);
    if (outputs.size() > 1) {
      const at::Tensor& labels = outputs[1];
      const at::Tensor weights = mixed.weights.to(labels.scalar_type()).unsqueeze(1);
      outputs[1] = weights * labels + (1 - weights) * labels.index_select(0, order);
    }
    return outputs;
  }

  const char* class_name_;
};

class MixUpImpl final : public BatchMixingImpl<MixUpArguments> {
 public:
  explicit MixUpImpl(const MixUpArguments& arguments) : BatchMixingImpl(arguments, "MixUp") {
    STRATA_CHECK(arguments.options.alpha > 0, kInvalidArgument,
                 "[layers] MixUp: got alpha=", arguments.options.alpha,
                 "; expected a number above 0");
  }

 private:
  Mixed mix(const at::Tensor& x, const at::Tensor& others) override {
    const at::Tensor alpha = at::full({}, arguments_.options.alpha, x.options().dtype(at::kFloat));
    const at::Tensor weights = beta_draws({x.size(0)}, alpha);
    const at::Tensor by = weights.to(x.scalar_type()).view({-1, 1, 1, 1});
    return {by * x + (1 - by) * others, weights};
  }
};

class CutMixImpl final : public BatchMixingImpl<CutMixArguments> {
 public:
  explicit CutMixImpl(const CutMixArguments& arguments) : BatchMixingImpl(arguments, "CutMix") {
    arguments_.factor = resolved("CutMix", arguments.factor, 0, 1);
  }

 private:
  /// Places along a dimension that are in the rectangle, and its length.
  static std::pair<at::Tensor, at::Tensor> part(const at::Tensor& x, int64_t dim,
                                                const at::Tensor& ratio) {
    const auto size = static_cast<double>(x.size(dim));
    const at::Tensor length = ratio * size;
    const at::Tensor from =
        at::empty(length.sizes(), length.options()).uniform_(0, 1) * (size - length);
    std::vector<int64_t> shape(4, 1);
    shape[static_cast<size_t>(dim)] = x.size(dim);
    const at::Tensor place = at::arange(x.size(dim), length.options()).view(shape);
    return {(place >= from).logical_and(place < from + length), length};
  }

  Mixed mix(const at::Tensor& x, const at::Tensor& others) override {
    const Factor& factor = arguments_.factor;
    const at::Tensor alpha =
        at::empty({}, x.options().dtype(at::kFloat)).uniform_(factor.lower, factor.upper) + 1e-6;
    const at::Tensor ratio = (1 - beta_draws({x.size(0)}, alpha)).sqrt().view({-1, 1, 1, 1});
    const auto [columns, width] = part(x, 3, ratio);
    const auto [rows, height] = part(x, 2, ratio);
    const auto area = static_cast<double>(x.size(2) * x.size(3));
    return {at::where(columns.logical_and(rows), others, x), 1 - (width * height).flatten() / area};
  }
};

}  // namespace

MixUp::MixUp(const MixUpOptions& options)
    : Layer(std::make_shared<MixUpImpl>(MixUpArguments{options})) {}
CutMix::CutMix(Factor factor, const CutMixOptions& options)
    : Layer(std::make_shared<CutMixImpl>(CutMixArguments{factor, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> batch_mixing_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {STRATA_LAYER_CLASS("MixUp", MixUpImpl, MixUpArguments),
          STRATA_LAYER_CLASS("CutMix", CutMixImpl, CutMixArguments)};
}

}  // namespace strata::keras
