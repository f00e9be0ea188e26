#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>

#include "keras/layers/layer_axes.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/merge_shapes.h"
#include "strata/keras/layers/merging.h"

namespace strata::layers {
namespace {

using keras::kNone;
using keras::Shape;
using keras::Tensors;

struct DotArguments {
  Axes axes = -1;
  DotOptions options = {};
};
template <typename Config, typename Arguments>
void visit_dot(Config& config, Arguments& arguments) {
  config("axes", arguments.axes);
  config("normalize", arguments.options.normalize);
}
void visit(keras::ConfigReader& config, DotArguments& arguments) { visit_dot(config, arguments); }

at::Tensor unit_length(const at::Tensor& x, int64_t axis) {
  return x * x.square().sum({axis}, /*keepdim=*/true).clamp_min(1e-14).rsqrt();
}

class DotImpl final : public keras::LayerImpl {
 public:
  explicit DotImpl(const DotArguments& arguments)
      : LayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    STRATA_CHECK(
        !arguments.axes.is_list || arguments.axes.values.size() == 2, kInvalidArgument,
        "[layers] Dot: Invalid format for argument `axes`: it should contain two elements. "
        "Received: ",
        arguments.axes.values.size());
  }

  std::string_view class_name() const override { return "Dot"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit_dot(config, arguments_); }

  struct Pair {
    int64_t left;
    int64_t right;
  };
  Pair axes_for(const std::vector<Shape>& inputs) const {
    STRATA_CHECK(inputs.size() == 2, kInvalidArgument, "[keras] Layer \"", name(),
                 "\": A `Dot` layer should be called on a list of 2 inputs. Received: input_shape=",
                 to_string(inputs));
    STRATA_CHECK(inputs[0].size() >= 2 && inputs[1].size() >= 2, kInvalidArgument,
                 "[keras] Layer \"", name(),
                 "\": Cannot do batch_dot on inputs with rank < 2. Received inputs with shapes ",
                 keras::to_string(inputs[0]), " and ", keras::to_string(inputs[1]), ".");
    const std::vector<int64_t>& given = arguments_.axes.values;
    const Pair axes{resolve_axis(given.front(), inputs[0], name()),
                    resolve_axis(given.back(), inputs[1], name())};
    STRATA_CHECK(axes.left != 0 && axes.right != 0, kInvalidArgument, "[keras] Layer \"", name(),
                 "\": Cannot perform batch_dot over axis 0.");
    const int64_t left = inputs[0][static_cast<size_t>(axes.left)];
    const int64_t right = inputs[1][static_cast<size_t>(axes.right)];
    STRATA_CHECK(left == kNone || right == kNone || left == right, kInvalidArgument,
                 "[keras] Layer \"", name(), "\": Incompatible input shapes: axis values ", left,
                 " (at axis ", axes.left, ") != ", right, " (at axis ", axes.right,
                 "). Full input shapes: ", keras::to_string(inputs[0]), ", ",
                 keras::to_string(inputs[1]));
    common_batch(inputs, name());
    return axes;
  }

  void build(const std::vector<Shape>& inputs) override { axes_for(inputs); }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json&) const override {
    const Pair axes = axes_for(inputs);
    Shape output = inputs[0];
    output.erase(output.begin() + axes.left);
    Shape rest = inputs[1];
    rest.erase(rest.begin() + axes.right);
    if (!output.empty() && output[0] == kNone) output[0] = rest[0];
    output.insert(output.end(), rest.begin() + 1, rest.end());
    if (output.size() == 1) output.push_back(1);
    return {output};
  }

  Tensors call(const Tensors& inputs, const keras::Call&) override {
    const Shape shape = compute_output_shapes(shapes_of(inputs), {})[0];
    const Pair axes = axes_for(shapes_of(inputs));
    at::Tensor x = inputs[0];
    at::Tensor y = inputs[1];
    if (arguments_.options.normalize) {
      x = unit_length(x, axes.left);
      y = unit_length(y, axes.right);
    }
    const int64_t batch = x.size(0);
    const int64_t depth = x.size(axes.left);
    x = x.movedim(axes.left, -1);
    y = y.movedim(axes.right, 1);
    const auto rest = [&](const at::Tensor& t) {
      return batch * depth == 0 ? int64_t{0} : t.numel() / (batch * depth);
    };
    return {at::bmm(x.reshape({batch, rest(x), depth}), y.reshape({batch, depth, rest(y)}))
                .reshape(shape)};
  }

  DotArguments arguments_;
};

}  // namespace

Dot::Dot(const Axes& axes, const DotOptions& options)
    : Layer(std::make_shared<DotImpl>(DotArguments{axes, options})) {}

keras::SymbolicTensor dot(const std::vector<keras::SymbolicTensor>& inputs, const Axes& axes,
                          const DotOptions& options) {
  return Dot(axes, options)(inputs);
}
at::Tensor dot(const keras::Tensors& inputs, const Axes& axes, const DotOptions& options) {
  return Dot(axes, options)(inputs);
}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> dot_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Dot", DotImpl, DotArguments)};
}

}  // namespace strata::keras
