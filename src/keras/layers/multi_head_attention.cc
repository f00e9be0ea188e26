#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>

#include "keras/layers/attention_heads.h"
#include "keras/layers/layer_axes.h"
#include "keras/layers/partial_shape.h"
#include "strata/keras/layers/attention.h"

namespace strata::layers {
namespace {

using keras::kNone;
using keras::Shape;
using keras::Tensors;

struct MultiHeadAttentionArguments {
  int64_t num_heads = 0;
  int64_t key_dim = 0;
  MultiHeadAttentionOptions options = {};
};
void visit(keras::ConfigReader& config, MultiHeadAttentionArguments& arguments) {
  MultiHeadAttentionOptions& options = arguments.options;
  config("num_heads", arguments.num_heads);
  config("key_dim", arguments.key_dim);
  config("value_dim", options.value_dim);
  config("attention_axes", options.attention_axes);
  std::optional<PartialShape> output_shape;
  config("output_shape", output_shape);
  if (output_shape) options.output_shape = output_shape->sizes;
  visit_heads(config, options);
  read_new_options(config, options);
}

char letter(size_t i) { return static_cast<char>('a' + i); }

std::string letters(size_t from, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += letter(from + i);
  return text;
}

/// Source: keras.src.layers.attention.multi_head_attention._build_proj_equation.
struct Projection {
  std::string equation;
  std::string bias_axes;

  Projection(size_t free, size_t bound, size_t outputs) {
    const std::string kept = letters(0, free);
    const std::string summed = letters(free, bound);
    bias_axes = letters(free + bound, outputs);
    equation = str_cat(kept, summed, ",", summed, bias_axes, "->", kept, bias_axes);
  }
};

class MultiHeadAttentionImpl final : public HeadsImpl {
 public:
  explicit MultiHeadAttentionImpl(const MultiHeadAttentionArguments& arguments)
      : HeadsImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    const auto positive = [](const char* argument, int64_t value) {
      STRATA_CHECK(value > 0, kInvalidArgument,
                   "[layers] MultiHeadAttention: Received an invalid value for argument `",
                   argument, "`, expected a positive integer. Received: ", argument, "=", value);
    };
    MultiHeadAttentionOptions& options = arguments_.options;
    if (!options.value_dim) options.value_dim = arguments.key_dim;
    positive("num_heads", arguments.num_heads);
    positive("key_dim", arguments.key_dim);
    positive("value_dim", *options.value_dim);
    check_window(options.sliding_window, "MultiHeadAttention");
    if (options.attention_axes) options.attention_axes->is_list = true;
  }

  std::string_view class_name() const override { return "MultiHeadAttention"; }

 private:
  void describe(keras::ConfigWriter& config) const override {
    const MultiHeadAttentionOptions& options = arguments_.options;
    config("num_heads", arguments_.num_heads);
    config("key_dim", arguments_.key_dim);
    config("value_dim", options.value_dim);
    config("attention_axes", options.attention_axes);
    config("output_shape",
           options.output_shape ? to_config(PartialShape{*options.output_shape}) : Json());
    visit_heads(config, options);
    write_new_options(config, options);
  }

  void build_heads(const Shape& query, const Shape& key, const Shape& value) override {
    check_key(value, key);
    MultiHeadAttentionOptions& options = arguments_.options;
    const int64_t heads = arguments_.num_heads;
    const auto dense = [&](const char* path, const std::string& name, const Projection& projection,
                           const Shape& last, const Shape& input) {
      // Of all letters of the output but the batch's.
      Shape output(projection.equation.size() - projection.equation.find('>') - 2, kNone);
      std::copy(last.begin(), last.end(), output.end() - static_cast<std::ptrdiff_t>(last.size()));
      EinsumDense layer(projection.equation, output,
                        dense_options(options, name, projection.bias_axes, dtype()));
      layer->ensure_built({input});
      return track(path, layer);
    };
    const auto to_heads = [&](const Shape& input) { return Projection(input.size() - 1, 1, 2); };
    query_.emplace(
        dense("query_dense", "query", to_heads(query), {heads, arguments_.key_dim}, query));
    key_.emplace(dense("key_dense", "key", to_heads(key), {heads, arguments_.key_dim}, key));
    if (options.use_gate) {
      gate_.emplace(
          dense("_gate_dense", "gate", to_heads(query), {heads, *options.value_dim}, query));
    }
    value_.emplace(
        dense("value_dense", "value", to_heads(value), {heads, *options.value_dim}, value));
    const auto rank = static_cast<int64_t>(value.size()) + 1;  // of what comes out of value_dense
    std::vector<int64_t> axes;
    if (options.attention_axes) {
      for (int64_t axis : options.attention_axes->values) {
        axes.push_back(axis >= 0 ? axis : rank - 1 + axis);
      }
    } else {
      for (int64_t axis = 1; axis < rank - 2; ++axis) axes.push_back(axis);
    }
    options.attention_axes = Axes(axes);
    const Shape last = options.output_shape.value_or(Shape{query.back()});
    Shape joined = query;
    joined.back() = heads;
    joined.push_back(*options.value_dim);
    output_.emplace(dense("output_dense", "attention_output",
                          Projection(query.size() - 1, 2, last.size()), last, joined));
  }

  Settings settings() const override {
    return {.dropout = arguments_.options.dropout,
            .scale = 1 / std::sqrt(static_cast<double>(arguments_.key_dim)),
            .sliding_window = arguments_.options.sliding_window,
            .axes = arguments_.options.attention_axes->values};
  }

  Heads project(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) override {
    return project_with(*query_, *key_, *value_, query, key, value);
  }
  at::Tensor finish(const at::Tensor& heads, const at::Tensor& query) override {
    return (*output_)(gate_ ? heads * (*gate_)(query) : heads);
  }
  bool takes_query_mask() const override { return false; }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json& options) const override {
    check(inputs);
    check_key(inputs[1], inputs.at(places(inputs.size(), options).key));
    Shape output = inputs[0];
    if (const auto& last = arguments_.options.output_shape) {
      output.pop_back();
      output.insert(output.end(), last->begin(), last->end());
    }
    std::vector<Shape> shapes{output};
    if (!options.is_null() && asked(options.find("return_attention_scores"))) {
      Shape scores;
      const auto rank = static_cast<int64_t>(inputs[0].size());
      const std::vector<int64_t>& axes = arguments_.options.attention_axes->values;
      for (int64_t d = 0; d < rank - 1; ++d) {
        if (std::find(axes.begin(), axes.end(), d) == axes.end()) {
          scores.push_back(inputs[0][static_cast<size_t>(d)]);
        }
      }
      scores.push_back(arguments_.num_heads);
      for (int64_t axis : axes) scores.push_back(inputs[0][static_cast<size_t>(axis)]);
      for (int64_t axis : axes) scores.push_back(inputs[1][static_cast<size_t>(axis)]);
      shapes.push_back(scores);
    }
    return shapes;
  }

  MultiHeadAttentionArguments arguments_;
  std::optional<EinsumDense> query_, key_, gate_, value_, output_;
};

}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t num_heads, int64_t key_dim,
                                       const MultiHeadAttentionOptions& options)
    : QueryValueLayer(std::make_shared<MultiHeadAttentionImpl>(
          MultiHeadAttentionArguments{num_heads, key_dim, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> multi_head_attention_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("MultiHeadAttention", MultiHeadAttentionImpl,
                             MultiHeadAttentionArguments)};
}

}  // namespace strata::keras
