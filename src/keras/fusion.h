#pragma once

#include <ATen/core/Tensor.h>

// Layers whose work is one pass over memory where they follow one another: relu(normalization), and
// relu(normalization + something).
namespace strata::keras::detail {

enum class FusionRole { kNone, kNormalization, kSum, kRelu };

/// A layer that may be part of it.
class Fusible {
 public:
  virtual FusionRole fusion_role() const = 0;

 protected:
  ~Fusible() = default;
};

/// What a normalization may do beside its own work in the call that it is given for.
struct Fusion {
  at::Tensor beside;  ///< To be added; undefined: nothing.
  bool done = false;  ///< Set if its output is relu's.
};

}  // namespace strata::keras::detail
