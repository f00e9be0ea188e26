#include <ATen/ops/any.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>

#include "keras/layers/layer_axes.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/merge_shapes.h"
#include "strata/keras/layers/merging.h"

namespace strata::layers {
namespace {

using keras::kNone;
using keras::Shape;
using keras::Tensors;

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

}  // namespace

Concatenate::Concatenate(const ConcatenateOptions& options)
    : Layer(std::make_shared<ConcatenateImpl>(ConcatenateArguments{options})) {}

keras::SymbolicTensor concatenate(const std::vector<keras::SymbolicTensor>& inputs,
                                  const ConcatenateOptions& options) {
  return Concatenate(options)(inputs);
}
at::Tensor concatenate(const keras::Tensors& inputs, const ConcatenateOptions& options) {
  return Concatenate(options)(inputs);
}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> concatenate_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Concatenate", ConcatenateImpl, ConcatenateArguments)};
}

}  // namespace strata::keras
