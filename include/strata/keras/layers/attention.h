#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "strata/core/export.h"
#include "strata/core/one_of.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"

namespace strata::layers {

/// Options of one call: `mha(query, value, {.key = k, .use_causal_mask = true})`.
template <typename Tensor>
struct AttentionCall {
  std::optional<Tensor> key = {};  ///< Default: the value.
  /// `[batch, (heads,) target, source]`; 0: not attended to.
  std::optional<Tensor> attention_mask = {};
  bool use_causal_mask = false;  ///< Steps do not attend to later ones.
};

/// Layers of query and value. The masks of query, value and key hide their steps.
class STRATA_API QueryValueLayer : public keras::Layer {
 public:
  using Layer::Layer;
  keras::SymbolicTensor operator()(const keras::SymbolicTensor& query,
                                   const keras::SymbolicTensor& value,
                                   const AttentionCall<keras::SymbolicTensor>& options = {}) const;
  at::Tensor operator()(const at::Tensor& query, const at::Tensor& value,
                        const AttentionCall<at::Tensor>& options = {}) const;

  /// Returns also the attention scores of each step: `[batch, heads, target, source]`. Keras's
  /// return_attention_scores.
  std::pair<keras::SymbolicTensor, keras::SymbolicTensor> with_scores(
      const keras::SymbolicTensor& query, const keras::SymbolicTensor& value,
      const AttentionCall<keras::SymbolicTensor>& options = {}) const;
  std::pair<at::Tensor, at::Tensor> with_scores(
      const at::Tensor& query, const at::Tensor& value,
      const AttentionCall<at::Tensor>& options = {}) const;
};

struct MultiHeadAttentionOptions {
  std::optional<int64_t> value_dim = {};  ///< Default: key_dim.
  double dropout = 0;                     ///< The dropout rate of the scores.
  bool use_bias = true;
  std::optional<keras::Shape> output_shape = {};  ///< Default: the query's width.
  std::optional<Axes> attention_axes = {};        ///< Default: all but batch and width.
  std::optional<int64_t> sliding_window = {};     ///< Steps attend to nearer ones only.
  bool use_gate = false;  ///< Multiplies the attention's result by a sigmoid of the query.
  initializers::Initializer kernel_initializer = "glorot_uniform";
  initializers::Initializer bias_initializer = "zeros";
  regularizers::Regularizer kernel_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint kernel_constraint = {};
  constraints::Constraint bias_constraint = {};
  std::optional<int64_t> seed = {};  ///< Saved in files only.
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Attention of `num_heads` heads: query `[batch, target..., width]`, value and key
/// `[batch, source..., width]` to `[batch, target..., width of the query]`.
class STRATA_API MultiHeadAttention : public QueryValueLayer {
 public:
  MultiHeadAttention(int64_t num_heads, int64_t key_dim,
                     const MultiHeadAttentionOptions& options = {});
};

struct GroupQueryAttentionOptions {
  double dropout = 0;
  bool use_bias = true;
  std::optional<int64_t> sliding_window = {};
  bool use_gate = false;
  initializers::Initializer kernel_initializer = "glorot_uniform";
  initializers::Initializer bias_initializer = "zeros";
  regularizers::Regularizer kernel_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint kernel_constraint = {};
  constraints::Constraint bias_constraint = {};
  std::optional<int64_t> seed = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Attention in which several query heads share one key and value head.
class STRATA_API GroupQueryAttention : public QueryValueLayer {
 public:
  GroupQueryAttention(int64_t head_dim, int64_t num_query_heads, int64_t num_key_value_heads,
                      const GroupQueryAttentionOptions& options = {});
};

/// Options of one call of Attention and AdditiveAttention.
struct ScoreCall {
  bool use_causal_mask = false;
};

/// Layers of a list: `attention({query, value})` or `attention({query, value, key})`.
class STRATA_API ListAttentionLayer : public keras::Layer {
 public:
  using Layer::Layer;
  using Layer::operator();
  keras::SymbolicTensor operator()(const std::vector<keras::SymbolicTensor>& inputs,
                                   const ScoreCall& options) const;
  at::Tensor operator()(const keras::Tensors& inputs, const ScoreCall& options) const;
  std::pair<keras::SymbolicTensor, keras::SymbolicTensor> with_scores(
      const std::vector<keras::SymbolicTensor>& inputs, const ScoreCall& options = {}) const;
  std::pair<at::Tensor, at::Tensor> with_scores(const keras::Tensors& inputs,
                                                const ScoreCall& options = {}) const;
};

struct ScoreModeWords {
  enum Word { kDot, kConcat };
  static constexpr const char* kOption = "score_mode";
  static constexpr const char* kWords[] = {"dot", "concat"};
};
using ScoreMode = OneOf<ScoreModeWords>;

struct AttentionOptions {
  bool use_scale = false;        ///< Learns a scale of the scores.
  ScoreMode score_mode = "dot";  ///< Or "concat": tanh(query + key).
  double dropout = 0;
  std::optional<int64_t> seed = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Luong's attention: softmax(query key^T) value.
class STRATA_API Attention : public ListAttentionLayer {
 public:
  explicit Attention(const AttentionOptions& options = {});
};

struct AdditiveAttentionOptions {
  bool use_scale = true;
  double dropout = 0;
  std::optional<int64_t> seed = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Bahdanau's attention: softmax(sum(scale tanh(query + key))) value.
class STRATA_API AdditiveAttention : public ListAttentionLayer {
 public:
  explicit AdditiveAttention(const AdditiveAttentionOptions& options = {});
};

}  // namespace strata::layers
