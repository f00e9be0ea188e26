#include "strata/keras/layers/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "keras/call_context.h"
#include "keras/layers/layer_class.h"
#include "kernels/attention.h"

namespace strata::layers {
namespace {

using keras::Call;
using keras::Shape;
using keras::Tensors;

struct AttentionArguments {
  AttentionOptions options = {};
};
template <typename Config, typename Arguments>
void visit_attention(Config& config, Arguments& arguments) {
  config("use_scale", arguments.options.use_scale);
  config("dropout", arguments.options.dropout);
  config("seed", arguments.options.seed);
}
void visit(keras::ConfigReader& config, AttentionArguments& arguments) {
  visit_attention(config, arguments);
  config("score_mode", arguments.options.score_mode);
}

class AttentionImpl : public keras::LayerImpl {
 public:
  explicit AttentionImpl(const AttentionArguments& arguments)
      : LayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    const std::string& mode = arguments.options.score_mode;
    STRATA_CHECK(mode == "dot" || mode == "concat", kInvalidArgument,
                 "[layers] Attention: Invalid value for argument score_mode. Expected one of "
                 "{'dot', 'concat'}. Received: score_mode=",
                 mode);
  }

  std::string_view class_name() const override { return "Attention"; }

 protected:
  void describe(keras::ConfigWriter& config) const override {
    visit_attention(config, arguments_);
    config("score_mode", arguments_.options.score_mode);
  }

  void build(const std::vector<Shape>& inputs) override {
    check_count(inputs.size());
    if (arguments_.options.use_scale) scale_ = add_weight("scale", {}, {.initializer = "ones"});
    if (arguments_.options.score_mode == "concat") {
      concat_weight_ = add_weight("concat_score_weight", {}, {.initializer = "ones"});
    }
  }

  virtual at::Tensor scores(const at::Tensor& query, const at::Tensor& key) const {
    const auto value = [&](const Variable& weight) { return cast(weight, query); };
    if (arguments_.options.score_mode == "dot") {
      const at::Tensor scores = at::matmul(query, key.transpose(-2, -1));
      return scale_ ? scores * value(*scale_) : scores;
    }
    at::Tensor sum = query.unsqueeze(-2) + key.unsqueeze(-3);
    if (scale_) sum = sum * value(*scale_);
    return at::tanh(sum).sum(-1) * value(*concat_weight_);
  }

  void check_count(size_t count) const {
    STRATA_CHECK(count == 2 || count == 3, kInvalidArgument, "[keras] Layer \"", name(),
                 "\": ", class_name(),
                 " layer accepts inputs list of length 2 or 3, namely [query, value] or [query, "
                 "value, key]. Received length: ",
                 count, ".");
  }

  static bool asked(const Json* option) {
    return option != nullptr && option->is_bool() && option->as_bool();
  }

  static at::Tensor masked(const at::Tensor& y, const Call& call) {
    if (!call.mask(0).defined()) return y;
    return at::where(call.mask(0).to(at::kBool).unsqueeze(-1), y, at::zeros({}, y.options()));
  }

  virtual bool scores_are_products() const { return arguments_.options.score_mode == "dot"; }

  /// Without a matrix of scores, where that gives what Keras does: with a mask of the values, a row
  /// that sees nothing has gradients that depend on its scores.
  std::optional<at::Tensor> in_tiles(const at::Tensor& query, const at::Tensor& key,
                                     const at::Tensor& value, const Call& call) const {
    const bool drops = call.training && arguments_.options.dropout > 0;
    if (!scores_are_products() || drops || call.mask(1).defined() || query.dim() != 3 ||
        key.dim() != 3 || value.dim() != 3 || asked(call.option("return_attention_scores"))) {
      return std::nullopt;
    }
    const at::Tensor q = scale_ ? query * cast(scale_->value(), query) : query;
    const auto y = kernels::attention(q.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1),
                                      {.causal = asked(call.option("use_causal_mask"))},
                                      /*scale=*/1, kernels::UnseeingQueries::kMean);
    return y ? std::optional(y->squeeze(1)) : std::nullopt;
  }

  Tensors call(const Tensors& inputs, const Call& call) override {
    check_count(inputs.size());
    const at::Tensor& value = inputs[1];
    const at::Tensor& key = inputs.size() > 2 ? inputs[2] : value;
    if (const auto y = in_tiles(inputs[0], key, value, call)) return {masked(*y, call)};
    at::Tensor scores = this->scores(inputs[0], key);
    at::Tensor seen =
        call.mask(1).defined() ? call.mask(1).to(at::kBool).unsqueeze(-2) : at::Tensor();
    if (asked(call.option("use_causal_mask"))) {
      const at::Tensor causal =
          at::ones({1, scores.size(-2), scores.size(-1)}, scores.options().dtype(at::kBool)).tril();
      seen = seen.defined() ? seen.logical_and(causal) : causal;
    }
    if (seen.defined()) {
      const double far = scores.scalar_type() == at::kHalf ? 65504.0 : 1e9;
      scores = at::where(seen, scores, scores - far);
    }
    at::Tensor weights = at::softmax(scores, -1);
    if (call.training && arguments_.options.dropout > 0) {
      weights = at::dropout(weights, arguments_.options.dropout, true);
    }
    const at::Tensor y = masked(at::matmul(weights, value), call);
    if (!asked(call.option("return_attention_scores"))) return {y};
    // After the dropout, as Keras.
    return {y, weights};
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json& options) const override {
    check_count(inputs.size());
    Shape output = inputs[0];
    output.back() = inputs[1].back();
    std::vector<Shape> shapes{output};
    if (!options.is_null() && asked(options.find("return_attention_scores"))) {
      Shape scores = inputs[0];
      const Shape& key = inputs.size() > 2 ? inputs[2] : inputs[1];
      scores.back() = key.at(key.size() - 2);
      shapes.push_back(scores);
    }
    return shapes;
  }
  bool supports_masking() const override { return true; }

  AttentionArguments arguments_;
  std::optional<Variable> scale_;
  std::optional<Variable> concat_weight_;
};

struct AdditiveAttentionArguments {
  AdditiveAttentionOptions options = {};
};
void visit(keras::ConfigReader& config, AdditiveAttentionArguments& arguments) {
  visit_attention(config, arguments);
}

class AdditiveAttentionImpl final : public AttentionImpl {
 public:
  explicit AdditiveAttentionImpl(const AdditiveAttentionArguments& arguments)
      : AttentionImpl({{.use_scale = arguments.options.use_scale,
                        .score_mode = "dot",
                        .dropout = arguments.options.dropout,
                        .seed = arguments.options.seed,
                        .name = arguments.options.name,
                        .dtype = arguments.options.dtype}}) {}

  std::string_view class_name() const override { return "AdditiveAttention"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit_attention(config, arguments_); }

  void build(const std::vector<Shape>& inputs) override {
    check_count(inputs.size());
    if (arguments_.options.use_scale) {
      scale_ = add_weight("scale", {inputs[0].back()}, {.initializer = "glorot_uniform"});
    }
  }

  bool scores_are_products() const override { return false; }

  at::Tensor scores(const at::Tensor& query, const at::Tensor& key) const override {
    const at::Tensor sum = at::tanh(query.unsqueeze(-2) + key.unsqueeze(-3));
    return scale_ ? at::matmul(sum, cast(*scale_, query)) : sum.sum(-1);
  }
};

Json score_options(const ScoreCall& options, bool with_scores) {
  Json json = Json::object();
  if (options.use_causal_mask) json.set("use_causal_mask", true);
  if (with_scores) json.set("return_attention_scores", true);
  return json;
}

Call score_call(const ScoreCall& options, bool with_scores) {
  return {.training = keras::detail::training_by_default(),
          .options = score_options(options, with_scores)};
}

}  // namespace

keras::SymbolicTensor ListAttentionLayer::operator()(
    const std::vector<keras::SymbolicTensor>& inputs, const ScoreCall& options) const {
  return call(inputs, score_options(options, false)).at(0);
}
at::Tensor ListAttentionLayer::operator()(const Tensors& inputs, const ScoreCall& options) const {
  return call(inputs, score_call(options, false)).at(0);
}
std::pair<keras::SymbolicTensor, keras::SymbolicTensor> ListAttentionLayer::with_scores(
    const std::vector<keras::SymbolicTensor>& inputs, const ScoreCall& options) const {
  const auto outputs = call(inputs, score_options(options, true));
  return {outputs.at(0), outputs.at(1)};
}
std::pair<at::Tensor, at::Tensor> ListAttentionLayer::with_scores(const Tensors& inputs,
                                                                  const ScoreCall& options) const {
  const Tensors outputs = call(inputs, score_call(options, true));
  return {outputs.at(0), outputs.at(1)};
}

Attention::Attention(const AttentionOptions& options)
    : ListAttentionLayer(std::make_shared<AttentionImpl>(AttentionArguments{options})) {}
AdditiveAttention::AdditiveAttention(const AdditiveAttentionOptions& options)
    : ListAttentionLayer(
          std::make_shared<AdditiveAttentionImpl>(AdditiveAttentionArguments{options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> attention_layers() {
  using namespace layers;  // NOLINT
  return {
      STRATA_LAYER_CLASS("Attention", AttentionImpl, AttentionArguments),
      STRATA_LAYER_CLASS("AdditiveAttention", AdditiveAttentionImpl, AdditiveAttentionArguments)};
}

}  // namespace strata::keras
