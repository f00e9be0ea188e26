#include "strata/keras/layers/core.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/any.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "graph/host_call.h"
#include "graph/inference_mode.h"
#include "graph/remote/step_runner.h"
#include "keras/fusion.h"
#include "keras/graph/input_layer.h"
#include "keras/layers/layer_class.h"
#include "strata/keras/layers/reversible_embedding.h"

namespace strata::layers {
namespace {

struct EmbeddingArguments {
  int64_t input_dim = 0;
  int64_t output_dim = 0;
  EmbeddingOptions options = {};
};

template <typename Config, typename Arguments>
void visit_embedding(Config& config, Arguments& arguments) {
  auto& options = arguments.options;
  config("input_dim", arguments.input_dim);
  config("output_dim", arguments.output_dim);
  config("embeddings_initializer", options.embeddings_initializer);
  config("embeddings_regularizer", options.embeddings_regularizer);
  config("activity_regularizer", options.activity_regularizer);
  config("embeddings_constraint", options.embeddings_constraint);
  config("mask_zero", options.mask_zero);
}
void visit(keras::ConfigReader& config, EmbeddingArguments& arguments) {
  visit_embedding(config, arguments);
  config.ignore("input_length");  // of old files
}

/// @throws Error kInvalidArgument: sizes that are not positive.
void check_sizes(const char* class_name, int64_t input_dim, int64_t output_dim) {
  STRATA_CHECK(input_dim > 0, kInvalidArgument, "[layers] ", class_name,
               ": `input_dim` must be a positive integer. Received: input_dim=", input_dim);
  STRATA_CHECK(output_dim > 0, kInvalidArgument, "[layers] ", class_name,
               ": `output_dim` must be a positive integer. Received: output_dim=", output_dim);
}

void check_tokens(const at::Tensor& tokens, int64_t input_dim, const std::string& layer) {
  if (tokens.numel() == 0) return;
  const auto [least, most] = at::aminmax(tokens);
  const auto first = least.item<int64_t>();
  const auto last = most.item<int64_t>();
  STRATA_CHECK(first >= 0 && last < input_dim, kOutOfRange, "[keras] Layer \"", layer,
               "\": got tokens from ", first, " to ", last,
               "; expected 0 <= token < input_dim = ", input_dim);
}

/// The rows of a table that tokens choose.
at::Tensor rows_of(const Variable& table, const at::Tensor& given, const std::string& layer) {
  const bool is_index = given.scalar_type() == at::kInt || given.scalar_type() == at::kLong;
  const at::Tensor tokens = is_index ? given : given.to(at::kInt);
  const int64_t input_dim = table.sizes()[0];
  if (graph::tracing() && !graph::tracing_inference() && !graph::records_for_elsewhere()) {
    // Replays have the operator alone, whose error does not say whose it is.
    graph::call_host("strata::check_tokens", {tokens}, {},
                     [input_dim, layer](const keras::Tensors& inputs) {
                       check_tokens(inputs[0], input_dim, layer);
                       return keras::Tensors();
                     });
  }
  try {
    const bool sparse = !graph::records_for_compiler();  // which knows dense tensors alone
    return at::embedding(table.value(), tokens, /*padding_idx=*/-1,
                         /*scale_grad_by_freq=*/false, sparse);
  } catch (const c10::IndexError&) {
    check_tokens(tokens, input_dim, layer);
    throw;
  }
}

class EmbeddingImpl final : public keras::UnaryLayerImpl, public keras::detail::Fusible {
 public:
  explicit EmbeddingImpl(const EmbeddingArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_sizes("Embedding", arguments.input_dim, arguments.output_dim);
  }

  std::string_view class_name() const override { return "Embedding"; }
  keras::detail::FusionRole fusion_role() const override {
    return keras::detail::FusionRole::kEmbedding;
  }

 private:
  void describe(keras::ConfigWriter& config) const override { visit_embedding(config, arguments_); }

  void build(const keras::Shape&) override {
    const EmbeddingOptions& options = arguments_.options;
    table_ = add_weight("embeddings", {arguments_.input_dim, arguments_.output_dim},
                        {.initializer = options.embeddings_initializer,
                         .regularizer = options.embeddings_regularizer,
                         .constraint = options.embeddings_constraint});
  }

  at::Tensor call(const at::Tensor& given, const keras::Call&) override {
    const at::Tensor y = rows_of(*table_, given, name()).to(dtype().compute_dtype());
    add_activity_loss(arguments_.options.activity_regularizer, y);
    return y;
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    keras::Shape output = input;
    output.push_back(arguments_.output_dim);
    return output;
  }
  keras::Tensors compute_masks(const keras::Tensors& inputs, const keras::Call&) const override {
    if (!arguments_.options.mask_zero) return {};
    return {inputs[0] != 0};
  }
  bool makes_masks() const override { return arguments_.options.mask_zero; }
  bool autocast() const override { return false; }

  EmbeddingArguments arguments_;
  std::optional<Variable> table_;
};

struct ReversibleEmbeddingArguments {
  int64_t input_dim = 0;
  int64_t output_dim = 0;
  ReversibleEmbeddingOptions options = {};
};

template <typename Config, typename Arguments>
void visit_reversible(Config& config, Arguments& arguments) {
  auto& options = arguments.options;
  visit_embedding(config, arguments);
  config("tie_weights", options.tie_weights);
  config("reverse_dtype", options.reverse_dtype);
  config("logit_soft_cap", options.logit_soft_cap);
}
void visit(keras::ConfigReader& config, ReversibleEmbeddingArguments& arguments) {
  visit_reversible(config, arguments);
}

class ReversibleEmbeddingImpl final : public keras::LayerImpl {
 public:
  explicit ReversibleEmbeddingImpl(const ReversibleEmbeddingArguments& arguments)
      : LayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_sizes("ReversibleEmbedding", arguments.input_dim, arguments.output_dim);
    const auto& reverse = arguments.options.reverse_dtype;
    STRATA_CHECK(!reverse || at::isFloatingType(keras::detail::dtype_of_name(*reverse)),
                 kInvalidArgument, "[layers] ReversibleEmbedding: got reverse_dtype='",
                 reverse.value_or(""), "'; expected a floating dtype, 'float32' say");
  }
  std::string_view class_name() const override { return "ReversibleEmbedding"; }

 private:
  void describe(keras::ConfigWriter& config) const override {
    visit_reversible(config, arguments_);
  }

  void build(const std::vector<keras::Shape>&) override {
    const ReversibleEmbeddingOptions& options = arguments_.options;
    table_ = add_weight("embeddings", {arguments_.input_dim, arguments_.output_dim},
                        {.initializer = options.embeddings_initializer,
                         .regularizer = options.embeddings_regularizer,
                         .constraint = options.embeddings_constraint});
    if (options.tie_weights) return;
    reverse_ = add_weight("reverse_embeddings", {arguments_.output_dim, arguments_.input_dim},
                          {.initializer = options.embeddings_initializer});
  }

  static bool is_reverse(const Json& options) {
    const Json* reverse = options.is_object() ? options.find("reverse") : nullptr;
    return reverse != nullptr && reverse->is_bool() && reverse->as_bool();
  }

  keras::Tensors call(const keras::Tensors& inputs, const keras::Call& call) override {
    const at::ScalarType compute = dtype().compute_dtype();
    if (!is_reverse(call.options)) {
      const at::Tensor y = rows_of(*table_, inputs.at(0), name()).to(compute);
      add_activity_loss(arguments_.options.activity_regularizer, y);
      return {y};
    }
    at::Tensor kernel = reverse_ ? reverse_->value_as(compute) : table_->value_as(compute).t();
    at::Tensor x = inputs.at(0);
    if (const auto& reverse = arguments_.options.reverse_dtype) {
      const at::ScalarType dtype = keras::detail::dtype_of_name(*reverse);
      x = x.to(dtype);
      kernel = kernel.to(dtype);
    }
    const at::ScalarType common = c10::promoteTypes(x.scalar_type(), kernel.scalar_type());
    at::Tensor logits = at::matmul(x.to(common), kernel.to(common));
    if (const auto& cap = arguments_.options.logit_soft_cap) logits = (logits / *cap).tanh() * *cap;
    return {logits};
  }

  std::vector<keras::Shape> compute_output_shapes(const std::vector<keras::Shape>& inputs,
                                                  const Json& options) const override {
    keras::Shape output = inputs.at(0);
    if (is_reverse(options)) {
      output.back() = arguments_.input_dim;
    } else {
      output.push_back(arguments_.output_dim);
    }
    return {output};
  }
  keras::Tensors compute_masks(const keras::Tensors& inputs,
                               const keras::Call& call) const override {
    if (!arguments_.options.mask_zero || is_reverse(call.options)) return {};
    return {inputs[0] != 0};
  }
  bool makes_masks() const override { return arguments_.options.mask_zero; }
  bool autocast() const override { return false; }

  ReversibleEmbeddingArguments arguments_;
  std::optional<Variable> table_;
  std::optional<Variable> reverse_;
};

struct MaskingArguments {
  MaskingOptions options = {};
};

template <typename Config, typename Arguments>
void visit_masking(Config& config, Arguments& arguments) {
  config("mask_value", arguments.options.mask_value);
}
void visit(keras::ConfigReader& config, MaskingArguments& arguments) {
  visit_masking(config, arguments);
}

class MaskingImpl final : public keras::UnaryLayerImpl {
 public:
  explicit MaskingImpl(const MaskingArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {}

  std::string_view class_name() const override { return "Masking"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit_masking(config, arguments_); }

  at::Tensor steps_that_count(const at::Tensor& x) const {
    return at::any(x != arguments_.options.mask_value, -1);
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    return at::where(steps_that_count(x).unsqueeze(-1), x, at::zeros({}, x.options()));
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override { return input; }
  keras::Tensors compute_masks(const keras::Tensors& inputs, const keras::Call&) const override {
    return {steps_that_count(inputs[0])};
  }
  bool makes_masks() const override { return true; }
  bool supports_masking() const override { return true; }

  MaskingArguments arguments_;
};

/// The options of a call from rows to logits.
Json reversed() {
  Json options = Json::object();
  options.set("reverse", true);
  return options;
}

}  // namespace

Embedding::Embedding(int64_t input_dim, int64_t output_dim, const EmbeddingOptions& options)
    : Layer(std::make_shared<EmbeddingImpl>(EmbeddingArguments{input_dim, output_dim, options})) {}
ReversibleEmbedding::ReversibleEmbedding(int64_t input_dim, int64_t output_dim,
                                         const ReversibleEmbeddingOptions& options)
    : Layer(std::make_shared<ReversibleEmbeddingImpl>(
          ReversibleEmbeddingArguments{input_dim, output_dim, options})) {}
at::Tensor ReversibleEmbedding::reverse(const at::Tensor& x) const {
  return call({x}, keras::Call{.options = reversed()}).at(0);
}
keras::SymbolicTensor ReversibleEmbedding::reverse(const keras::SymbolicTensor& x) const {
  return call({x}, reversed()).at(0);
}
Masking::Masking(const MaskingOptions& options)
    : Layer(std::make_shared<MaskingImpl>(MaskingArguments{options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> embedding_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Embedding", EmbeddingImpl, EmbeddingArguments),
          STRATA_LAYER_CLASS("ReversibleEmbedding", ReversibleEmbeddingImpl,
                             ReversibleEmbeddingArguments),
          STRATA_LAYER_CLASS("Masking", MaskingImpl, MaskingArguments)};
}

}  // namespace strata::keras
