#include "strata/keras/layers/regularization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <array>
#include <cmath>

#include "keras/layers/elementwise.h"
#include "keras/layers/image_layout.h"
#include "keras/layers/layer_class.h"

namespace strata::layers {
namespace {

struct DropoutArguments {
  double rate = 0;
  DropoutOptions options = {};
};
struct GaussianDropoutArguments {
  double rate = 0;
  NoiseOptions options = {};
};
struct SpatialDropout1DArguments {
  double rate = 0;
  NoiseOptions options = {};
};
struct SpatialDropoutArguments {
  double rate = 0;
  SpatialDropoutOptions options = {};
};
struct GaussianNoiseArguments {
  double stddev = 0;
  NoiseOptions options = {};
};
struct ActivityRegularizationArguments {
  ActivityRegularizationOptions options = {};
};

template <typename Config, keras::OneOf<DropoutArguments, GaussianDropoutArguments,
                                        SpatialDropout1DArguments, SpatialDropoutArguments,
                                        GaussianNoiseArguments, ActivityRegularizationArguments>
                               Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  if constexpr (requires { layer.rate; }) config("rate", layer.rate);
  if constexpr (requires { layer.stddev; }) config("stddev", layer.stddev);
  if constexpr (requires { options.noise_shape; }) config("noise_shape", options.noise_shape);
  if constexpr (requires { options.seed; }) config("seed", options.seed);
  if constexpr (requires { options.data_format; }) config("data_format", options.data_format);
  if constexpr (requires { options.l1; }) {
    config("l1", options.l1);
    config("l2", options.l2);
  }
}

void check_rate(std::string_view class_name, const char* option, double rate, bool below_one) {
  STRATA_CHECK(rate >= 0 && (below_one ? rate < 1 : rate <= 1), kInvalidArgument, "[layers] ",
               class_name, ": got ", option, "=", rate,
               below_one ? "; expected a number from 0 to less than 1"
                         : "; expected a number between 0 and 1");
}

using MaybeShape = std::optional<std::vector<std::optional<int64_t>>>;

void check_noise_shape(std::string_view class_name, const MaybeShape& shape) {
  for (const auto& size : shape.value_or(MaybeShape::value_type{})) {
    STRATA_CHECK(!size || *size > 0, kInvalidArgument, "[layers] ", class_name, ": got a size of ",
                 *size,
                 " in noise_shape; expected positive integers, or nullopt for the input's size");
  }
}

/// True or false for what is kept, in x's dtype.
at::Tensor kept(const at::Tensor& x, const std::string& layer, const MaybeShape& noise_shape,
                double rate) {
  if (!noise_shape) return at::empty_like(x).bernoulli_(1 - rate);
  STRATA_CHECK(noise_shape->size() == static_cast<size_t>(x.dim()), kInvalidArgument,
               "[keras] layer '", layer, "': got noise_shape with ", noise_shape->size(),
               " sizes for input of shape ", keras::to_string(x.sizes().vec()));
  std::vector<int64_t> shape;
  for (size_t i = 0; i < noise_shape->size(); ++i) {
    shape.push_back((*noise_shape)[i].value_or(x.size(static_cast<int64_t>(i))));
  }
  return at::empty(shape, x.options()).bernoulli_(1 - rate);
}

at::Tensor drop(const at::Tensor& x, at::Tensor kept, double rate) {
  return x * (rate < 1 ? kept.div_(1 - rate) : kept);
}

class DropoutImpl final : public ElementwiseImpl {
 public:
  explicit DropoutImpl(const DropoutArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_rate("Dropout", "rate", arguments.rate, false);
    check_noise_shape("Dropout", arguments.options.noise_shape);
  }
  std::string_view class_name() const override { return "Dropout"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call& call) override {
    if (!call.training || arguments_.rate == 0) return x;
    const MaybeShape& shape = arguments_.options.noise_shape;
    if (!shape) return at::dropout(x, arguments_.rate, true);
    return drop(x, kept(x, name(), shape, arguments_.rate), arguments_.rate);
  }

  DropoutArguments arguments_;
};

template <size_t N, typename Arguments>
class SpatialDropoutImpl final : public ElementwiseImpl {
 public:
  explicit SpatialDropoutImpl(const Arguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_rate(class_name_, "rate", arguments.rate, false);
    if constexpr (N > 1) check_data_format(class_name_, arguments.options.data_format);
    set_input_spec({{.ndim = N + 2}});
  }
  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  bool writes_trainable() const override { return false; }

  at::Tensor call(const at::Tensor& x, const keras::Call& call) override {
    if (!call.training || arguments_.rate == 0) return x;
    size_t first = 1;
    if constexpr (N > 1) first = first_spatial_axis(arguments_.options.data_format);
    std::vector<int64_t> shape = x.sizes().vec();
    for (size_t i = 0; i < N; ++i) shape[first + i] = 1;
    return drop(x, at::empty(shape, x.options()).bernoulli_(1 - arguments_.rate), arguments_.rate);
  }

  const std::string class_name_ = "SpatialDropout" + std::to_string(N) + "D";
  Arguments arguments_;
};
using SpatialDropout1DImpl = SpatialDropoutImpl<1, SpatialDropout1DArguments>;
using SpatialDropout2DImpl = SpatialDropoutImpl<2, SpatialDropoutArguments>;
using SpatialDropout3DImpl = SpatialDropoutImpl<3, SpatialDropoutArguments>;

class GaussianDropoutImpl final : public ElementwiseImpl {
 public:
  explicit GaussianDropoutImpl(const GaussianDropoutArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_rate("GaussianDropout", "rate", arguments.rate, true);
  }
  std::string_view class_name() const override { return "GaussianDropout"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call& call) override {
    if (!call.training || arguments_.rate == 0) return x;
    const double stddev = std::sqrt(arguments_.rate / (1 - arguments_.rate));
    return x * at::empty_like(x).normal_(1, stddev);
  }

  GaussianDropoutArguments arguments_;
};

class GaussianNoiseImpl final : public ElementwiseImpl {
 public:
  explicit GaussianNoiseImpl(const GaussianNoiseArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_rate("GaussianNoise", "stddev", arguments.stddev, false);
  }
  std::string_view class_name() const override { return "GaussianNoise"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call& call) override {
    if (!call.training || arguments_.stddev == 0) return x;
    return x + at::empty_like(x).normal_(0, arguments_.stddev);
  }

  GaussianNoiseArguments arguments_;
};

class AlphaDropoutImpl final : public ElementwiseImpl {
 public:
  explicit AlphaDropoutImpl(const DropoutArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_rate("AlphaDropout", "rate", arguments.rate, true);
    check_noise_shape("AlphaDropout", arguments.options.noise_shape);
  }
  std::string_view class_name() const override { return "AlphaDropout"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call& call) override {
    const double rate = arguments_.rate;
    if (!call.training || rate == 0) return x;
    constexpr double kLowest = -1.6732632423543772 * 1.0507009873554805;  // selu's
    const double a = 1 / std::sqrt((1 - rate) * (1 + rate * kLowest * kLowest));
    const double b = -a * kLowest * rate;
    const at::Tensor mask = kept(x, name(), arguments_.options.noise_shape, rate);
    return (x * mask + (1 - mask) * kLowest) * a + b;
  }

  DropoutArguments arguments_;
};

class ActivityRegularizationImpl final : public ElementwiseImpl {
 public:
  explicit ActivityRegularizationImpl(const ActivityRegularizationArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)),
        arguments_(arguments),
        regularizer_(regularizers::L1L2({.l1 = arguments.options.l1, .l2 = arguments.options.l2})) {
  }
  std::string_view class_name() const override { return "ActivityRegularization"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    add_activity_loss(regularizer_, x);
    return x;
  }

  ActivityRegularizationArguments arguments_;
  regularizers::Regularizer regularizer_;
};

}  // namespace

Dropout::Dropout(double rate, const DropoutOptions& options)
    : Layer(std::make_shared<DropoutImpl>(DropoutArguments{rate, options})) {}
SpatialDropout1D::SpatialDropout1D(double rate, const NoiseOptions& options)
    : Layer(std::make_shared<SpatialDropout1DImpl>(SpatialDropout1DArguments{rate, options})) {}
SpatialDropout2D::SpatialDropout2D(double rate, const SpatialDropoutOptions& options)
    : Layer(std::make_shared<SpatialDropout2DImpl>(SpatialDropoutArguments{rate, options})) {}
SpatialDropout3D::SpatialDropout3D(double rate, const SpatialDropoutOptions& options)
    : Layer(std::make_shared<SpatialDropout3DImpl>(SpatialDropoutArguments{rate, options})) {}
GaussianDropout::GaussianDropout(double rate, const NoiseOptions& options)
    : Layer(std::make_shared<GaussianDropoutImpl>(GaussianDropoutArguments{rate, options})) {}
GaussianNoise::GaussianNoise(double stddev, const NoiseOptions& options)
    : Layer(std::make_shared<GaussianNoiseImpl>(GaussianNoiseArguments{stddev, options})) {}
AlphaDropout::AlphaDropout(double rate, const DropoutOptions& options)
    : Layer(std::make_shared<AlphaDropoutImpl>(DropoutArguments{rate, options})) {}
ActivityRegularization::ActivityRegularization(const ActivityRegularizationOptions& options)
    : Layer(
          std::make_shared<ActivityRegularizationImpl>(ActivityRegularizationArguments{options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> regularization_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Dropout", DropoutImpl, DropoutArguments),
          STRATA_LAYER_CLASS("SpatialDropout1D", SpatialDropout1DImpl, SpatialDropout1DArguments),
          STRATA_LAYER_CLASS("SpatialDropout2D", SpatialDropout2DImpl, SpatialDropoutArguments),
          STRATA_LAYER_CLASS("SpatialDropout3D", SpatialDropout3DImpl, SpatialDropoutArguments),
          STRATA_LAYER_CLASS("GaussianDropout", GaussianDropoutImpl, GaussianDropoutArguments),
          STRATA_LAYER_CLASS("GaussianNoise", GaussianNoiseImpl, GaussianNoiseArguments),
          STRATA_LAYER_CLASS("AlphaDropout", AlphaDropoutImpl, DropoutArguments),
          STRATA_LAYER_CLASS("ActivityRegularization", ActivityRegularizationImpl,
                             ActivityRegularizationArguments)};
}

}  // namespace strata::keras
