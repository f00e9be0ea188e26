#include "strata/keras/layers/core.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/matmul.h>

#include "keras/layers/elementwise.h"
#include "keras/layers/image_layout.h"
#include "keras/layers/kernel_weights.h"
#include "keras/layers/layer_class.h"

namespace strata::layers {
namespace {

struct DenseArguments {
  int64_t units = 0;
  DenseOptions options = {};
};
struct IdentityArguments {
  IdentityOptions options = {};
};

template <typename Config>
void visit(Config&, const IdentityArguments&) {}

template <typename Config, keras::OneOf<DenseArguments> Arguments>
void visit(Config& config, Arguments& dense) {
  auto& options = dense.options;
  config("units", dense.units);
  config("activation", options.activation);
  config("use_bias", options.use_bias);
  visit_kernel_and_bias(config, options);
}

class DenseImpl final : public keras::UnaryLayerImpl {
 public:
  explicit DenseImpl(const DenseArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    STRATA_CHECK(arguments.units > 0, kInvalidArgument,
                 "[layers] Dense: got units=", arguments.units, "; expected a positive integer");
    set_input_spec({{.min_ndim = 2}});
  }

  std::string_view class_name() const override { return "Dense"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  void build(const keras::Shape& input) override {
    const DenseOptions& options = arguments_.options;
    // In memory as torch::nn::Linear's, where the products of a step are faster.
    kernel_ =
        add_weight("kernel", {input.back(), arguments_.units}, kernel_weight(options, {1, 0}));
    if (options.use_bias) {
      bias_ = add_weight("bias", {arguments_.units}, bias_weight(options));
    }
    set_input_spec({{.min_ndim = 2, .axes = {{-1, input.back()}}}});
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const at::Tensor kernel = cast(*kernel_, x);
    at::Tensor y = bias_ ? with_bias(x, kernel, cast(*bias_, x)) : at::matmul(x, kernel);
    y = arguments_.options.activation(y);
    add_activity_loss(arguments_.options.activity_regularizer, y);
    return y;
  }

  /// As one product, which adds the bias on the way.
  static at::Tensor with_bias(const at::Tensor& x, const at::Tensor& kernel,
                              const at::Tensor& bias) {
    if (x.dim() == 2) return at::addmm(bias, x, kernel);
    std::vector<int64_t> sizes = x.sizes().vec();
    const int64_t rows = c10::multiply_integers(sizes.begin(), sizes.end() - 1);
    sizes.back() = kernel.size(1);
    return at::addmm(bias, x.reshape({rows, kernel.size(0)}), kernel).view(sizes);
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    keras::Shape output = input;
    output.back() = arguments_.units;
    return output;
  }
  bool supports_masking() const override { return true; }

  DenseArguments arguments_;
  std::optional<Variable> kernel_;
  std::optional<Variable> bias_;
};

class IdentityImpl final : public MovingLayerImpl {
 public:
  explicit IdentityImpl(const IdentityArguments& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)) {}
  std::string_view class_name() const override { return "Identity"; }

 private:
  void describe(keras::ConfigWriter&) const override {}
  at::Tensor call(const at::Tensor& x, const keras::Call&) override { return x; }
  keras::Shape compute_output_shape(const keras::Shape& input) const override { return input; }
  bool supports_masking() const override { return true; }
};

class LambdaImpl final : public keras::UnaryLayerImpl {
 public:
  LambdaImpl(Lambda::CallFunction function, const LambdaOptions& options)
      : UnaryLayerImpl(keras::base_options(options)),
        function_(std::move(function)),
        output_shape_(options.output_shape) {
    STRATA_CHECK(function_ != nullptr, kInvalidArgument, "[layers] Lambda: got no function");
  }
  std::string_view class_name() const override { return "Lambda"; }

 private:
  void describe(keras::ConfigWriter&) const override {
    STRATA_CHECK(false, kUnimplemented, "[keras] layer '", name(),
                 "': a Lambda's function cannot be written to a file; derive a class from "
                 "LayerImpl and register_layer it");
  }
  at::Tensor call(const at::Tensor& x, const keras::Call& call) override {
    return function_(x, call);
  }
  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    if (!output_shape_) return UnaryLayerImpl::compute_output_shape(input);
    keras::Shape output = {input[0]};
    output.insert(output.end(), output_shape_->begin(), output_shape_->end());
    return output;
  }

  Lambda::CallFunction function_;
  std::optional<keras::Shape> output_shape_;
};

}  // namespace

Identity::Identity(const IdentityOptions& options)
    : Layer(std::make_shared<IdentityImpl>(IdentityArguments{options})) {}

Lambda::Lambda(Function function, const LambdaOptions& options)
    : Lambda(function == nullptr
                 ? CallFunction()
                 : CallFunction([f = std::move(function)](const at::Tensor& x, const keras::Call&) {
                     return f(x);
                   }),
             options) {}
Lambda::Lambda(CallFunction function, const LambdaOptions& options)
    : Layer(std::make_shared<LambdaImpl>(std::move(function), options)) {}

Dense::Dense(int64_t units, const DenseOptions& options)
    : Layer(std::make_shared<DenseImpl>(DenseArguments{units, options})) {}
Dense::Dense(int64_t units, activations::Activation activation)
    : Dense(units, {.activation = std::move(activation)}) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> core_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Dense", DenseImpl, DenseArguments),
          STRATA_LAYER_CLASS("Identity", IdentityImpl, IdentityArguments)};
}

}  // namespace strata::keras
