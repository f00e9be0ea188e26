#include "strata/keras/layers/merging.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/any.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>

#include "keras/fusion.h"
#include "keras/layers/layer_axes.h"
#include "keras/layers/layer_class.h"

namespace strata::layers {
namespace {

using keras::kNone;
using keras::Shape;
using keras::Tensors;

std::string to_string(const std::vector<Shape>& shapes) {
  std::string text = "[";
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (i > 0) text += ", ";
    text += keras::to_string(shapes[i]);
  }
  return text + "]";
}

std::vector<Shape> shapes_of(const Tensors& inputs) {
  std::vector<Shape> shapes;
  for (const at::Tensor& input : inputs) shapes.push_back(input.sizes().vec());
  return shapes;
}

/// What all of them spread to, without the batch.
Shape spread(Shape a, Shape b, const std::string& layer) {
  if (a.size() < b.size()) std::swap(a, b);
  const size_t shift = a.size() - b.size();
  Shape result = a;
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& size = result[shift + i];
    if (size == kNone || b[i] == kNone) {
      size = kNone;
    } else if (size == 1) {
      size = b[i];
    } else {
      STRATA_CHECK(b[i] == 1 || b[i] == size, kInvalidArgument, "[keras] Layer \"", layer,
                   "\": Inputs have incompatible shapes. Received shapes ", keras::to_string(a),
                   " and ", keras::to_string(b));
    }
  }
  return result;
}

/// The only size of the batch that is known; kNone if none is.
int64_t common_batch(const std::vector<Shape>& inputs, const std::string& layer) {
  std::set<int64_t> sizes;
  for (const Shape& input : inputs) {
    if (!input.empty() && input[0] != kNone) sizes.insert(input[0]);
  }
  STRATA_CHECK(sizes.size() <= 1, kInvalidArgument, "[keras] Layer \"", layer,
               "\": Cannot merge tensors with different batch sizes. Received tensors with shapes ",
               to_string(inputs));
  return sizes.empty() ? kNone : *sizes.begin();
}

/// The layers that go element by element.
class MergeImpl : public keras::LayerImpl {
 public:
  using LayerImpl::LayerImpl;

 protected:
  /// @param masks  As many as inputs, spread to their shapes; undefined for none.
  virtual Outputs merge(const Tensors& inputs, const Tensors& masks) const = 0;
  virtual void check_count(const std::vector<Shape>&) const {}

  void describe(keras::ConfigWriter&) const override {}

  void build(const std::vector<Shape>& inputs) override { compute_output_shapes(inputs, {}); }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json&) const override {
    STRATA_CHECK(!inputs.empty() && !inputs[0].empty(), kInvalidArgument, "[keras] Layer \"",
                 name(),
                 "\": A merge layer should be called on a list of at least 1 input. Received ",
                 inputs.size(), " inputs. Full input_shape received: ", to_string(inputs));
    check_count(inputs);
    const int64_t batch = common_batch(inputs, name());
    Shape output(inputs[0].begin() + 1, inputs[0].end());
    for (size_t i = 1; i < inputs.size(); ++i) {
      output = spread(output, Shape(inputs[i].begin() + 1, inputs[i].end()), name());
    }
    output.insert(output.begin(), batch);
    return {output};
  }

  Tensors call(const Tensors& inputs, const keras::Call& call) override {
    return call_with_masks(inputs, call).values;
  }

  Outputs call_with_masks(const Tensors& inputs, const keras::Call& call) override {
    compute_output_shapes(shapes_of(inputs), {});
    int64_t rank = 0;
    for (const at::Tensor& x : inputs) rank = std::max(rank, x.dim());
    Tensors same_rank = inputs;
    bool reshaped = false;
    for (at::Tensor& x : same_rank) {
      while (x.dim() < rank) {
        x = x.unsqueeze(1);
        reshaped = true;
      }
    }
    Tensors masks(inputs.size());
    bool all = !call.masks.empty();
    for (size_t i = 0; i < inputs.size(); ++i) {
      all = all && call.mask(i).defined();
      // What was reshaped has no mask any more: Keras's rule.
      if (reshaped || !call.mask(i).defined()) continue;
      masks[i] = call.mask(i).unsqueeze(-1).expand_as(inputs[i]);
    }
    Outputs outputs = merge(same_rank, masks);
    if (outputs.masks.empty() && all) {
      at::Tensor mask = call.mask(0);
      for (size_t i = 1; i < inputs.size(); ++i) mask = mask.logical_or(call.mask(i));
      outputs.masks = {mask};
    }
    return outputs;
  }

  bool supports_masking() const override { return true; }
};

enum class Merge { kAdd, kSubtract, kMultiply, kAverage, kMaximum, kMinimum };

constexpr const char* kNames[] = {"Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"};

template <Merge kind>
struct MergeArguments {
  MergeOptions options = {};
};
template <Merge kind>
void visit(keras::ConfigReader&, MergeArguments<kind>&) {}

template <Merge kind>
class ElementwiseImpl final : public MergeImpl, public keras::detail::Fusible {
 public:
  explicit ElementwiseImpl(const MergeArguments<kind>& arguments)
      : MergeImpl(keras::base_options(arguments.options)) {}

  std::string_view class_name() const override { return kNames[static_cast<size_t>(kind)]; }
  keras::detail::FusionRole fusion_role() const override {
    return kind == Merge::kAdd ? keras::detail::FusionRole::kSum : keras::detail::FusionRole::kNone;
  }

 private:
  void check_count(const std::vector<Shape>& inputs) const override {
    if constexpr (kind == Merge::kSubtract) {
      STRATA_CHECK(inputs.size() == 2, kInvalidArgument, "[keras] Layer \"", name(),
                   "\": A `Subtract` layer should be called on exactly 2 inputs. Received: "
                   "input_shape=",
                   to_string(inputs));
    }
  }

  static at::Tensor combine(const at::Tensor& a, const at::Tensor& b) {
    switch (kind) {
      case Merge::kSubtract:
        return a - b;
      case Merge::kMultiply:
        return a * b;
      case Merge::kMaximum:
        return at::maximum(a, b);
      case Merge::kMinimum:
        return at::minimum(a, b);
      default:
        return a + b;
    }
  }

  Outputs merge(const Tensors& inputs, const Tensors& masks) const override {
    if constexpr (kind == Merge::kMultiply) return product(inputs, masks);
    if constexpr (kind == Merge::kMaximum || kind == Merge::kMinimum) return best(inputs, masks);
    at::Tensor y = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) y = combine(y, inputs[i]);
    if constexpr (kind == Merge::kAverage) y = y / static_cast<double>(inputs.size());
    return {.values = {y}};
  }

  static Outputs product(const Tensors& inputs, const Tensors& masks) {
    const at::Tensor one = at::ones({}, inputs[0].options());
    at::Tensor y, any;
    const bool all =
        std::all_of(masks.begin(), masks.end(), [](const at::Tensor& m) { return m.defined(); });
    for (size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor x = masks[i].defined() ? at::where(masks[i], inputs[i], one) : inputs[i];
      y = y.defined() ? y * x : x;
      if (all) any = any.defined() ? any.logical_or(masks[i]) : masks[i];
    }
    if (!all) return {.values = {y}};
    return {.values = {at::where(any, y, at::zeros({}, y.options()))}, .masks = {at::any(any, -1)}};
  }

  /// Source: keras.src.layers.merging.base_merge._apply_merge_op_and_or_mask.
  static Outputs best(const Tensors& inputs, const Tensors& masks) {
    at::Tensor y = inputs[0];
    at::Tensor any = masks[0];
    for (size_t i = 1; i < inputs.size(); ++i) {
      at::Tensor x = inputs[i];
      if (masks[i].defined()) x = at::where(masks[i], x, y);
      if (any.defined()) y = at::where(any, y, x);
      any = masks[i].defined() && any.defined() ? any.logical_or(masks[i]) : at::Tensor();
      y = combine(y, x);
    }
    if (!any.defined()) return {.values = {y}};
    return {.values = {y}, .masks = {at::any(any, -1)}};
  }
};

// --- Concatenate

struct ConcatenateArguments {
  ConcatenateOptions options = {};
};
template <typename Config, typename Arguments>
void visit_concatenate(Config& config, Arguments& arguments) {
  config("axis", arguments.options.axis);
}
void visit(keras::ConfigReader& config, ConcatenateArguments& arguments) {
  visit_concatenate(config, arguments);
}

class ConcatenateImpl final : public keras::LayerImpl {
 public:
  explicit ConcatenateImpl(const ConcatenateArguments& arguments)
      : LayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {}

  std::string_view class_name() const override { return "Concatenate"; }

 private:
  void describe(keras::ConfigWriter& config) const override {
    visit_concatenate(config, arguments_);
  }

  void build(const std::vector<Shape>& inputs) override { compute_output_shapes(inputs, {}); }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json&) const override {
    STRATA_CHECK(!inputs.empty(), kInvalidArgument, "[keras] Layer \"", name(),
                 "\": A `Concatenate` layer should be called on a list of at least 1 input. "
                 "Received: input_shape=",
                 to_string(inputs));
    Shape output = inputs[0];
    const auto axis = static_cast<size_t>(resolve_axis(arguments_.options.axis, output, name()));
    for (size_t i = 1; i < inputs.size(); ++i) {
      bool fits = inputs[i].size() == output.size();
      for (size_t d = 0; fits && d < output.size(); ++d) {
        const int64_t size = inputs[i][d];
        if (d == axis) {
          output[d] = output[d] == kNone || size == kNone ? kNone : output[d] + size;
        } else if (output[d] == kNone && d == 0) {
          output[d] = size;
        } else {
          fits = size == kNone || output[d] == kNone || size == output[d];
        }
      }
      STRATA_CHECK(fits, kInvalidArgument, "[keras] Layer \"", name(),
                   "\": A `Concatenate` layer requires inputs with matching shapes except for the "
                   "concatenation axis. Received: input_shape=",
                   to_string(inputs));
    }
    return {output};
  }

  Tensors call(const Tensors& inputs, const keras::Call&) override {
    compute_output_shapes(shapes_of(inputs), {});
    return {at::cat(inputs, arguments_.options.axis)};
  }

  Tensors compute_masks(const Tensors& inputs, const keras::Call& call) const override {
    Tensors masks;
    bool none = true;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor mask = call.mask(i);
      none = none && !mask.defined();
      if (!mask.defined()) {
        masks.push_back(at::ones(inputs[i].sizes(), inputs[i].options().dtype(at::kBool)));
      } else if (mask.dim() < inputs[i].dim()) {
        masks.push_back(mask.unsqueeze(-1).expand_as(inputs[i]));
      } else {
        masks.push_back(mask);
      }
    }
    if (none) return {};
    return {at::any(at::cat(masks, arguments_.options.axis), -1)};
  }
  bool supports_masking() const override { return true; }

  ConcatenateArguments arguments_;
};

// --- Dot

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

template <typename Impl, typename Arguments>
std::shared_ptr<Impl> make(const Arguments& arguments) {
  return std::make_shared<Impl>(arguments);
}

}  // namespace

#define STRATA_MERGE_LAYER(Name, function, kind)                                   \
  Name::Name(const MergeOptions& options)                                          \
      : Layer(make<ElementwiseImpl<kind>>(MergeArguments<kind>{options})) {}       \
  keras::SymbolicTensor function(const std::vector<keras::SymbolicTensor>& inputs, \
                                 const MergeOptions& options) {                    \
    return Name(options)(inputs);                                                  \
  }                                                                                \
  at::Tensor function(const keras::Tensors& inputs) { return Name({.name = #function})(inputs); }

STRATA_MERGE_LAYER(Add, add, Merge::kAdd)
STRATA_MERGE_LAYER(Subtract, subtract, Merge::kSubtract)
STRATA_MERGE_LAYER(Multiply, multiply, Merge::kMultiply)
STRATA_MERGE_LAYER(Average, average, Merge::kAverage)
STRATA_MERGE_LAYER(Maximum, maximum, Merge::kMaximum)
STRATA_MERGE_LAYER(Minimum, minimum, Merge::kMinimum)
#undef STRATA_MERGE_LAYER

Concatenate::Concatenate(const ConcatenateOptions& options)
    : Layer(make<ConcatenateImpl>(ConcatenateArguments{options})) {}
Dot::Dot(const Axes& axes, const DotOptions& options)
    : Layer(make<DotImpl>(DotArguments{axes, options})) {}

keras::SymbolicTensor concatenate(const std::vector<keras::SymbolicTensor>& inputs,
                                  const ConcatenateOptions& options) {
  return Concatenate(options)(inputs);
}
at::Tensor concatenate(const keras::Tensors& inputs, const ConcatenateOptions& options) {
  return Concatenate(options)(inputs);
}
keras::SymbolicTensor dot(const std::vector<keras::SymbolicTensor>& inputs, const Axes& axes,
                          const DotOptions& options) {
  return Dot(axes, options)(inputs);
}
at::Tensor dot(const keras::Tensors& inputs, const Axes& axes, const DotOptions& options) {
  return Dot(axes, options)(inputs);
}

}  // namespace strata::layers

namespace strata::keras {
namespace {

template <layers::Merge kind>
LayerClass merge_class() {
  return {layers::kNames[static_cast<size_t>(kind)], [](const Json& config) {
            return make_from_config<layers::ElementwiseImpl<kind>>(
                config, layers::MergeArguments<kind>{}, layers::kNames[static_cast<size_t>(kind)]);
          }};
}

}  // namespace

std::vector<LayerClass> merging_layers() {
  using namespace layers;  // NOLINT
  return {merge_class<Merge::kAdd>(),
          merge_class<Merge::kSubtract>(),
          merge_class<Merge::kMultiply>(),
          merge_class<Merge::kAverage>(),
          merge_class<Merge::kMaximum>(),
          merge_class<Merge::kMinimum>(),
          STRATA_LAYER_CLASS("Concatenate", ConcatenateImpl, ConcatenateArguments),
          STRATA_LAYER_CLASS("Dot", DotImpl, DotArguments)};
}

}  // namespace strata::keras
