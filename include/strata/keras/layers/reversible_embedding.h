#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layers/core.h"

namespace strata::layers {

struct ReversibleEmbeddingOptions {
  bool tie_weights = true;  ///< Back by the same table; else by one of its own.
  initializers::Initializer embeddings_initializer = "uniform";
  regularizers::Regularizer embeddings_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint embeddings_constraint = {};
  bool mask_zero = false;
  std::optional<std::string> reverse_dtype = {};  ///< Of the product of `reverse`: "float32".
  std::optional<double> logit_soft_cap = {};      ///< Logits become cap * tanh(logits / cap).
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// An Embedding that also goes back: from `[batch, ..., output_dim]` to logits of the tokens,
/// `[batch, ..., input_dim]`. In calls with options that is `{"reverse": true}`.
class STRATA_API ReversibleEmbedding : public keras::Layer {
 public:
  ReversibleEmbedding(int64_t input_dim, int64_t output_dim,
                      const ReversibleEmbeddingOptions& options = {});
  at::Tensor reverse(const at::Tensor& x) const;
  keras::SymbolicTensor reverse(const keras::SymbolicTensor& x) const;
};

}  // namespace strata::layers
