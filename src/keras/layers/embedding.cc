#include "strata/keras/layers/core.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/any.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "graph/host_call.h"
#include "graph/inference_mode.h"
#include "graph/remote/step_runner.h"
#include "keras/fusion.h"
#include "keras/layers/layer_class.h"

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

class EmbeddingImpl final : public keras::UnaryLayerImpl, public keras::detail::Fusible {
 public:
  explicit EmbeddingImpl(const EmbeddingArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    STRATA_CHECK(arguments.input_dim > 0, kInvalidArgument,
                 "[layers] Embedding: `input_dim` must be a positive integer. Received: input_dim=",
                 arguments.input_dim);
    STRATA_CHECK(
        arguments.output_dim > 0, kInvalidArgument,
        "[layers] Embedding: `output_dim` must be a positive integer. Received: output_dim=",
        arguments.output_dim);
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
    const bool is_index = given.scalar_type() == at::kInt || given.scalar_type() == at::kLong;
    const at::Tensor tokens = is_index ? given : given.to(at::kInt);
    if (graph::tracing() && !graph::tracing_inference() && !graph::records_for_elsewhere()) {
      // Replays have the operator alone, whose error does not say whose it is.
      graph::call_host("strata::check_tokens", {tokens}, {}, [this](const keras::Tensors& inputs) {
        check_tokens(inputs[0]);
        return keras::Tensors();
      });
    }
    at::Tensor y;
    try {
      const bool sparse = !graph::records_for_compiler();  // which knows dense tensors alone
      y = at::embedding(table_->value(), tokens, /*padding_idx=*/-1,
                        /*scale_grad_by_freq=*/false, sparse);
    } catch (const c10::IndexError&) {
      check_tokens(tokens);
      throw;
    }
    y = y.to(dtype().compute_dtype());
    add_activity_loss(arguments_.options.activity_regularizer, y);
    return y;
  }

  void check_tokens(const at::Tensor& tokens) const {
    if (tokens.numel() == 0) return;
    const auto [least, most] = at::aminmax(tokens);
    const auto first = least.item<int64_t>();
    const auto last = most.item<int64_t>();
    STRATA_CHECK(first >= 0 && last < arguments_.input_dim, kOutOfRange, "[keras] Layer \"", name(),
                 "\": got tokens from ", first, " to ", last,
                 "; expected 0 <= token < input_dim = ", arguments_.input_dim);
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

}  // namespace

Embedding::Embedding(int64_t input_dim, int64_t output_dim, const EmbeddingOptions& options)
    : Layer(std::make_shared<EmbeddingImpl>(EmbeddingArguments{input_dim, output_dim, options})) {}
Masking::Masking(const MaskingOptions& options)
    : Layer(std::make_shared<MaskingImpl>(MaskingArguments{options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> embedding_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Embedding", EmbeddingImpl, EmbeddingArguments),
          STRATA_LAYER_CLASS("Masking", MaskingImpl, MaskingArguments)};
}

}  // namespace strata::keras
