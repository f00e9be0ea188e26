#pragma once

#include "strata/keras/ops/call.h"

/// Elements by number, order, search.
/// Source: keras.ops 3.15.
namespace strata::keras::ops {

/// Elements or slices by number; negative numbers count from the end. Without `axis`, of all
/// elements in a row.
inline Value auto take(const Value auto& x, const Value auto& indices,
                       std::optional<int64_t> axis = {}) {
  return call("Take", {{"axis", detail::json_or_null(axis)}}, x, indices);
}
inline Value auto take(const Value auto& x, const std::vector<int64_t>& indices,
                       std::optional<int64_t> axis = {}) {
  return call("Take", {{"axis", detail::json_or_null(axis)}}, x, to_config(indices));
}
inline Value auto take_along_axis(const Value auto& x, const Value auto& indices,
                                  std::optional<int64_t> axis = {}) {
  return call("TakeAlongAxis", {{"axis", detail::json_or_null(axis)}}, x, indices);
}
inline Value auto where(const Value auto& condition, const ValueOrNumber auto& x1,
                        const ValueOrNumber auto& x2) {
  return call("Where", {}, condition, x1, x2);
}
/// The choice of the first condition that holds.
inline SymbolicTensor select(const std::vector<SymbolicTensor>& condlist,
                             const std::vector<SymbolicTensor>& choicelist, double otherwise = 0) {
  return call("Select", {}, condlist, choicelist, otherwise);
}
inline at::Tensor select(const std::vector<at::Tensor>& condlist,
                         const std::vector<at::Tensor>& choicelist, double otherwise = 0) {
  return call("Select", {}, condlist, choicelist, otherwise);
}
/// Zeros of a shape to which values are added at places.
/// @param indices  `[..., rank]`: a place each.
inline Value auto scatter(const Value auto& indices, const Value auto& values, const Shape& shape) {
  return call("Scatter", {{"shape", to_config(shape)}}, indices, values);
}
/// @param reduction  "" (put there), "add", "max", "min" or "mul".
inline Value auto scatter_update(const Value auto& inputs, const Value auto& indices,
                                 const Value auto& updates, const std::string& reduction = {}) {
  return call("ScatterUpdate", {{"reduction", reduction.empty() ? Json() : Json(reduction)}},
              inputs, indices, updates);
}
/// A part of that shape; what would lie outside begins earlier.
inline Value auto slice(const Value auto& inputs, const std::vector<int64_t>& start_indices,
                        const Shape& shape) {
  return call("Slice", {{"shape", to_config(shape)}}, inputs, to_config(start_indices));
}
inline Value auto slice(const Value auto& inputs, const Value auto& start_indices,
                        const Shape& shape) {
  return call("Slice", {{"shape", to_config(shape)}}, inputs, start_indices);
}
inline Value auto slice_update(const Value auto& inputs, const std::vector<int64_t>& start_indices,
                               const Value auto& updates) {
  return call("SliceUpdate", {}, inputs, to_config(start_indices), updates);
}

// Rows with the same number as one. Without `num_segments`, as many as there are.
inline Value auto segment_max(const Value auto& data, const Value auto& segment_ids,
                              std::optional<int64_t> num_segments = {}, bool sorted = false) {
  return call("SegmentMax",
              {{"num_segments", detail::json_or_null(num_segments)}, {"sorted", sorted}}, data,
              segment_ids);
}
inline Value auto segment_min(const Value auto& data, const Value auto& segment_ids,
                              std::optional<int64_t> num_segments = {}, bool sorted = false) {
  return call("SegmentMin",
              {{"num_segments", detail::json_or_null(num_segments)}, {"sorted", sorted}}, data,
              segment_ids);
}
inline Value auto segment_prod(const Value auto& data, const Value auto& segment_ids,
                               std::optional<int64_t> num_segments = {}, bool sorted = false) {
  return call("SegmentProd",
              {{"num_segments", detail::json_or_null(num_segments)}, {"sorted", sorted}}, data,
              segment_ids);
}
inline Value auto segment_sum(const Value auto& data, const Value auto& segment_ids,
                              std::optional<int64_t> num_segments = {}, bool sorted = false) {
  return call("SegmentSum",
              {{"num_segments", detail::json_or_null(num_segments)}, {"sorted", sorted}}, data,
              segment_ids);
}

/// The places of what is not 0, a tensor for each axis.
inline auto nonzero(const Value auto& x) { return call_all("Nonzero", {}, x); }
inline auto unravel_index(const Value auto& indices, const Shape& shape) {
  return call_all("UnravelIndex", {{"shape", to_config(shape)}}, indices);
}
struct UniqueOptions {
  bool return_index = false;    ///< Also the first place of each.
  bool return_inverse = false;  ///< Also which one each element is.
  bool return_counts = false;
  std::optional<int64_t> axis = {};  ///< Unset: of all elements in a row.
  std::optional<int64_t> size = {};  ///< So many: fewer are filled up.
  std::optional<double> fill_value = {};
};
/// The values that differ, in order.
inline auto unique(const Value auto& x, const UniqueOptions& options = {}) {
  return call_all("Unique",
                  {{"sorted", true},
                   {"return_index", options.return_index},
                   {"return_inverse", options.return_inverse},
                   {"return_counts", options.return_counts},
                   {"axis", detail::json_or_null(options.axis)},
                   {"size", detail::json_or_null(options.size)},
                   {"fill_value", detail::json_or_null(options.fill_value)}},
                  x);
}

inline Value auto sort(const Value auto& x, std::optional<int64_t> axis = -1) {
  return call("Sort", {{"axis", detail::json_or_null(axis)}}, x);
}
/// The places in order; of equal values the first comes first.
inline Value auto argsort(const Value auto& x, std::optional<int64_t> axis = -1) {
  return call("Argsort", {{"axis", detail::json_or_null(axis)}}, x);
}
inline Value auto argpartition(const Value auto& x, int64_t kth, std::optional<int64_t> axis = -1) {
  return call("Argpartition", {{"kth", kth}, {"axis", detail::json_or_null(axis)}}, x);
}
/// Values and places.
inline auto top_k(const Value auto& x, int64_t k, bool sorted = true) {
  return call_all("TopK", {{"k", k}, {"sorted", sorted}}, x);
}
inline Value auto in_top_k(const Value auto& targets, const Value auto& predictions, int64_t k) {
  return call("InTopK", {{"k", k}}, targets, predictions);
}
/// @param side  "left" or "right".
inline Value auto searchsorted(const Value auto& sorted_sequence, const Value auto& values,
                               const std::string& side = "left") {
  return call("SearchSorted", {{"side", side}}, sorted_sequence, values);
}
inline Value auto digitize(const Value auto& x, const std::vector<double>& bins) {
  return call("Digitize", {}, x, to_config(bins));
}
inline Value auto isin(const Value auto& x1, const Value auto& x2, bool assume_unique = false,
                       bool invert = false) {
  return call("IsIn", {{"assume_unique", assume_unique}, {"invert", invert}}, x1, x2);
}
inline Value auto one_hot(const Value auto& x, int64_t num_classes, int64_t axis = -1,
                          std::optional<at::ScalarType> dtype = {}) {
  return call("OneHot",
              {{"num_classes", num_classes},
               {"axis", axis},
               {"dtype", detail::dtype_or_null(dtype)},
               {"sparse", false}},
              x);
}
inline Value auto multi_hot(const Value auto& inputs, int64_t num_classes, int64_t axis = -1,
                            std::optional<at::ScalarType> dtype = {}) {
  return call("MultiHot",
              {{"num_classes", num_classes},
               {"axis", axis},
               {"dtype", detail::dtype_or_null(dtype)},
               {"sparse", false}},
              inputs);
}

}  // namespace strata::keras::ops
