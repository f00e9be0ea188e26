#pragma once

#include "strata/keras/ops/call.h"

/// Reductions, running sums and statistics.
/// Source: keras.ops 3.15.
namespace strata::keras::ops {

// Over `axis`; without it, over all axes, also the batch's. Those that begin with `nan` leave out what is NaN.
inline Value auto all(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("All", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto amax(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Amax", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto amin(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Amin", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto any(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Any", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto argmax(const Value auto& x, std::optional<int64_t> axis = {},
                         bool keepdims = false) {
  return call("Argmax", {{"axis", detail::json_or_null(axis)}, {"keepdims", keepdims}}, x);
}
inline Value auto argmin(const Value auto& x, std::optional<int64_t> axis = {},
                         bool keepdims = false) {
  return call("Argmin", {{"axis", detail::json_or_null(axis)}, {"keepdims", keepdims}}, x);
}
inline Value auto mean(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Mean", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto median(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Median", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto nanargmax(const Value auto& x, std::optional<int64_t> axis = {},
                            bool keepdims = false) {
  return call("Nanargmax", {{"axis", detail::json_or_null(axis)}, {"keepdims", keepdims}}, x);
}
inline Value auto nanargmin(const Value auto& x, std::optional<int64_t> axis = {},
                            bool keepdims = false) {
  return call("Nanargmin", {{"axis", detail::json_or_null(axis)}, {"keepdims", keepdims}}, x);
}
inline Value auto nanmax(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Nanmax", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto nanmean(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Nanmean", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto nanmedian(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Nanmedian", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto nanmin(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Nanmin", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto nanprod(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Nanprod", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto nanstd(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Nanstd", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto nansum(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Nansum", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto nanvar(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Nanvar", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto ptp(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Ptp", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto std(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Std", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto sum(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Sum", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto var(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Var", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
inline Value auto logsumexp(const Value auto& x, const Axis& axis = {}, bool keepdims = false) {
  return call("Logsumexp", {{"axis", axis}, {"keepdims", keepdims}}, x);
}
/// @param initial  One of the values.
inline Value auto max(const Value auto& x, const Axis& axis = {}, bool keepdims = false,
                      std::optional<double> initial = {}) {
  return call("Max",
              {{"axis", axis}, {"keepdims", keepdims}, {"initial", detail::json_or_null(initial)}},
              x);
}
/// @param initial  One of the values.
inline Value auto min(const Value auto& x, const Axis& axis = {}, bool keepdims = false,
                      std::optional<double> initial = {}) {
  return call("Min",
              {{"axis", axis}, {"keepdims", keepdims}, {"initial", detail::json_or_null(initial)}},
              x);
}
inline Value auto prod(const Value auto& x, const Axis& axis = {}, bool keepdims = false,
                       std::optional<at::ScalarType> dtype = {}) {
  return call("Prod",
              {{"axis", axis}, {"keepdims", keepdims}, {"dtype", detail::dtype_or_null(dtype)}}, x);
}
inline Value auto count_nonzero(const Value auto& x, const Axis& axis = {}) {
  return call("CountNonzero", {{"axis", axis}}, x);
}
inline Value auto average(const Value auto& x, const Axis& axis = {}) {
  return call("Average", {{"axis", axis}}, x);
}
/// @param weights  Of the shape of `x`, or one for each place along one axis.
inline Value auto average(const Value auto& x, const Axis& axis, const Value auto& weights) {
  return call("Average", {{"axis", axis}}, x, weights);
}
/// Without `axis`, over all elements in a row.
inline Value auto cumsum(const Value auto& x, std::optional<int64_t> axis = {},
                         std::optional<at::ScalarType> dtype = {}) {
  return call("Cumsum",
              {{"axis", detail::json_or_null(axis)}, {"dtype", detail::dtype_or_null(dtype)}}, x);
}
/// Without `axis`, over all elements in a row.
inline Value auto cumprod(const Value auto& x, std::optional<int64_t> axis = {},
                          std::optional<at::ScalarType> dtype = {}) {
  return call("Cumprod",
              {{"axis", detail::json_or_null(axis)}, {"dtype", detail::dtype_or_null(dtype)}}, x);
}
/// Without `axis`, over all elements in a row.
inline Value auto nancumsum(const Value auto& x, std::optional<int64_t> axis = {},
                            std::optional<at::ScalarType> dtype = {}) {
  return call("Nancumsum",
              {{"axis", detail::json_or_null(axis)}, {"dtype", detail::dtype_or_null(dtype)}}, x);
}
/// Without `axis`, over all elements in a row.
inline Value auto nancumprod(const Value auto& x, std::optional<int64_t> axis = {},
                             std::optional<at::ScalarType> dtype = {}) {
  return call("Nancumprod",
              {{"axis", detail::json_or_null(axis)}, {"dtype", detail::dtype_or_null(dtype)}}, x);
}

/// Between values, `method` decides: "linear", "lower", "higher", "midpoint" or "nearest".
/// @param q  Numbers from 0 to 1 (`percentile`: to 100); the result has an axis in front for several.
inline Value auto quantile(const Value auto& x, double q, const Axis& axis = {},
                           const std::string& method = "linear", bool keepdims = false) {
  return call("Quantile", {{"axis", axis}, {"method", method}, {"keepdims", keepdims}}, x, q);
}
inline Value auto quantile(const Value auto& x, const std::vector<double>& q, const Axis& axis = {},
                           const std::string& method = "linear", bool keepdims = false) {
  return call("Quantile", {{"axis", axis}, {"method", method}, {"keepdims", keepdims}}, x,
              Json(to_config(q)));
}
inline Value auto percentile(const Value auto& x, double q, const Axis& axis = {},
                             const std::string& method = "linear", bool keepdims = false) {
  return call("Percentile", {{"axis", axis}, {"method", method}, {"keepdims", keepdims}}, x, q);
}
inline Value auto percentile(const Value auto& x, const std::vector<double>& q,
                             const Axis& axis = {}, const std::string& method = "linear",
                             bool keepdims = false) {
  return call("Percentile", {{"axis", axis}, {"method", method}, {"keepdims", keepdims}}, x,
              Json(to_config(q)));
}
inline Value auto nanquantile(const Value auto& x, double q, const Axis& axis = {},
                              const std::string& method = "linear", bool keepdims = false) {
  return call("Nanquantile", {{"axis", axis}, {"method", method}, {"keepdims", keepdims}}, x, q);
}
inline Value auto nanquantile(const Value auto& x, const std::vector<double>& q,
                              const Axis& axis = {}, const std::string& method = "linear",
                              bool keepdims = false) {
  return call("Nanquantile", {{"axis", axis}, {"method", method}, {"keepdims", keepdims}}, x,
              Json(to_config(q)));
}
inline Value auto nanpercentile(const Value auto& x, double q, const Axis& axis = {},
                                const std::string& method = "linear", bool keepdims = false) {
  return call("Nanpercentile", {{"axis", axis}, {"method", method}, {"keepdims", keepdims}}, x, q);
}
inline Value auto nanpercentile(const Value auto& x, const std::vector<double>& q,
                                const Axis& axis = {}, const std::string& method = "linear",
                                bool keepdims = false) {
  return call("Nanpercentile", {{"axis", axis}, {"method", method}, {"keepdims", keepdims}}, x,
              Json(to_config(q)));
}

/// Mean and variance.
inline auto moments(const Value auto& x, const std::vector<int64_t>& axes, bool keepdims = false) {
  return call_all("Moments",
                  {{"axes", to_config(axes)}, {"keepdims", keepdims}, {"synchronized", false}}, x);
}
inline Value auto trapezoid(const Value auto& y, double dx = 1, int64_t axis = -1) {
  return call("Trapezoid", {{"x", Json()}, {"dx", dx}, {"axis", axis}}, y);
}
/// Differences of neighbours, `n` times.
inline Value auto diff(const Value auto& a, int64_t n = 1, int64_t axis = -1) {
  return call("Diff", {{"n", n}, {"axis", axis}}, a);
}
inline Value auto corrcoef(const Value auto& x) { return call("Corrcoef", {}, x); }
/// @param mode  "valid", "same" or "full".
inline Value auto correlate(const Value auto& x1, const Value auto& x2,
                            const std::string& mode = "valid") {
  return call("Correlate", {{"mode", mode}}, x1, x2);
}
/// How often each whole number occurs.
inline Value auto bincount(const Value auto& x, int64_t minlength = 0) {
  return call("Bincount", {{"weights", Json()}, {"minlength", minlength}, {"sparse", false}}, x);
}
/// Counts in `bins` equal parts, and the parts' edges.
inline auto histogram(const Value auto& x, int64_t bins = 10,
                      std::optional<std::pair<double, double>> range = {}) {
  return call_all(
      "Histogram",
      {{"bins", bins}, {"range", range ? Json::array({range->first, range->second}) : Json()}}, x);
}

}  // namespace strata::keras::ops
