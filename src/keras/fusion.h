#pragma once

#include <ATen/core/Tensor.h>

// Layers whose work is one pass over memory where they follow one another: relu(normalization),
// relu(normalization + something), and normalization of rows(something + something). And recurrent
// layers behind an embedding, which multiply each word once.
namespace strata::keras::detail {

enum class FusionRole {
  kNone,
  kNormalization,
  kRowNormalization,
  kSum,
  kRelu,
  kEmbedding,
  kRecurrent
};

/// A layer that may be part of it.
class Fusible {
 public:
  virtual FusionRole fusion_role() const = 0;

 protected:
  ~Fusible() = default;
};

/// What a normalization may do beside its own work in the call that it is given for, or what a
/// recurrent layer may know.
struct Fusion {
  /// To be added: behind a normalization of channels, in front of one of rows; undefined: nothing.
  at::Tensor beside = {};
  at::Tensor sum = {};  ///< What a normalization of rows has added up. It always does.
  /// `[batch, time]`: rows of a recurrent layer's input of the same word are equal, and only the sum
  /// of their gradients counts. Undefined: none is known to be.
  at::Tensor words = {};
  bool done = false;  ///< Set by a normalization of channels if its output is relu's.
};

}  // namespace strata::keras::detail
