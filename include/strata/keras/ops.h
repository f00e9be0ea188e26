#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/keras/layer.h"

/// Functions of symbolic tensors: nodes of a graph that are no layers. They have no weights, and
/// have Keras's names in files. Source: keras.ops.
namespace strata::keras {

/// An operand of an operator: a symbolic tensor or a number.
class STRATA_API Operand {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  Operand(const SymbolicTensor& tensor) : tensor_(tensor) {}
  Operand(double number) : number_(number) {}
  Operand(int number) : number_(number) {}
  Operand(int64_t number) : number_(number) {}
  // NOLINTEND(google-explicit-constructor)

  const std::optional<SymbolicTensor>& tensor() const { return tensor_; }
  const Json& number() const { return number_; }

 private:
  std::optional<SymbolicTensor> tensor_;
  Json number_;
};

// These broadcast like NumPy. At least one of the two is a tensor.
STRATA_API SymbolicTensor operator+(const Operand& a, const Operand& b);
STRATA_API SymbolicTensor operator-(const Operand& a, const Operand& b);
STRATA_API SymbolicTensor operator*(const Operand& a, const Operand& b);
STRATA_API SymbolicTensor operator/(const Operand& a, const Operand& b);
STRATA_API SymbolicTensor operator-(const SymbolicTensor& x);

namespace ops {

/// Python's `start:stop:step`; unset: from the start, to the end. Steps must be positive.
struct Slice {
  std::optional<int64_t> start = {};
  std::optional<int64_t> stop = {};
  std::optional<int64_t> step = {};
};
struct Ellipsis {};
struct NewAxis {};
/// One part of an index: a number, a slice, `...` or `None`.
using Index = std::variant<int64_t, Slice, Ellipsis, NewAxis>;

/// Returns `x[index...]`: `get_item(x, {ops::Slice(), 0})` is `x[:, 0]`.
STRATA_API SymbolicTensor get_item(const SymbolicTensor& x, const std::vector<Index>& index);

/// Adds any operation by Keras's name, with its options: `operation("LogSoftmax", {x}, {{"axis",
/// 1}})`.
/// @throws Error kUnimplemented: no such operation; lists the known ones.
STRATA_API SymbolicTensor operation(const std::string& class_name,
                                    const std::vector<Operand>& arguments,
                                    const std::vector<std::pair<std::string, Json>>& options = {});

STRATA_API SymbolicTensor power(const Operand& x, const Operand& exponent);
STRATA_API SymbolicTensor maximum(const Operand& a, const Operand& b);
STRATA_API SymbolicTensor minimum(const Operand& a, const Operand& b);
STRATA_API SymbolicTensor matmul(const SymbolicTensor& a, const SymbolicTensor& b);

STRATA_API SymbolicTensor exp(const SymbolicTensor& x);
STRATA_API SymbolicTensor log(const SymbolicTensor& x);
STRATA_API SymbolicTensor sqrt(const SymbolicTensor& x);
STRATA_API SymbolicTensor square(const SymbolicTensor& x);
STRATA_API SymbolicTensor absolute(const SymbolicTensor& x);
STRATA_API SymbolicTensor tanh(const SymbolicTensor& x);
STRATA_API SymbolicTensor sigmoid(const SymbolicTensor& x);
STRATA_API SymbolicTensor relu(const SymbolicTensor& x);
STRATA_API SymbolicTensor silu(const SymbolicTensor& x);
STRATA_API SymbolicTensor gelu(const SymbolicTensor& x, bool approximate = true);
STRATA_API SymbolicTensor softmax(const SymbolicTensor& x, int64_t axis = -1);

/// Averages over `axes`; without any, over all of them, also the batch's.
STRATA_API SymbolicTensor mean(const SymbolicTensor& x, const std::vector<int64_t>& axes = {},
                               bool keepdims = false);
STRATA_API SymbolicTensor sum(const SymbolicTensor& x, const std::vector<int64_t>& axes = {},
                              bool keepdims = false);
STRATA_API SymbolicTensor max(const SymbolicTensor& x, const std::vector<int64_t>& axes = {},
                              bool keepdims = false);
STRATA_API SymbolicTensor min(const SymbolicTensor& x, const std::vector<int64_t>& axes = {},
                              bool keepdims = false);

STRATA_API SymbolicTensor concatenate(const std::vector<SymbolicTensor>& xs, int64_t axis = 0);
STRATA_API SymbolicTensor stack(const std::vector<SymbolicTensor>& xs, int64_t axis = 0);
/// @param shape  With the batch; one size may be -1: the rest.
STRATA_API SymbolicTensor reshape(const SymbolicTensor& x, const Shape& shape);
/// @param axes  All of them in the new order; empty: reversed.
STRATA_API SymbolicTensor transpose(const SymbolicTensor& x, const std::vector<int64_t>& axes = {});
STRATA_API SymbolicTensor expand_dims(const SymbolicTensor& x, int64_t axis);
/// @param axes  Axes of size 1. Empty: all of these.
STRATA_API SymbolicTensor squeeze(const SymbolicTensor& x, const std::vector<int64_t>& axes = {});
STRATA_API SymbolicTensor cast(const SymbolicTensor& x, at::ScalarType dtype);

}  // namespace ops
}  // namespace strata::keras
