#include "strata/keras/layers/merging.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/any.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "keras/fusion.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/merge_shapes.h"

namespace strata::layers {
namespace {

using keras::kNone;
using keras::Shape;
using keras::Tensors;

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
    bool on_resize = false;
    for (at::Tensor& x : same_rank) {
      while (x.dim() < rank) {
        x = x.unsqueeze(1);
        on_resize = true;
      }
    }
    Tensors masks(inputs.size());
    bool all = !call.masks.empty();
    for (size_t i = 0; i < inputs.size(); ++i) {
      all = all && call.mask(i).defined();
      // What was reshaped has no mask any more: Keras's rule.
      if (on_resize || !call.mask(i).defined()) continue;
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
class ElementwiseMergeImpl final : public MergeImpl, public keras::detail::Fusible {
 public:
  explicit ElementwiseMergeImpl(const MergeArguments<kind>& arguments)
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

template <typename Impl, typename Arguments>
std::shared_ptr<Impl> make(const Arguments& arguments) {
  return std::make_shared<Impl>(arguments);
}

}  // namespace

#define STRATA_MERGE_LAYER(Name, function, kind)                                   \
  Name::Name(const MergeOptions& options)                                          \
      : Layer(make<ElementwiseMergeImpl<kind>>(MergeArguments<kind>{options})) {}  \
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

}  // namespace strata::layers

namespace strata::keras {
namespace {

template <layers::Merge kind>
LayerClass merge_class() {
  return {layers::kNames[static_cast<size_t>(kind)], [](const Json& config) {
            return make_from_config<layers::ElementwiseMergeImpl<kind>>(
                config, layers::MergeArguments<kind>{}, layers::kNames[static_cast<size_t>(kind)]);
          }};
}

}  // namespace

std::vector<LayerClass> merging_layers() {
  using namespace layers;  // NOLINT
  return {merge_class<Merge::kAdd>(),      merge_class<Merge::kSubtract>(),
          merge_class<Merge::kMultiply>(), merge_class<Merge::kAverage>(),
          merge_class<Merge::kMaximum>(),  merge_class<Merge::kMinimum>()};
}

}  // namespace strata::keras
