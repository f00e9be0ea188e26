#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/stablehlo/program.h"

/// StableHLO's operators as functions of arrays, which append to the arrays' program. Where two arrays
/// meet they have one dtype, and sizes are broadcast as libtorch does.
namespace strata::graph::stablehlo {

// --- Element by element
Array unary(std::string_view op, const Array& x);  ///< "stablehlo.sine"
Array binary(std::string_view op, const Array& a, const Array& b);
/// @param direction  EQ, NE, GE, GT, LE or LT. @return bool.
Array compare(std::string_view direction, const Array& a, const Array& b);
/// Broadcasts all three.
Array select(const Array& condition, const Array& yes, const Array& no);
Array convert(const Array& x, at::ScalarType dtype);
/// A number with the dtype of `like`, without dimensions.
Array number_like(const Array& like, double value);

Array operator+(const Array& a, const Array& b);
Array operator-(const Array& a, const Array& b);
Array operator*(const Array& a, const Array& b);
Array operator/(const Array& a, const Array& b);
Array operator-(const Array& x);
Array operator+(const Array& a, double b);
Array operator-(const Array& a, double b);
Array operator*(const Array& a, double b);
Array operator/(const Array& a, double b);
Array operator+(double a, const Array& b);
Array operator-(double a, const Array& b);
Array operator*(double a, const Array& b);
Array operator/(double a, const Array& b);
Array exp(const Array& x);
Array log(const Array& x);
Array sqrt(const Array& x);
Array tanh(const Array& x);
Array erf(const Array& x);
Array logistic(const Array& x);
Array absolute(const Array& x);
Array maximum(const Array& a, const Array& b);
Array minimum(const Array& a, const Array& b);
Array maximum(const Array& a, double b);
Array minimum(const Array& a, double b);
Array power(const Array& a, const Array& b);
Array either(const Array& a, const Array& b);  ///< a or b
Array both(const Array& a, const Array& b);    ///< a and b
Array is_nan(const Array& x);                  ///< of numbers that cannot be: false

// --- Sizes
Array reshape(const Array& x, const Sizes& sizes);
Array transpose(const Array& x, const Sizes& order);
Array swap_axes(const Array& x, int64_t a, int64_t b);
Array move_axis(const Array& x, int64_t from, int64_t to);
/// `axes[i]` is the result's axis that axis i of `x` becomes.
Array broadcast_in(const Array& x, const Sizes& sizes, const Sizes& axes);
/// As at::broadcast_to: `x`'s axes are the result's last ones.
Array broadcast_to(const Array& x, const Sizes& sizes);
Sizes broadcast_sizes(const Sizes& a, const Sizes& b);
/// `x`, of one axis, along `axis` of `sizes`.
Array along(const Array& x, const Sizes& sizes, int64_t axis);
Array slice(const Array& x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
/// @param low, high  Elements before and after, negative ones take away; between: between two elements.
Array pad(const Array& x, const Array& value, const Sizes& low, const Sizes& high,
          const Sizes& between);
Array concatenate(const std::vector<Array>& parts, int64_t axis);
Array reverse(const Array& x, const Sizes& axes);
/// 0, 1, 2, ... along an axis.
Array iota(Program& program, at::ScalarType dtype, const Sizes& sizes, int64_t axis);
Array filled(Program& program, double value, at::ScalarType dtype, const Sizes& sizes);
Array zeros_like(const Array& x);
Sizes all_axes(int64_t rank);
/// Sizes with ones for `axes`.
Sizes kept(const Sizes& sizes, const Sizes& axes);
Sizes without(const Sizes& sizes, const Sizes& axes);

// --- Over axes; `keep`: they stay, with size one
enum class Reduction { kSum, kProduct, kMax, kMin, kAny, kAll };
Array reduce(Reduction reduction, const Array& x, const Sizes& axes, bool keep = false);
Array sum(const Array& x, const Sizes& axes, bool keep = false);
Array mean(const Array& x, const Sizes& axes, bool keep = false);
/// The first index of the largest element (smallest, if not `largest`); a NaN counts as that.
Array first_index_of(bool largest, const Array& x, int64_t axis, bool keep = false);
/// Of `[window...]`, one for each axis of `x`; outside is the reduction's neutral element.
Array reduce_window(Reduction reduction, const Array& x, const Sizes& window, const Sizes& strides,
                    const Sizes& dilations, const Sizes& low, const Sizes& high);
/// Running reduction along an axis.
Array cumulate(Reduction reduction, const Array& x, int64_t axis);
/// Stable. @return The sorted elements and their indices of int64.
std::pair<Array, Array> sort(const Array& x, int64_t axis, bool descending);

// --- Products
/// Sums over `contract`; results have the batch axes, then a's others, then b's.
Array dot(const Array& a, const Array& b, const Sizes& batch_a, const Sizes& batch_b,
          const Sizes& contract_a, const Sizes& contract_b);
/// `[n, k]` by `[k, m]`.
Array matmul(const Array& a, const Array& b);
/// `[b, n, k]` by `[b, k, m]`.
Array batch_matmul(const Array& a, const Array& b);
/// Dimension i + 1 of `x` multiplied by `matrices[i]`, `[out, in]` of double, for each of them; dimension 0 and no
/// other is left.
Array mapped(const Array& x, const std::vector<at::Tensor>& matrices);
/// Where dimensions are in an array: "[b, f, 0, 1]" of the specification.
struct ConvolutionAxes {
  int64_t first = 0;   ///< Of batches, in kernels of output features.
  int64_t second = 1;  ///< Of features, in kernels of input features.
};
struct ConvolutionOptions {
  Sizes strides, low, high, input_dilation, kernel_dilation;
  int64_t feature_groups = 1;
  int64_t batch_groups = 1;
  ConvolutionAxes input = {}, kernel = {}, output = {};
};
/// Arrays whose axes from the third on are spatial. @param sizes  Of the result.
Array convolution(const Array& input, const Array& kernel, const ConvolutionOptions& options,
                  const Sizes& sizes);

// --- By indices, of int64, which must be in range
/// Rows `indices`, `[n]`, of `[rows, ...]`: `[n, ...]`.
Array take_rows(const Array& x, const Array& indices);
enum class Scatter { kPut, kAdd, kMultiply, kMax, kMin };
/// Puts `updates`, `[n, ...]`, into rows `indices` of `x`, or adds them there. Rows out of range are left
/// out.
Array scatter_rows(Scatter scatter, const Array& x, const Array& indices, const Array& updates);
/// Indices below zero count from the end.
Array wrap(const Array& indices, int64_t size);

}  // namespace strata::graph::stablehlo
