#pragma once

#include "strata/keras/ops/call.h"

/// Shapes of arrays: parts, joins, orders of axes.
/// Source: keras.ops 3.15.
namespace strata::keras::ops {

inline SymbolicTensor concatenate(const std::vector<SymbolicTensor>& xs, int64_t axis = 0) {
  return call("Concatenate", {{"axis", axis}}, xs);
}
inline at::Tensor concatenate(const std::vector<at::Tensor>& xs, int64_t axis = 0) {
  return call("Concatenate", {{"axis", axis}}, xs);
}
inline SymbolicTensor stack(const std::vector<SymbolicTensor>& xs, int64_t axis = 0) {
  return call("Stack", {{"axis", axis}}, xs);
}
inline at::Tensor stack(const std::vector<at::Tensor>& xs, int64_t axis = 0) {
  return call("Stack", {{"axis", axis}}, xs);
}
inline SymbolicTensor hstack(const std::vector<SymbolicTensor>& xs) {
  return call("Hstack", {}, xs);
}
inline at::Tensor hstack(const std::vector<at::Tensor>& xs) { return call("Hstack", {}, xs); }
inline SymbolicTensor vstack(const std::vector<SymbolicTensor>& xs) {
  return call("Vstack", {}, xs);
}
inline at::Tensor vstack(const std::vector<at::Tensor>& xs) { return call("Vstack", {}, xs); }
inline SymbolicTensor dstack(const std::vector<SymbolicTensor>& xs) {
  return call("Dstack", {}, xs);
}
inline at::Tensor dstack(const std::vector<at::Tensor>& xs) { return call("Dstack", {}, xs); }
inline Value auto append(const Value auto& x1, const Value auto& x2,
                         std::optional<int64_t> axis = {}) {
  return call("Append", {{"axis", detail::json_or_null(axis)}}, x1, x2);
}

// Into a number of parts, or at indices.
inline auto array_split(const Value auto& x, const Numbers& indices_or_sections, int64_t axis = 0) {
  return call_all("ArraySplit", {{"indices_or_sections", indices_or_sections}, {"axis", axis}}, x);
}
inline auto split(const Value auto& x, const Numbers& indices_or_sections, int64_t axis = 0) {
  return call_all("Split", {{"indices_or_sections", indices_or_sections}, {"axis", axis}}, x);
}
inline auto hsplit(const Value auto& x, const Numbers& indices_or_sections) {
  return call_all("Hsplit", {{"indices_or_sections", indices_or_sections}}, x);
}
inline auto vsplit(const Value auto& x, const Numbers& indices_or_sections) {
  return call_all("Vsplit", {{"indices_or_sections", indices_or_sections}}, x);
}
inline auto dsplit(const Value auto& x, const Numbers& indices_or_sections) {
  return call_all("Dsplit", {{"indices_or_sections", indices_or_sections}}, x);
}
inline auto unstack(const Value auto& x, std::optional<int64_t> num = {}, int64_t axis = 0) {
  return call_all("Unstack", {{"num", detail::json_or_null(num)}, {"axis", axis}}, x);
}

/// @param newshape  With the batch; one size may be -1: the rest.
inline Value auto reshape(const Value auto& x, const Shape& newshape) {
  return call("Reshape", {{"newshape", to_config(newshape)}}, x);
}
inline Value auto ravel(const Value auto& x) { return call("Ravel", {}, x); }
/// @param axes  All of them in the new order; empty: reversed.
inline Value auto transpose(const Value auto& x, const std::vector<int64_t>& axes = {}) {
  return call("Transpose", {{"axes", axes.empty() ? Json() : to_config(axes)}}, x);
}
inline Value auto swapaxes(const Value auto& x, int64_t axis1, int64_t axis2) {
  return call("Swapaxes", {{"axis1", axis1}, {"axis2", axis2}}, x);
}
inline Value auto moveaxis(const Value auto& x, const Axis& source, const Axis& destination) {
  return call("Moveaxis", {{"source", source}, {"destination", destination}}, x);
}
inline Value auto expand_dims(const Value auto& x, const Axis& axis) {
  return call("ExpandDims", {{"axis", axis}}, x);
}
/// @param axis  Axes of size 1. None: all of these.
inline Value auto squeeze(const Value auto& x, const Axis& axis = {}) {
  return call("Squeeze", {{"axis", axis}}, x);
}
/// @param shape  -1: the size of `x`.
inline Value auto broadcast_to(const Value auto& x, const Shape& shape) {
  return call("BroadcastTo", {{"shape", to_config(shape)}}, x);
}
/// Dimensions by names: rearrange(x, "b (h w) c -> b h w c", {{"h", 2}}).
template <Value T>
T rearrange(const T& tensor, const std::string& pattern, const Options& axes_lengths = {}) {
  return invoke("Rearrange", std::vector<OperandOf<T>>{tensor, Json(pattern)}, {}, axes_lengths)[0];
}
inline Value auto tile(const Value auto& x, const Numbers& repeats) {
  return call("Tile", {{"repeats", repeats}}, x);
}
/// Without `axis`, of all elements in a row.
inline Value auto repeat(const Value auto& x, const Numbers& repeats,
                         std::optional<int64_t> axis = {}) {
  return call("Repeat", {{"repeats", repeats}, {"axis", detail::json_or_null(axis)}}, x);
}
inline Value auto flip(const Value auto& x, const Axis& axis = {}) {
  return call("Flip", {{"axis", axis}}, x);
}
inline Value auto fliplr(const Value auto& x) { return call("Fliplr", {}, x); }
inline Value auto flipud(const Value auto& x) { return call("Flipud", {}, x); }
inline Value auto roll(const Value auto& x, const Numbers& shift, const Axis& axis = {}) {
  return call("Roll", {{"shift", shift}, {"axis", axis}}, x);
}
inline Value auto rot90(const Value auto& array, int64_t k = 1,
                        const std::vector<int64_t>& axes = {0, 1}) {
  return call("Rot90", {{"k", k}, {"axes", to_config(axes)}}, array);
}
/// @param pad_width  Before and behind, for each axis.
/// @param mode  "constant", "reflect", "symmetric", "edge" or "wrap".
inline Value auto pad(const Value auto& x,
                      const std::vector<std::pair<int64_t, int64_t>>& pad_width,
                      const std::string& mode = "constant",
                      std::optional<double> constant_values = {}) {
  Json widths = Json::array();
  for (const auto& [before, after] : pad_width) widths.push_back(Json::array({before, after}));
  return call("Pad", {{"pad_width", std::move(widths)}, {"mode", mode}}, x,
              detail::json_or_null(constant_values));
}
inline Value auto diag(const Value auto& x, int64_t k = 0) { return call("Diag", {{"k", k}}, x); }
inline Value auto diagflat(const Value auto& x, int64_t k = 0) {
  return call("Diagflat", {{"k", k}}, x);
}
inline Value auto diagonal(const Value auto& x, int64_t offset = 0, int64_t axis1 = 0,
                           int64_t axis2 = 1) {
  return call("Diagonal", {{"offset", offset}, {"axis1", axis1}, {"axis2", axis2}}, x);
}
inline Value auto trace(const Value auto& x, int64_t offset = 0, int64_t axis1 = 0,
                        int64_t axis2 = 1) {
  return call("Trace", {{"offset", offset}, {"axis1", axis1}, {"axis2", axis2}}, x);
}
inline Value auto tril(const Value auto& x, int64_t k = 0) { return call("Tril", {{"k", k}}, x); }
inline Value auto triu(const Value auto& x, int64_t k = 0) { return call("Triu", {{"k", k}}, x); }
inline Value auto zeros_like(const Value auto& x, std::optional<at::ScalarType> dtype = {}) {
  return call("ZerosLike", {{"dtype", detail::dtype_or_null(dtype)}}, x);
}
inline Value auto ones_like(const Value auto& x, std::optional<at::ScalarType> dtype = {}) {
  return call("OnesLike", {{"dtype", detail::dtype_or_null(dtype)}}, x);
}
inline Value auto empty_like(const Value auto& x, std::optional<at::ScalarType> dtype = {}) {
  return call("EmptyLike", {{"dtype", detail::dtype_or_null(dtype)}}, x);
}
inline Value auto full_like(const Value auto& x, const ValueOrNumber auto& fill_value,
                            std::optional<at::ScalarType> dtype = {}) {
  return call("FullLike", {{"dtype", detail::dtype_or_null(dtype)}}, x, fill_value);
}
/// The coordinates of a grid's points. @param indexing  "xy" or "ij".
inline std::vector<SymbolicTensor> meshgrid(const std::vector<SymbolicTensor>& xs,
                                            const std::string& indexing = "xy") {
  return invoke("Meshgrid", std::vector<OperandOf<SymbolicTensor>>(xs.begin(), xs.end()),
                {{"indexing", indexing}});
}
inline std::vector<at::Tensor> meshgrid(const std::vector<at::Tensor>& xs,
                                        const std::string& indexing = "xy") {
  return invoke("Meshgrid", std::vector<OperandOf<at::Tensor>>(xs.begin(), xs.end()),
                {{"indexing", indexing}});
}
inline Value auto vander(const Value auto& x, std::optional<int64_t> N = {},
                         bool increasing = false) {
  return call("Vander", {{"N", detail::json_or_null(N)}, {"increasing", increasing}}, x);
}

}  // namespace strata::keras::ops
