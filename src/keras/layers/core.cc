#include "strata/keras/layers/core.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/matmul.h>

#include "keras/layers/layer_class.h"

namespace strata::layers {
namespace {

struct DenseArguments {
  int64_t units = 0;
  DenseOptions options = {};
};

template <typename Config, typename Arguments>
void visit(Config& config, Arguments& dense) {
  auto& options = dense.options;
  config("units", dense.units);
  config("activation", options.activation);
  config("use_bias", options.use_bias);
  config("kernel_initializer", options.kernel_initializer);
  config("bias_initializer", options.bias_initializer);
  config("kernel_regularizer", options.kernel_regularizer);
  config("bias_regularizer", options.bias_regularizer);
  config("activity_regularizer", options.activity_regularizer);
  config("kernel_constraint", options.kernel_constraint);
  config("bias_constraint", options.bias_constraint);
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
    kernel_ = add_weight("kernel", {input.back(), arguments_.units},
                         {.initializer = options.kernel_initializer,
                          .regularizer = options.kernel_regularizer,
                          .constraint = options.kernel_constraint});
    if (options.use_bias) {
      bias_ = add_weight("bias", {arguments_.units},
                         {.initializer = options.bias_initializer,
                          .regularizer = options.bias_regularizer,
                          .constraint = options.bias_constraint});
    }
    set_input_spec({{.min_ndim = 2, .axes = {{-1, input.back()}}}});
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const at::Tensor kernel = cast(kernel_->value(), x);
    at::Tensor y = !bias_         ? at::matmul(x, kernel)
                   : x.dim() == 2 ? at::addmm(cast(bias_->value(), x), x, kernel)
                                  : at::matmul(x, kernel) + cast(bias_->value(), x);
    y = arguments_.options.activation(y);
    add_activity_loss(arguments_.options.activity_regularizer, y);
    return y;
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

}  // namespace

Dense::Dense(int64_t units, const DenseOptions& options)
    : Layer(std::make_shared<DenseImpl>(DenseArguments{units, options})) {}
Dense::Dense(int64_t units, activations::Activation activation)
    : Dense(units, {.activation = std::move(activation)}) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> core_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Dense", DenseImpl, DenseArguments)};
}

}  // namespace strata::keras
