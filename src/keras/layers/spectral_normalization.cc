#include "strata/keras/layers/spectral_normalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "keras/layers/layer_class.h"
#include "strata/keras/layer_registry.h"

namespace strata::layers {
namespace {

struct SpectralNormalizationArguments {
  std::optional<keras::Layer> layer = {};
  SpectralNormalizationOptions options = {};
};
void visit(keras::ConfigReader& config, SpectralNormalizationArguments& arguments) {
  Json layer;
  config("layer", layer);
  config("power_iterations", arguments.options.power_iterations);
  arguments.layer = keras::layer_from_config(layer);
}

at::Tensor unit_vector(const at::Tensor& x) {
  return x / at::linalg_vector_norm(x).clamp_min(1e-12);
}

class SpectralNormalizationImpl final : public keras::UnaryLayerImpl {
 public:
  explicit SpectralNormalizationImpl(const SpectralNormalizationArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)),
        power_iterations_(arguments.options.power_iterations),
        layer_(track("layer", arguments.layer.value())) {
    STRATA_CHECK(power_iterations_ > 0, kInvalidArgument,
                 "[layers] SpectralNormalization: `power_iterations` should be greater than zero. "
                 "Received: `power_iterations=",
                 power_iterations_, "`");
  }
  std::string_view class_name() const override { return "SpectralNormalization"; }

 private:
  void describe(keras::ConfigWriter& config) const override {
    config("layer", keras::to_config(layer_));
    config("power_iterations", power_iterations_);
  }

  void build(const keras::Shape& input) override {
    layer_->ensure_built({input});
    const std::vector<keras::Weight> weights = layer_->own_weights();
    const auto found = std::ranges::find_if(weights, [](const keras::Weight& weight) {
      return weight.name == "kernel" || weight.name == "embeddings";
    });
    STRATA_CHECK(found != weights.end(), kInvalidArgument, "[keras] layer '", name(),
                 "': ", layer_->class_name(), " object has no attribute 'kernel' nor 'embeddings'");
    kernel_ = found->variable;
    share_weight(*found);
    vector_u_ = add_weight("vector_u", {1, kernel_->sizes().back()},
                           {.initializer = initializers::TruncatedNormal({.stddev = 0.02}),
                            .trainable = false,
                            .dtype = kernel_->dtype()});
  }

  void normalize_kernel() {
    const at::NoGradGuard no_grad;
    const at::Tensor kernel = kernel_->value(), old_u = vector_u_->value();
    const at::Tensor matrix = kernel.reshape({-1, kernel.size(-1)});
    at::Tensor u = old_u, v;
    for (int64_t i = 0; i < power_iterations_; ++i) {
      v = unit_vector(at::matmul(u, matrix.t()));
      u = unit_vector(at::matmul(v, matrix));
    }
    const at::Tensor largest = at::matmul(at::matmul(v, matrix), u.t()).squeeze();
    // A kernel of zeros has no direction.
    const at::Tensor is_zero = (kernel == 0).all();
    vector_u_->assign(at::where(is_zero, old_u, u));
    kernel_->assign(at::where(is_zero, kernel, kernel / largest));
  }

  at::Tensor call(const at::Tensor& x, const keras::Call& call) override {
    if (call.training) normalize_kernel();
    const at::Tensor y = layer_(x);
    return x.is_floating_point() ? y.to(x.scalar_type()) : y;
  }
  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    return layer_->output_shapes({input}).at(0);
  }

  const int64_t power_iterations_;
  const keras::Layer layer_;
  std::optional<Variable> kernel_;
  std::optional<Variable> vector_u_;
};

}  // namespace

SpectralNormalization::SpectralNormalization(const keras::Layer& layer,
                                             const SpectralNormalizationOptions& options)
    : Layer(std::make_shared<SpectralNormalizationImpl>(
          SpectralNormalizationArguments{layer, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> spectral_normalization_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {STRATA_LAYER_CLASS("SpectralNormalization", SpectralNormalizationImpl,
                             SpectralNormalizationArguments)};
}

}  // namespace strata::keras
