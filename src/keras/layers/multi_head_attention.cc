#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "keras/call_context.h"
#include "keras/default_name.h"
#include "keras/layers/layer_axes.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/partial_shape.h"
#include "strata/keras/layers/attention.h"
#include "strata/keras/layers/einsum_dense.h"

namespace strata::layers {
namespace {

using keras::Call;
using keras::kNone;
using keras::Shape;
using keras::Tensors;

bool asked(const Json* option) {
  return option != nullptr && option->is_bool() && option->as_bool();
}

/// Options that say where a tensor stands.
constexpr const char* kTensorOptions[] = {"key", "attention_mask", "query_mask", "value_mask",
                                          "key_mask"};

/// Which of the inputs is what.
struct Places {
  size_t key = 1;
  std::optional<size_t> attention_mask = {};
  std::optional<size_t> query_mask = {};
  std::optional<size_t> value_mask = {};
  std::optional<size_t> key_mask = {};
  bool has_key = false;
};

Places places(size_t count, const Json& options) {
  Places places;
  std::set<size_t> named;
  const auto place = [&](const char* name) -> std::optional<size_t> {
    const Json* option = options.is_null() ? nullptr : options.find(name);
    if (option == nullptr || option->is_null()) return std::nullopt;
    const auto index = static_cast<size_t>(option->at("tensor").as_int());
    named.insert(index);
    return index;
  };
  const auto key = place(kTensorOptions[0]);
  places.attention_mask = place(kTensorOptions[1]);
  places.query_mask = place(kTensorOptions[2]);
  places.value_mask = place(kTensorOptions[3]);
  places.key_mask = place(kTensorOptions[4]);
  places.has_key = key.has_value();
  if (key) places.key = *key;
  for (size_t i = 2; i < count && !places.has_key; ++i) {
    if (named.contains(i)) continue;
    places.key = i;
    places.has_key = true;
  }
  return places;
}

/// What the two layers share: projections to heads, attention, projection back.
class HeadsImpl : public keras::LayerImpl {
 public:
  using LayerImpl::LayerImpl;

 protected:
  struct Heads {
    at::Tensor query;  ///< `[batch, target..., heads, size]`
    at::Tensor key;
    at::Tensor value;
  };
  struct Settings {
    double dropout;
    double scale;
    std::optional<int64_t> sliding_window;
    std::vector<int64_t> axes;  ///< Those that are attended over.
  };
  virtual Settings settings() const = 0;
  virtual Heads project(const at::Tensor& query, const at::Tensor& key,
                        const at::Tensor& value) = 0;
  /// `query` is the layer's input: for the gate.
  virtual at::Tensor finish(const at::Tensor& heads, const at::Tensor& query) = 0;
  /// Of the layer's outputs; that of its projections is their own.
  virtual regularizers::Regularizer activity_regularizer() const { return {}; }
  /// An explicit mask of the query counts only where none came with it.
  virtual bool takes_query_mask() const = 0;
  virtual void build_heads(const Shape& query, const Shape& key, const Shape& value) = 0;

  void build(const std::vector<Shape>& inputs) override {
    check(inputs);
    build_heads(inputs[0], inputs.at(places(inputs.size(), build_options()).key), inputs[1]);
  }

  void check(const std::vector<Shape>& inputs) const {
    STRATA_CHECK(inputs.size() >= 2, kInvalidArgument, "[keras] Layer \"", name(), "\": got ",
                 inputs.size(), " input(s); expected query and value");
  }

  void check_key(const Shape& value, const Shape& key) const {
    bool fits = value.size() == key.size();
    for (size_t i = 1; fits && i + 1 < value.size(); ++i) {
      fits = value[i] == key[i] || value[i] == kNone || key[i] == kNone;
    }
    STRATA_CHECK(fits, kInvalidArgument, "[keras] Layer \"", name(),
                 "\": All dimensions of `value` and `key`, except the last one, must be equal. "
                 "Received: value_shape=",
                 keras::to_string(value), " and key_shape=", keras::to_string(key));
  }

  Tensors call(const Tensors& inputs, const Call& call) override {
    check(std::vector<Shape>(inputs.size()));
    const Places at = places(inputs.size(), call.options);
    const at::Tensor& query = inputs[0];
    const at::Tensor& value = inputs[1];
    const at::Tensor& key = inputs.at(at.key);
    check_key(value.sizes().vec(), key.sizes().vec());
    const bool causal = asked(call.option("use_causal_mask"));
    const bool wants_scores = asked(call.option("return_attention_scores"));
    const Settings settings = this->settings();

    at::Tensor seen = masks_of_steps(inputs, at, call);
    if (seen.defined() || settings.sliding_window || at.attention_mask) {
      if (causal) seen = both(seen, causal_mask(query, value));
      if (settings.sliding_window) seen = both(seen, window_mask(query, value));
      if (at.attention_mask) seen = both(seen, inputs.at(*at.attention_mask).to(at::kBool));
    }
    const bool causal_only = causal && !seen.defined();

    const Heads heads = project(query, key, value);
    const bool plain = settings.dropout <= 0 && !wants_scores && heads.query.dim() == 4;
    Tensors outputs;
    if (plain) {
      outputs = {finish(attend(heads, seen, causal_only, settings.scale), query)};
    } else {
      if (causal_only) seen = causal_mask(query, value);
      const auto [output, scores] = attend_with_scores(heads, seen, settings, call.training);
      outputs = {finish(output, query)};
      if (wants_scores) outputs.push_back(scores);
    }
    for (const at::Tensor& y : outputs) add_activity_loss(activity_regularizer(), y);
    return outputs;
  }

 private:
  static at::Tensor both(const at::Tensor& a, const at::Tensor& b) {
    return a.defined() ? a.logical_and(b) : b;
  }

  at::Tensor masks_of_steps(const Tensors& inputs, const Places& at, const Call& call) const {
    const auto given = [&](const std::optional<size_t>& place) {
      return place ? inputs.at(*place) : at::Tensor();
    };
    const auto either = [&](const at::Tensor& first, const at::Tensor& second) {
      const at::Tensor mask = first.defined() ? first : second;
      return mask.defined() ? mask.to(at::kBool) : mask;
    };
    const at::Tensor query =
        takes_query_mask() ? either(given(at.query_mask), call.mask(0)) : either(call.mask(0), {});
    const at::Tensor value = either(given(at.value_mask), call.mask(1));
    const at::Tensor key =
        either(given(at.key_mask), at.has_key ? call.mask(at.key) : at::Tensor());
    at::Tensor seen;
    if (query.defined()) seen = query.unsqueeze(-1);
    if (value.defined()) seen = both(seen, value.unsqueeze(-2));
    if (key.defined()) seen = both(seen, key.unsqueeze(-2));
    return seen;
  }

  static at::Tensor causal_mask(const at::Tensor& query, const at::Tensor& value) {
    return at::ones({1, query.size(1), value.size(1)}, query.options().dtype(at::kBool)).tril();
  }
  at::Tensor window_mask(const at::Tensor& query, const at::Tensor& value) const {
    const auto options = query.options().dtype(at::kLong);
    const at::Tensor rows = at::arange(query.size(1), options).unsqueeze(-1);
    const at::Tensor columns = at::arange(value.size(1), options);
    return ((rows - columns).abs() < *settings().sliding_window).unsqueeze(0);
  }

  /// With size-1 dimensions after the batch until it has `rank`.
  static at::Tensor widened(at::Tensor mask, int64_t rank, int64_t axis) {
    while (mask.dim() < rank) mask = mask.unsqueeze(axis);
    return mask;
  }

  /// keras.ops.dot_product_attention: a row that sees nothing is the mean of all values.
  static at::Tensor attend(const Heads& heads, const at::Tensor& seen, bool causal, double scale) {
    const at::Tensor q = heads.query.transpose(1, 2);
    const at::Tensor k = heads.key.transpose(1, 2);
    const at::Tensor v = heads.value.transpose(1, 2);
    if (!seen.defined() && q.numel() > 0 && k.numel() > 0) {
      return at::scaled_dot_product_attention(q, k, v, {}, /*dropout_p=*/0, causal, scale)
          .transpose(1, 2);
    }
    const bool half = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
    at::Tensor scores = at::matmul(q, k.transpose(-2, -1));
    if (half) scores = scores.to(at::kFloat);
    scores = scores * scale;
    if (seen.defined()) {
      scores = at::where(widened(seen, 4, -3), scores,
                         at::full({}, -0.7 * 3.38953e38, scores.options()));
    }
    return at::matmul(at::softmax(scores, -1).to(v.scalar_type()), v).transpose(1, 2);
  }

  /// keras.layers.Softmax with a mask: a row that sees nothing is 0.
  std::pair<at::Tensor, at::Tensor> attend_with_scores(const Heads& heads, const at::Tensor& seen,
                                                       const Settings& settings,
                                                       bool training) const {
    // [batch, not attended..., heads, | attended... | size]
    const int64_t rank = heads.query.dim();
    std::vector<int64_t> order;
    for (int64_t d = 0; d < rank - 1; ++d) {
      if (std::find(settings.axes.begin(), settings.axes.end(), d) == settings.axes.end()) {
        order.push_back(d);
      }
    }
    const auto kept = static_cast<int64_t>(order.size());
    order.insert(order.end(), settings.axes.begin(), settings.axes.end());
    order.push_back(rank - 1);
    const at::Tensor q = heads.query.permute(order);
    const at::Tensor k = heads.key.permute(order);
    const at::Tensor v = heads.value.permute(order);
    const auto flat = [&](const at::Tensor& x) {
      int64_t steps = 1;
      for (int64_t d = kept; d < rank - 1; ++d) steps *= x.size(d);
      int64_t batch = 1;
      for (int64_t d = 0; d < kept; ++d) batch *= x.size(d);
      return x.reshape({batch, steps, x.size(-1)});
    };
    std::vector<int64_t> shape(q.sizes().begin(), q.sizes().end() - 1);
    shape.insert(shape.end(), k.sizes().begin() + kept, k.sizes().end() - 1);
    at::Tensor scores = at::bmm(flat(q) * settings.scale, flat(k).transpose(1, 2)).reshape(shape);
    at::Tensor mask;
    if (seen.defined()) {
      const auto attended = static_cast<int64_t>(settings.axes.size());
      mask = widened(seen, scores.dim(), -2 * attended - 1);
      const double far = scores.scalar_type() == at::kHalf ? -3e4 : -1e9;
      scores = at::where(mask, scores, at::full({}, far, scores.options()));
    }
    int64_t sources = 1;
    for (int64_t d = kept; d < rank - 1; ++d) sources *= k.size(d);
    std::vector<int64_t> rows(q.sizes().begin(), q.sizes().end() - 1);
    rows.push_back(sources);
    scores = at::softmax(scores.reshape(rows), -1).reshape(shape);
    if (mask.defined()) scores = at::where(mask, scores, at::zeros({}, scores.options()));
    const at::Tensor weights =
        settings.dropout > 0 ? at::dropout(scores, settings.dropout, training) : scores;
    const at::Tensor values = flat(v);
    std::vector<int64_t> output_shape(q.sizes().begin(), q.sizes().end() - 1);
    output_shape.push_back(v.size(-1));
    const at::Tensor y =
        at::bmm(weights.reshape({values.size(0), flat(q).size(1), sources}), values)
            .reshape(output_shape);
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    }
    return {y.permute(back), scores};
  }

  bool supports_masking() const override { return true; }
};

/// What each of the projections is made from.
template <typename Options>
EinsumDenseOptions dense_options(const Options& options, const std::string& name,
                                 const std::string& bias_axes, const keras::DTypePolicy& dtype) {
  EinsumDenseOptions dense;
  if (options.use_bias) dense.bias_axes = bias_axes;
  dense.kernel_initializer = options.kernel_initializer;
  dense.bias_initializer = options.bias_initializer;
  dense.kernel_regularizer = options.kernel_regularizer;
  dense.bias_regularizer = options.bias_regularizer;
  dense.activity_regularizer = options.activity_regularizer;
  dense.kernel_constraint = options.kernel_constraint;
  dense.bias_constraint = options.bias_constraint;
  dense.name = name;
  dense.dtype = dtype;
  if (name == "gate") dense.activation = "sigmoid";
  return dense;
}

template <typename Config, typename Options>
void visit_heads(Config& config, Options& options) {
  config("dropout", options.dropout);
  config("use_bias", options.use_bias);
  config("kernel_initializer", options.kernel_initializer);
  config("bias_initializer", options.bias_initializer);
  config("kernel_regularizer", options.kernel_regularizer);
  config("bias_regularizer", options.bias_regularizer);
  config("activity_regularizer", options.activity_regularizer);
  config("kernel_constraint", options.kernel_constraint);
  config("bias_constraint", options.bias_constraint);
  config("seed", options.seed);
}
/// New options, which older versions of Keras refuse: written only where they say something.
template <typename Options>
void write_new_options(keras::ConfigWriter& config, const Options& options) {
  if (options.use_gate) config("use_gate", true);
  if (options.sliding_window) config("sliding_window", *options.sliding_window);
}
template <typename Options>
void read_new_options(keras::ConfigReader& config, Options& options) {
  config("use_gate", options.use_gate);
  config("sliding_window", options.sliding_window);
  config.ignore("flash_attention");
}

void check_window(const std::optional<int64_t>& window, const char* layer) {
  STRATA_CHECK(!window || *window > 0, kInvalidArgument, "[layers] ", layer,
               ": `sliding_window` must be `None` or a positive integer. Received: sliding_window=",
               window.value_or(0));
}

// --- MultiHeadAttention

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
    return {(*query_)(query), (*key_)(key), (*value_)(value)};
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

// --- GroupQueryAttention

struct GroupQueryAttentionArguments {
  int64_t head_dim = 0;
  int64_t num_query_heads = 0;
  int64_t num_key_value_heads = 0;
  GroupQueryAttentionOptions options = {};
};
template <typename Config, typename Arguments>
void visit_group_query(Config& config, Arguments& arguments) {
  config("head_dim", arguments.head_dim);
  config("num_query_heads", arguments.num_query_heads);
  config("num_key_value_heads", arguments.num_key_value_heads);
  visit_heads(config, arguments.options);
}
void visit(keras::ConfigReader& config, GroupQueryAttentionArguments& arguments) {
  visit_group_query(config, arguments);
  read_new_options(config, arguments.options);
}

keras::LayerOptions named_as_keras(const GroupQueryAttentionOptions& options) {
  keras::LayerOptions base = keras::base_options(options);
  // The class has another name in Python than in files.
  if (base.name.empty()) base.name = keras::detail::default_name("GroupedQueryAttention");
  return base;
}

class GroupQueryAttentionImpl final : public HeadsImpl {
 public:
  explicit GroupQueryAttentionImpl(const GroupQueryAttentionArguments& arguments)
      : HeadsImpl(named_as_keras(arguments.options)), arguments_(arguments) {
    STRATA_CHECK(arguments.num_key_value_heads > 0 && arguments.num_query_heads > 0 &&
                     arguments.num_query_heads % arguments.num_key_value_heads == 0,
                 kInvalidArgument,
                 "[layers] GroupQueryAttention: `num_query_heads` must be divisible by "
                 "`num_key_value_heads`. Received: ",
                 arguments.num_query_heads, " and ", arguments.num_key_value_heads);
    check_window(arguments.options.sliding_window, "GroupQueryAttention");
  }

  std::string_view class_name() const override { return "GroupQueryAttention"; }

 private:
  void describe(keras::ConfigWriter& config) const override {
    visit_group_query(config, arguments_);
    write_new_options(config, arguments_.options);
  }

  void check_width(const Shape& query, const Shape& value) const {
    STRATA_CHECK(query.size() == 3 && value.size() == 3, kInvalidArgument, "[keras] Layer \"",
                 name(), "\": expected query and value of 3 dimensions. Received: query_shape=",
                 keras::to_string(query), ", value_shape=", keras::to_string(value));
    STRATA_CHECK(
        query.back() == value.back(), kInvalidArgument, "[keras] Layer \"", name(),
        "\": The last dimension of `query_shape` and `value_shape` must be equal, but are ",
        query.back(), ", ", value.back(), ". Received: query_shape=", keras::to_string(query),
        ", value_shape=", keras::to_string(value));
  }

  void build_heads(const Shape& query, const Shape& key, const Shape& value) override {
    check_width(query, value);
    check_key(value, key);
    const GroupQueryAttentionOptions& options = arguments_.options;
    const int64_t size = arguments_.head_dim;
    const auto dense = [&](const char* path, const char* name, const char* equation,
                           const Shape& output, const char* bias_axes, const Shape& input) {
      EinsumDense layer(equation, output, dense_options(options, name, bias_axes, dtype()));
      layer->ensure_built({input});
      return track(path, layer);
    };
    const int64_t heads = arguments_.num_query_heads;
    const int64_t shared = arguments_.num_key_value_heads;
    query_.emplace(
        dense("_query_dense", "query", "bqm,muh->bquh", {kNone, heads, size}, "uh", query));
    key_.emplace(dense("_key_dense", "key", "bkm,mvh->bkvh", {kNone, shared, size}, "vh", key));
    if (options.use_gate) {
      gate_.emplace(
          dense("_gate_dense", "gate", "bqm,muh->bquh", {kNone, heads, size}, "uh", query));
    }
    value_.emplace(
        dense("_value_dense", "value", "bkm,mvh->bkvh", {kNone, shared, size}, "vh", value));
    output_.emplace(dense("_output_dense", "attention_output", "bquh,uhm->bqm",
                          {kNone, query.back()}, "m", {kNone, kNone, heads, size}));
  }

  Settings settings() const override {
    return {.dropout = arguments_.options.dropout,
            .scale = 1 / std::sqrt(static_cast<double>(arguments_.head_dim)),
            .sliding_window = arguments_.options.sliding_window,
            .axes = {1}};
  }

  Heads project(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) override {
    const int64_t repeats = arguments_.num_query_heads / arguments_.num_key_value_heads;
    return {(*query_)(query), (*key_)(key).repeat_interleave(repeats, 2),
            (*value_)(value).repeat_interleave(repeats, 2)};
  }
  at::Tensor finish(const at::Tensor& heads, const at::Tensor& query) override {
    return (*output_)(gate_ ? heads * (*gate_)(query) : heads);
  }
  bool takes_query_mask() const override { return true; }
  regularizers::Regularizer activity_regularizer() const override {
    return arguments_.options.activity_regularizer;
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json& options) const override {
    check(inputs);
    check_width(inputs[0], inputs[1]);
    check_key(inputs[1], inputs.at(places(inputs.size(), options).key));
    std::vector<Shape> shapes{inputs[0]};
    if (!options.is_null() && asked(options.find("return_attention_scores"))) {
      shapes.push_back({inputs[0][0], arguments_.num_query_heads, inputs[0][1], inputs[1][1]});
    }
    return shapes;
  }

  GroupQueryAttentionArguments arguments_;
  std::optional<EinsumDense> query_, key_, gate_, value_, output_;
};

template <typename T>
std::pair<std::vector<T>, Json> flatten(const T& query, const T& value,
                                        const AttentionCall<T>& call, bool with_scores) {
  std::vector<T> inputs{query, value};
  Json options = Json::object();
  const auto add = [&](const char* name, const std::optional<T>& tensor) {
    if (!tensor) return;
    Json place = Json::object();
    place.set("tensor", static_cast<int64_t>(inputs.size()));
    options.set(name, std::move(place));
    inputs.push_back(*tensor);
  };
  add("key", call.key);
  add("attention_mask", call.attention_mask);
  if (call.use_causal_mask) options.set("use_causal_mask", true);
  if (with_scores) options.set("return_attention_scores", true);
  return {std::move(inputs), std::move(options)};
}

}  // namespace

keras::SymbolicTensor QueryValueLayer::operator()(
    const keras::SymbolicTensor& query, const keras::SymbolicTensor& value,
    const AttentionCall<keras::SymbolicTensor>& options) const {
  auto [inputs, call_options] = flatten(query, value, options, false);
  return call(inputs, std::move(call_options)).at(0);
}
at::Tensor QueryValueLayer::operator()(const at::Tensor& query, const at::Tensor& value,
                                       const AttentionCall<at::Tensor>& options) const {
  auto [inputs, call_options] = flatten(query, value, options, false);
  return call(inputs, {.training = keras::detail::call_context().training,
                       .options = std::move(call_options)})
      .at(0);
}
std::pair<keras::SymbolicTensor, keras::SymbolicTensor> QueryValueLayer::with_scores(
    const keras::SymbolicTensor& query, const keras::SymbolicTensor& value,
    const AttentionCall<keras::SymbolicTensor>& options) const {
  auto [inputs, call_options] = flatten(query, value, options, true);
  const auto outputs = call(inputs, std::move(call_options));
  return {outputs.at(0), outputs.at(1)};
}
std::pair<at::Tensor, at::Tensor> QueryValueLayer::with_scores(
    const at::Tensor& query, const at::Tensor& value,
    const AttentionCall<at::Tensor>& options) const {
  auto [inputs, call_options] = flatten(query, value, options, true);
  const Tensors outputs = call(inputs, {.training = keras::detail::call_context().training,
                                        .options = std::move(call_options)});
  return {outputs.at(0), outputs.at(1)};
}

MultiHeadAttention::MultiHeadAttention(int64_t num_heads, int64_t key_dim,
                                       const MultiHeadAttentionOptions& options)
    : QueryValueLayer(std::make_shared<MultiHeadAttentionImpl>(
          MultiHeadAttentionArguments{num_heads, key_dim, options})) {}
GroupQueryAttention::GroupQueryAttention(int64_t head_dim, int64_t num_query_heads,
                                         int64_t num_key_value_heads,
                                         const GroupQueryAttentionOptions& options)
    : QueryValueLayer(std::make_shared<GroupQueryAttentionImpl>(
          GroupQueryAttentionArguments{head_dim, num_query_heads, num_key_value_heads, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> multi_head_attention_layers() {
  using namespace layers;  // NOLINT
  return {
      STRATA_LAYER_CLASS("MultiHeadAttention", MultiHeadAttentionImpl, MultiHeadAttentionArguments),
      STRATA_LAYER_CLASS("GroupQueryAttention", GroupQueryAttentionImpl,
                         GroupQueryAttentionArguments),
      STRATA_LAYER_CLASS("GroupedQueryAttention", GroupQueryAttentionImpl,
                         GroupQueryAttentionArguments)};
}

}  // namespace strata::keras
