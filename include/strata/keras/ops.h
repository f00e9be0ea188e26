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
#include "strata/keras/ops/arrays.h"
#include "strata/keras/ops/call.h"
#include "strata/keras/ops/control_flow.h"
#include "strata/keras/ops/creation.h"
#include "strata/keras/ops/elementwise.h"
#include "strata/keras/ops/image.h"
#include "strata/keras/ops/indexing.h"
#include "strata/keras/ops/linalg.h"
#include "strata/keras/ops/nn.h"
#include "strata/keras/ops/signals.h"
#include "strata/keras/ops/statistics.h"
#include "strata/keras/ops/windows.h"

/// The functions of `keras.ops`: of symbolic tensors, which makes nodes of a graph, and of tensors,
/// which computes. They have no weights, and have Keras's names in files. Source: keras.ops.
namespace strata::keras {

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
STRATA_API at::Tensor get_item(const at::Tensor& x, const std::vector<Index>& index);

/// Adds any operation by Keras's name, with its options: `operation("LogSoftmax", {x}, {{"axis",
/// 1}})`.
/// @throws Error kUnimplemented: no such operation; lists the known ones.
STRATA_API SymbolicTensor operation(const std::string& class_name,
                                    const std::vector<Operand>& arguments,
                                    const std::vector<std::pair<std::string, Json>>& options = {});

inline Value auto cast(const Value auto& x, at::ScalarType dtype) {
  return call("Cast", {{"dtype", detail::dtype_or_null(dtype)}}, x);
}
/// What exceeds the dtype becomes its largest or smallest number.
inline Value auto saturate_cast(const Value auto& x, at::ScalarType dtype) {
  return call("SaturateCast", {{"dtype", detail::dtype_or_null(dtype)}}, x);
}
inline Value auto convert_to_tensor(const Value auto& x, std::optional<at::ScalarType> dtype = {}) {
  return call("ConvertToTensor",
              {{"dtype", detail::dtype_or_null(dtype)}, {"sparse", Json()}, {"ragged", Json()}}, x);
}
/// The same values, which no gradient passes.
inline Value auto stop_gradient(const Value auto& variable) {
  return call("StopGradient", {}, variable);
}

}  // namespace ops
}  // namespace strata::keras
