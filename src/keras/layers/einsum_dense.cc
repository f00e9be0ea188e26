#include "strata/keras/layers/core.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "keras/layers/dense_projection.h"
#include "keras/layers/kernel_weights.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/partial_shape.h"

namespace strata::layers {
namespace {

using keras::kNone;
using keras::Shape;

struct EinsumDenseArguments {
  std::string equation = {};
  PartialShape output_shape = {};
  EinsumDenseOptions options = {};
};

template <typename Config, typename Arguments>
void visit_einsum_dense(Config& config, Arguments& arguments) {
  auto& options = arguments.options;
  config("output_shape", arguments.output_shape);
  config("equation", arguments.equation);
  config("activation", options.activation);
  config("bias_axes", options.bias_axes);
  visit_kernel_and_bias(config, options);
  config.only("quantization_config", Json());
  config.only("lora_rank", Json());
  config.only("lora_alpha", Json());
  config.only("gptq_unpacked_column_size", Json());
}

void visit(keras::ConfigReader& config, EinsumDenseArguments& arguments) {
  visit_einsum_dense(config, arguments);
}

struct Equation {
  std::string input;
  std::string kernel;
  std::string output;
  bool left_elided = false;   // "...ab"
  bool right_elided = false;  // "ab..."
};

bool are_letters(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isalpha(c) != 0; });
}

Equation parse(const std::string& text) {
  std::string clean = text;
  std::erase(clean, ' ');
  Equation equation;
  const size_t comma = std::min(clean.find(','), clean.size());
  const size_t arrow = std::min(clean.find("->"), clean.size());
  equation.input = clean.substr(0, comma);
  equation.kernel = comma < arrow ? clean.substr(comma + 1, arrow - comma - 1) : "";
  equation.output = arrow < clean.size() ? clean.substr(arrow + 2) : "";
  const auto cut = [](std::string& part, bool front) {
    if (front ? !part.starts_with("...") : !part.ends_with("...")) return false;
    part.erase(front ? 0 : part.size() - 3, 3);
    return true;
  };
  const bool left = cut(equation.input, true);
  equation.left_elided = left && cut(equation.output, true);
  const bool right = !left && cut(equation.input, false);
  equation.right_elided = right && cut(equation.output, false);
  STRATA_CHECK(left == equation.left_elided && right == equation.right_elided &&
                   are_letters(equation.input) && are_letters(equation.kernel) &&
                   are_letters(equation.output),
               kInvalidArgument, "[layers] EinsumDense: Invalid einsum equation '", text,
               "'. Equations must be in the form [X],[Y]->[Z], ...[X],[Y]->...[Z], or "
               "[X]...,[Y]->[Z]....");
  return equation;
}

struct EinsumShapes {
  Shape kernel;
  Shape bias;
  Shape output;
  std::vector<int64_t> input_axes;  // of the kernel
  std::vector<int64_t> output_axes;
};

/// Source: keras.src.layers.core.einsum_dense._analyze_split_string.
EinsumShapes analyze(const Equation& equation, const std::optional<std::string>& bias_axes,
                     const Shape& input, const Shape& partial, const std::string& layer) {
  const auto elided =
      static_cast<int64_t>(input.size()) - static_cast<int64_t>(equation.input.size());
  STRATA_CHECK(elided >= 0 && (elided == 0 || equation.left_elided || equation.right_elided),
               kInvalidArgument, "[keras] Layer \"", layer, "\": expected an input of ",
               equation.input.size(), " dimensions ('", equation.input,
               "'), but received input with shape ", keras::to_string(input));
  EinsumShapes shapes;
  shapes.output = partial;
  shapes.output.insert(shapes.output.begin(), input[0]);
  if (equation.left_elided) {
    for (int64_t i = 1; i < elided; ++i) {
      shapes.output.insert(shapes.output.begin() + 1, input[static_cast<size_t>(i)]);
    }
  } else {
    shapes.output.insert(shapes.output.end(), input.end() - elided, input.end());
  }
  const int64_t shift = equation.left_elided ? elided : 0;
  STRATA_CHECK(shapes.output.size() == equation.output.size() + static_cast<size_t>(elided),
               kInvalidArgument, "[keras] Layer \"", layer, "\": output_shape has ", partial.size(),
               " sizes; expected ", equation.output.size() - (shift == 0 ? 1 : 0), " for '",
               equation.output, "'");
  std::map<char, int64_t> input_at, output_at;
  for (size_t i = 0; i < equation.input.size(); ++i) {
    input_at[equation.input[i]] = static_cast<int64_t>(i) + shift;
  }
  for (size_t i = 0; i < equation.output.size(); ++i) {
    output_at[equation.output[i]] = static_cast<int64_t>(i) + shift;
  }
  const auto input_size = [&](char dim) { return input[static_cast<size_t>(input_at.at(dim))]; };
  const auto output_size = [&](char dim) -> int64_t& {
    return shapes.output[static_cast<size_t>(output_at.at(dim))];
  };
  for (char dim : equation.input) {
    if (!output_at.contains(dim) || output_size(dim) == kNone) continue;
    STRATA_CHECK(input_size(dim) == kNone || output_size(dim) == input_size(dim), kInvalidArgument,
                 "[keras] Layer \"", layer,
                 "\": Input shape and output shape do not match at shared dimension '", dim,
                 "'. Input shape is ", input_size(dim), ", and output shape is ", output_size(dim));
  }
  for (char dim : equation.output) {
    STRATA_CHECK(input_at.contains(dim) || equation.kernel.find(dim) != std::string::npos,
                 kInvalidArgument, "[keras] Layer \"", layer, "\": Dimension '", dim,
                 "' was specified in the output '", equation.output,
                 "' but has no corresponding dim in the input spec '", equation.input,
                 "' or weight spec '", equation.kernel, "'");
  }
  for (char dim : equation.kernel) {
    const bool is_output = output_at.contains(dim);
    STRATA_CHECK(is_output || input_at.contains(dim), kInvalidArgument, "[keras] Layer \"", layer,
                 "\": Weight dimension '", dim, "' did not have a match in either the input spec '",
                 equation.input, "' or the output spec '", equation.output,
                 "'. For this layer, the weight must be fully specified.");
    const int64_t size = is_output ? output_size(dim) : input_size(dim);
    shapes.kernel.push_back(size);
    const auto axis = static_cast<int64_t>(shapes.kernel.size()) - 1;
    (is_output ? shapes.output_axes : shapes.input_axes).push_back(axis);
  }
  if (!bias_axes) return shapes;
  size_t first = std::string::npos;
  for (char dim : *bias_axes) {
    const size_t at = equation.output.find(dim);
    STRATA_CHECK(at != std::string::npos, kInvalidArgument, "[keras] Layer \"", layer,
                 "\": Bias dimension '", dim,
                 "' was requested, but is not part of the output spec '", equation.output, "'");
    first = std::min(first, at);
  }
  for (char dim : equation.output.substr(std::min(first, equation.output.size()))) {
    shapes.bias.push_back(bias_axes->find(dim) != std::string::npos ? output_size(dim) : 1);
  }
  if (!equation.left_elided) shapes.bias.insert(shapes.bias.end(), static_cast<size_t>(elided), 1);
  return shapes;
}

class EinsumDenseImpl final : public keras::UnaryLayerImpl {
 public:
  explicit EinsumDenseImpl(const EinsumDenseArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)),
        arguments_(arguments),
        equation_(parse(arguments.equation)) {}

  std::string_view class_name() const override { return "EinsumDense"; }

  /// The weights as matrices, if the equation is a product of matrices: "ab cd, cd ef -> ab ef".
  std::optional<DenseProjection> as_matrices(const at::Tensor& x) const {
    const size_t summed = summed_axes();
    if (summed == 0 || static_cast<size_t>(x.dim()) != equation_.input.size()) return std::nullopt;
    const at::Tensor kernel = cast(*kernel_, x);
    DenseProjection result;
    const auto axes = static_cast<int64_t>(summed);
    result.features = kernel.sizes().slice(summed).vec();
    // What does not fit is reported by einsum.
    if (x.sizes().slice(equation_.input.size() - summed) != kernel.sizes().slice(0, summed)) {
      return std::nullopt;
    }
    result.kernel = kernel.flatten(axes).flatten(0, axes - 1);
    if (!bias_) return result;
    const at::Tensor bias = cast(*bias_, x);
    if (bias.sizes() != at::IntArrayRef(result.features)) return std::nullopt;
    result.bias = bias.flatten();
    return result;
  }
  bool is_linear() const {
    return arguments_.options.activation.is_linear() && !arguments_.options.activity_regularizer;
  }

 private:
  /// How many letters are summed over, in a product of matrices; 0: it is none.
  size_t summed_axes() const {
    const auto& [input, kernel, output, left_elided, right_elided] = equation_;
    if (left_elided || right_elided) return 0;
    for (size_t summed = 1; summed < std::min(input.size(), kernel.size()); ++summed) {
      const std::string kept = input.substr(0, input.size() - summed);
      const std::string features = kernel.substr(summed);
      if (input == kept + kernel.substr(0, summed) && output == kept + features &&
          kept.find_first_of(kernel) == std::string::npos) {
        return summed;
      }
    }
    return 0;
  }

  void describe(keras::ConfigWriter& config) const override {
    visit_einsum_dense(config, arguments_);
  }

  EinsumShapes shapes_for(const Shape& input) const {
    return analyze(equation_, arguments_.options.bias_axes, input, arguments_.output_shape.sizes,
                   name());
  }

  void build(const Shape& input) override {
    const EinsumDenseOptions& options = arguments_.options;
    const EinsumShapes shapes = shapes_for(input);
    kernel_ = add_weight("kernel", shapes.kernel,
                         {.initializer = options.kernel_initializer.with_fan_axes(
                              shapes.input_axes, shapes.output_axes),
                          .regularizer = options.kernel_regularizer,
                          .constraint = options.kernel_constraint});
    if (options.bias_axes) {
      bias_ = add_weight("bias", shapes.bias, bias_weight(options));
    }
    set_input_spec({{.ndim = static_cast<int64_t>(input.size())}});
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    at::Tensor y;
    if (const auto matrices = as_matrices(x)) {
      const int64_t inputs = matrices->kernel.size(0);
      const auto kept = x.sizes().slice(0, equation_.input.size() - summed_axes());
      int64_t rows = 1;
      for (int64_t size : kept) rows *= size;
      const at::Tensor flat = x.reshape({rows, inputs});
      y = bias_ ? at::addmm(matrices->bias, flat, matrices->kernel)
                : at::mm(flat, matrices->kernel);
      Shape sizes = kept.vec();
      sizes.insert(sizes.end(), matrices->features.begin(), matrices->features.end());
      y = y.view(sizes);
    } else {
      y = at::einsum(arguments_.equation, {x, cast(*kernel_, x)});
      if (bias_) y = y + cast(*bias_, x);
    }
    y = arguments_.options.activation(y);
    add_activity_loss(arguments_.options.activity_regularizer, y);
    return y;
  }

  Shape compute_output_shape(const Shape& input) const override { return shapes_for(input).output; }

  EinsumDenseArguments arguments_;
  Equation equation_;
  std::optional<Variable> kernel_;
  std::optional<Variable> bias_;
};

}  // namespace

std::optional<DenseProjection> dense_projection(const EinsumDense& layer, const at::Tensor& x) {
  const auto& impl = static_cast<const EinsumDenseImpl&>(*layer);
  return impl.is_linear() ? impl.as_matrices(x) : std::nullopt;
}

EinsumDense::EinsumDense(const std::string& equation, const keras::Shape& output_shape,
                         const EinsumDenseOptions& options)
    : Layer(std::make_shared<EinsumDenseImpl>(
          EinsumDenseArguments{equation, {output_shape}, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> einsum_dense_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("EinsumDense", EinsumDenseImpl, EinsumDenseArguments)};
}

}  // namespace strata::keras
