#include "strata/keras/layers/activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>

#include "keras/fusion.h"
#include "keras/layers/elementwise.h"
#include "keras/layers/layer_class.h"

namespace strata::layers {
namespace {

/// Keras writes a single axis as a number.
struct SoftmaxAxes {
  std::vector<int64_t> values;
};
Json to_config(const SoftmaxAxes& axes) {
  return axes.values.size() == 1 ? Json(axes.values[0]) : keras::to_config(axes.values);
}
void from_config(const Json& json, SoftmaxAxes& axes) {
  if (json.is_int()) {
    axes.values = {json.as_int()};
  } else {
    keras::from_config(json, axes.values);
  }
}

struct ActivationArguments {
  activations::Activation activation = {};
  ActivationOptions options = {};
};
struct ReLUArguments {
  ReLUOptions options = {};
};
struct LeakyReLUArguments {
  LeakyReLUOptions options = {};
};
struct PReLUArguments {
  PReLUOptions options = {};
};
struct ELUArguments {
  ELUOptions options = {};
};
struct SoftmaxArguments {
  SoftmaxAxes axis = {{-1}};
  SoftmaxOptions options = {};
};

template <typename Config, keras::OneOf<ActivationArguments, ReLUArguments, LeakyReLUArguments,
                                        PReLUArguments, ELUArguments, SoftmaxArguments>
                               Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  if constexpr (requires { layer.activation; }) config("activation", layer.activation);
  if constexpr (requires { layer.axis; }) config("axis", layer.axis);
  if constexpr (requires { options.alpha; }) config("alpha", options.alpha);
  if constexpr (requires { options.max_value; }) {
    config("max_value", options.max_value);
    config("threshold", options.threshold);
  }
  if constexpr (requires { options.negative_slope; }) {
    config("negative_slope", options.negative_slope);
  }
  if constexpr (requires { options.shared_axes; }) {
    config("alpha_initializer", options.alpha_initializer);
    config("alpha_regularizer", options.alpha_regularizer);
    config("alpha_constraint", options.alpha_constraint);
    config("shared_axes", options.shared_axes);
  }
}

class ActivationImpl final : public ElementwiseImpl, public keras::detail::Fusible {
 public:
  explicit ActivationImpl(const ActivationArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {}
  std::string_view class_name() const override { return "Activation"; }
  keras::detail::FusionRole fusion_role() const override {
    return arguments_.activation.name() == "relu" ? keras::detail::FusionRole::kRelu
                                                  : keras::detail::FusionRole::kNone;
  }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    return arguments_.activation(x);
  }

  ActivationArguments arguments_;
};

void check_not_negative(const char* class_name, const char* option, double value) {
  STRATA_CHECK(value >= 0, kInvalidArgument, "[layers] ", class_name, ": got ", option, "=", value,
               "; expected a number that is not negative");
}

class ReLUImpl final : public ElementwiseImpl, public keras::detail::Fusible {
 public:
  explicit ReLUImpl(const ReLUArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_not_negative("ReLU", "max_value", arguments.options.max_value.value_or(0));
    check_not_negative("ReLU", "negative_slope", arguments.options.negative_slope);
    check_not_negative("ReLU", "threshold", arguments.options.threshold);
  }
  std::string_view class_name() const override { return "ReLU"; }
  keras::detail::FusionRole fusion_role() const override {
    const ReLUOptions& options = arguments_.options;
    const bool plain = !options.max_value && options.negative_slope == 0 && options.threshold == 0;
    return plain ? keras::detail::FusionRole::kRelu : keras::detail::FusionRole::kNone;
  }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const ReLUOptions& options = arguments_.options;
    return activations::relu(x, {.negative_slope = options.negative_slope,
                                 .max_value = options.max_value,
                                 .threshold = options.threshold});
  }

  ReLUArguments arguments_;
};

class LeakyReLUImpl final : public ElementwiseImpl {
 public:
  explicit LeakyReLUImpl(const LeakyReLUArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_not_negative("LeakyReLU", "negative_slope", arguments.options.negative_slope);
  }
  std::string_view class_name() const override { return "LeakyReLU"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    return at::leaky_relu(x, arguments_.options.negative_slope);
  }

  LeakyReLUArguments arguments_;
};

class PReLUImpl final : public ElementwiseImpl {
 public:
  explicit PReLUImpl(const PReLUArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {}
  std::string_view class_name() const override { return "PReLU"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  void build(const keras::Shape& input) override {
    const PReLUOptions& options = arguments_.options;
    const auto ndim = static_cast<int64_t>(input.size());
    keras::Shape shape(input.begin() + 1, input.end());
    for (const int64_t axis : options.shared_axes.value_or(std::vector<int64_t>{})) {
      STRATA_CHECK(axis > 0 && axis < ndim, kInvalidArgument, "[keras] layer '", name(),
                   "': got shared axis ", axis, " for input of shape ", keras::to_string(input),
                   "; expected 1 to ", ndim - 1);
      shape[static_cast<size_t>(axis) - 1] = 1;
    }
    alpha_ = add_weight("alpha", shape,
                        {.initializer = options.alpha_initializer,
                         .regularizer = options.alpha_regularizer,
                         .constraint = options.alpha_constraint});
    keras::InputSpec spec{.ndim = ndim};
    for (size_t i = 0; i < shape.size(); ++i) {
      if (options.shared_axes && shape[i] != 1) spec.axes[static_cast<int64_t>(i) + 1] = shape[i];
    }
    set_input_spec({spec});
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    return at::relu(x) - cast(*alpha_, x) * at::relu(-x);
  }

  PReLUArguments arguments_;
  std::optional<Variable> alpha_;
};

class ELUImpl final : public ElementwiseImpl {
 public:
  explicit ELUImpl(const ELUArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {}
  std::string_view class_name() const override { return "ELU"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    return at::elu(x, arguments_.options.alpha);
  }

  ELUArguments arguments_;
};

class SoftmaxImpl final : public ElementwiseImpl {
 public:
  explicit SoftmaxImpl(const SoftmaxArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    STRATA_CHECK(!arguments.axis.values.empty(), kInvalidArgument,
                 "[layers] Softmax: got no axis; expected at least one");
  }
  std::string_view class_name() const override { return "Softmax"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  at::Tensor call(const at::Tensor& x, const keras::Call& call) override {
    const at::Tensor mask = call.mask();
    if (!mask.defined()) return softmax(x);
    const double far_below = x.scalar_type() == at::kHalf ? -3e4 : -1e9;
    return at::where(mask, softmax(at::where(mask, x, far_below)), 0.0);
  }

  at::Tensor softmax(const at::Tensor& x) const {
    const std::vector<int64_t>& axes = arguments_.axis.values;
    return axes.size() == 1 ? at::softmax(x, axes[0]) : (x - at::logsumexp(x, axes, true)).exp();
  }

  SoftmaxArguments arguments_;
};

}  // namespace

Activation::Activation(activations::Activation activation, const ActivationOptions& options)
    : Layer(std::make_shared<ActivationImpl>(ActivationArguments{std::move(activation), options})) {
}
ReLU::ReLU(const ReLUOptions& options)
    : Layer(std::make_shared<ReLUImpl>(ReLUArguments{options})) {}
LeakyReLU::LeakyReLU(const LeakyReLUOptions& options)
    : Layer(std::make_shared<LeakyReLUImpl>(LeakyReLUArguments{options})) {}
PReLU::PReLU(const PReLUOptions& options)
    : Layer(std::make_shared<PReLUImpl>(PReLUArguments{options})) {}
ELU::ELU(const ELUOptions& options) : Layer(std::make_shared<ELUImpl>(ELUArguments{options})) {}
Softmax::Softmax(const SoftmaxOptions& options)
    : Layer(std::make_shared<SoftmaxImpl>(SoftmaxArguments{{options.axis}, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> activation_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Activation", ActivationImpl, ActivationArguments),
          STRATA_LAYER_CLASS("ReLU", ReLUImpl, ReLUArguments),
          STRATA_LAYER_CLASS("LeakyReLU", LeakyReLUImpl, LeakyReLUArguments),
          STRATA_LAYER_CLASS("PReLU", PReLUImpl, PReLUArguments),
          STRATA_LAYER_CLASS("ELU", ELUImpl, ELUArguments),
          STRATA_LAYER_CLASS("Softmax", SoftmaxImpl, SoftmaxArguments)};
}

}  // namespace strata::keras
