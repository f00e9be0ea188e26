#pragma once

#include <c10/core/ScalarType.h>

#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/shape.h"

namespace strata::keras {

namespace detail {
struct Node;
}

/// A tensor of a model's description: it has a shape and a history, and no values. Copies are the
/// same tensor. Source: keras.KerasTensor.
class STRATA_API SymbolicTensor {
 public:
  /// The shape with the batch first: (None, 784).
  const Shape& shape() const;
  at::ScalarType dtype() const;

  /// Makes output `index` of a call; used by layers.
  SymbolicTensor(std::shared_ptr<detail::Node> node, size_t index)
      : node_(std::move(node)), index_(index) {}
  const std::shared_ptr<detail::Node>& node() const { return node_; }
  size_t index() const { return index_; }
  friend bool operator==(const SymbolicTensor&, const SymbolicTensor&) = default;

 private:
  std::shared_ptr<detail::Node> node_;
  size_t index_;
};

struct InputOptions {
  std::string name = {};
  int64_t batch_size = kNone;
  at::ScalarType dtype = at::kFloat;
};

/// Makes a model's input. @param shape  Without the batch: {784}, {28, 28, 1}; kNone for a size
/// that varies.
STRATA_API SymbolicTensor Input(const Shape& shape, const InputOptions& options = {});

}  // namespace strata::keras
