#pragma once

#include <cstdint>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layer.h"

namespace strata::layers {

struct EmbeddingOptions {
  initializers::Initializer embeddings_initializer = "uniform";
  regularizers::Regularizer embeddings_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint embeddings_constraint = {};
  bool mask_zero = false;  ///< Token 0 is padding: the output's mask excludes it.
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Maps tokens `[batch, ...]` in [0, input_dim) to rows of a table, `[batch, ..., output_dim]`. The
/// table's gradient is sparse: the cost of a step depends on the tokens in a batch, not on the
/// table.
/// @throws Error kOutOfRange, when called: a token outside the table (on the CPU).
class STRATA_API Embedding : public keras::Layer {
 public:
  Embedding(int64_t input_dim, int64_t output_dim, const EmbeddingOptions& options = {});
};

struct MaskingOptions {
  double mask_value = 0;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Masks the steps of `[batch, time, ...]` in which every value is `mask_value`, and zeroes them.
class STRATA_API Masking : public keras::Layer {
 public:
  explicit Masking(const MaskingOptions& options = {});
};

}  // namespace strata::layers
