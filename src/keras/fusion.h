#pragma once

#include <ATen/core/Tensor.h>

// Layers whose work is one pass over memory where they follow one another: relu(normalization),
// relu(normalization + something), and normalization of rows(something + something).
namespace strata::keras::detail {

enum class FusionRole { kNone, kNormalization, kRowNormalization, kSum, kRelu };

/// A layer that may be part of it.
class Fusible {
 public:
  virtual FusionRole fusion_role() const = 0;

 protected:
  ~Fusible() = default;
};

/// What a normalization may do beside its own work in the call that it is given for.
struct Fusion {
  /// To be added: behind a normalization of channels, in front of one of rows; undefined: nothing.
  at::Tensor beside = {};
  at::Tensor sum = {};  ///< What a normalization of rows has added up. It always does.
  bool done = false;    ///< Set by a normalization of channels if its output is relu's.
};

}  // namespace strata::keras::detail
