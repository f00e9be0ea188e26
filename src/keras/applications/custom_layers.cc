#include "keras/applications/custom_layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "keras/layers/elementwise.h"
#include "keras/layers/layer_class.h"

namespace strata::applications {
namespace {

constexpr const char* kConvNeXtModule = "keras.src.applications.convnext";

struct LayerScaleArguments {
  double init_values = 1e-6;
  int64_t projection_dim = 1;
  CustomLayerOptions options = {};
};
struct StochasticDepthArguments {
  double drop_path_rate = 0;
  CustomLayerOptions options = {};
};
struct CustomScaleArguments {
  double scale = 1;
  CustomLayerOptions options = {};
};

template <
    typename Config,
    keras::OneOf<LayerScaleArguments, StochasticDepthArguments, CustomScaleArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  if constexpr (requires { layer.init_values; }) {
    config("init_values", layer.init_values);
    config("projection_dim", layer.projection_dim);
  }
  if constexpr (requires { layer.drop_path_rate; }) config("drop_path_rate", layer.drop_path_rate);
  if constexpr (requires { layer.scale; }) config("scale", layer.scale);
}

class LayerScaleImpl final : public layers::ElementwiseImpl {
 public:
  explicit LayerScaleImpl(const LayerScaleArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    STRATA_CHECK(arguments.projection_dim > 0, kInvalidArgument,
                 "[applications] LayerScale: got projection_dim=", arguments.projection_dim,
                 "; expected the size of the last dimension");
    set_input_spec({{.axes = {{-1, arguments.projection_dim}}}});
  }
  std::string_view class_name() const override { return "LayerScale"; }
  std::string_view module() const override { return kConvNeXtModule; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  void build(const keras::Shape&) override {
    // Keras gives it no name.
    scale_ = add_weight("variable", {arguments_.projection_dim},
                        {.initializer = initializers::Constant(arguments_.init_values)});
  }
  at::Tensor call(const at::Tensor& x, const keras::Call&) override { return x * cast(*scale_, x); }

  LayerScaleArguments arguments_;
  std::optional<Variable> scale_;
};

class StochasticDepthImpl final : public layers::ElementwiseImpl {
 public:
  explicit StochasticDepthImpl(const StochasticDepthArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    const double rate = arguments.drop_path_rate;
    STRATA_CHECK(rate >= 0 && rate <= 1, kInvalidArgument,
                 "[applications] StochasticDepth: got drop_path_rate=", rate,
                 "; expected a number between 0 and 1");
  }
  std::string_view class_name() const override { return "StochasticDepth"; }
  std::string_view module() const override { return kConvNeXtModule; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call& call) override {
    const double kept = 1 - arguments_.drop_path_rate;
    if (!call.training || kept == 1) return x;
    std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
    shape[0] = x.size(0);
    at::Tensor mask = at::empty(shape, x.options()).bernoulli_(kept);
    return x * (kept > 0 ? mask.div_(kept) : mask);
  }

  StochasticDepthArguments arguments_;
};

class CustomScaleImpl final : public keras::LayerImpl {
 public:
  explicit CustomScaleImpl(const CustomScaleArguments& arguments)
      : LayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {}
  std::string_view class_name() const override { return "CustomScaleLayer"; }
  std::string_view module() const override { return "keras.src.applications.inception_resnet_v2"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  void build(const std::vector<keras::Shape>& inputs) override {
    std::string shapes;
    for (const keras::Shape& shape : inputs) {
      shapes += (shapes.empty() ? "" : ", ") + keras::to_string(shape);
    }
    STRATA_CHECK(inputs.size() == 2 && inputs[0] == inputs[1], kInvalidArgument,
                 "[applications] CustomScaleLayer: got inputs of shapes ", shapes,
                 "; expected two of one shape");
  }
  keras::Tensors call(const keras::Tensors& inputs, const keras::Call&) override {
    return {inputs[0] + inputs[1] * arguments_.scale};
  }
  std::vector<keras::Shape> compute_output_shapes(const std::vector<keras::Shape>& inputs,
                                                  const Json&) const override {
    return {inputs[0]};
  }

  CustomScaleArguments arguments_;
};

}  // namespace

LayerScale::LayerScale(double init_values, int64_t projection_dim,
                       const CustomLayerOptions& options)
    : Layer(std::make_shared<LayerScaleImpl>(
          LayerScaleArguments{init_values, projection_dim, options})) {}
StochasticDepth::StochasticDepth(double drop_path_rate, const CustomLayerOptions& options)
    : Layer(std::make_shared<StochasticDepthImpl>(
          StochasticDepthArguments{drop_path_rate, options})) {}
CustomScaleLayer::CustomScaleLayer(double scale, const CustomLayerOptions& options)
    : Layer(std::make_shared<CustomScaleImpl>(CustomScaleArguments{scale, options})) {}

}  // namespace strata::applications

namespace strata::keras {

std::vector<LayerClass> application_layers() {
  using namespace applications;  // NOLINT
  return {STRATA_LAYER_CLASS("LayerScale", LayerScaleImpl, LayerScaleArguments),
          STRATA_LAYER_CLASS("StochasticDepth", StochasticDepthImpl, StochasticDepthArguments),
          STRATA_LAYER_CLASS("CustomScaleLayer", CustomScaleImpl, CustomScaleArguments)};
}

}  // namespace strata::keras
