// Pooling over images, and the gradients.
//
// A largest element is found position by position of the window: each is a strided slice of the padded image,
// and the first one that is larger than those before wins, as in libtorch. The gradient puts each position's
// part back where the index says that it won. So indices, ties and NaN are libtorch's, and no scatter is needed,
// which TPUs are slow at. Averages with windows that do not divide the image are products with a matrix.
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <limits>

#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

/// Windows have fewer positions than this, or the program would be too long.
constexpr int64_t kMostPositions = 256;

struct Pool {
  int64_t rows, columns;  // of the image
  Sizes window, strides, padding, dilations;
  Sizes out;  // rows and columns of the result

  Pool(const NodeLowering& node, size_t first, const Sizes& image, const Sizes& result)
      : rows(image[image.size() - 2]),
        columns(image.back()),
        window(node.integers(first, 2)),
        strides(node.integers(first + 1, 2)),
        padding(node.integers(first + 2, 2)),
        dilations{1, 1},
        out{result[result.size() - 2], result.back()} {
    if (strides.empty()) strides = window;
  }

  /// Rows or columns after the image, so that the last window fits; with `ceil_mode`, beyond the padding.
  int64_t high(size_t d) const {
    const int64_t end = (out[d] - 1) * strides[d] + (window[d] - 1) * dilations[d] + 1;
    return end - padding[d] - (d == 0 ? rows : columns);
  }
};

/// `[..., rows, columns]` as `[images, rows, columns]`.
Array as_images(const Array& x) {
  const int64_t rows = x.size(x.rank() - 2), columns = x.size(x.rank() - 1);
  return reshape(x, {x.count() / (rows * columns), rows, columns});
}

Array padded(const Array& images, const Pool& pool, double value) {
  return pad(images, number_like(images, value), {0, pool.padding[0], pool.padding[1]},
             {0, pool.high(0), pool.high(1)}, {0, 0, 0});
}

/// What each window has at one of its positions.
Array at_position(const Array& padded, const Pool& pool, int64_t row, int64_t column) {
  const auto part = [&](const Array& x, size_t d, int64_t position) {
    const int64_t begin = position * pool.dilations[d];
    return slice(x, static_cast<int64_t>(d) + 1, begin,
                 begin + (pool.out[d] - 1) * pool.strides[d] + 1, pool.strides[d]);
  };
  return part(part(padded, 0, row), 1, column);
}

void for_each_position(const Pool& pool, const std::function<void(int64_t, int64_t)>& call) {
  for (int64_t row = 0; row < pool.window[0]; ++row) {
    for (int64_t column = 0; column < pool.window[1]; ++column) call(row, column);
  }
}

void check_positions(const NodeLowering& node, const Pool& pool) {
  node.require(pool.window[0] * pool.window[1] <= kMostPositions, "a window of more than 256");
}

/// (x, window, stride, padding, dilation, ceil_mode)
void max_pool(NodeLowering& node) {
  const Array x = node.in(0);
  Pool pool(node, 1, x.sizes, node.sizes());
  pool.dilations = node.integers(4, 2);
  check_positions(node, pool);
  const Array images = as_images(x);
  const Array index = iota(node.program(), at::kLong, {1, pool.rows * pool.columns}, 1);
  const Array elements = padded(images, pool, -std::numeric_limits<double>::infinity());
  const Array indices = padded(reshape(index, {1, pool.rows, pool.columns}), pool, -1);
  Array best, best_index;
  for_each_position(pool, [&](int64_t row, int64_t column) {
    const Array element = at_position(elements, pool, row, column);
    const Array at = broadcast_to(at_position(indices, pool, row, column), element.sizes);
    if (best.program == nullptr) {
      best = element;
      best_index = at;
      return;
    }
    // The first element within the image is better than padding, also if it is minus infinity.
    const Array zero = number_like(at, 0);
    const Array first = both(compare("LT", best_index, zero), compare("GE", at, zero));
    const Array better = either(first, either(compare("GT", element, best), is_nan(element)));
    best = select(better, element, best);
    best_index = select(better, at, best_index);
  });
  node.give(reshape(best, node.sizes(0)), 0);
  node.give(reshape(best_index, node.sizes(0)), 1);
}

/// What windows have at one position, put back to where it is in the image.
Array put_back(const Array& part, const Pool& pool, int64_t row, int64_t column) {
  Sizes low = {0}, high = {0}, between = {0};
  const Sizes position = {row, column}, size = {pool.rows, pool.columns};
  for (size_t d = 0; d < 2; ++d) {
    low.push_back(position[d] * pool.dilations[d] - pool.padding[d]);
    between.push_back(pool.strides[d] - 1);
    high.push_back(size[d] - low.back() - (pool.out[d] - 1) * pool.strides[d] - 1);
  }
  return pad(part, number_like(part, 0), low, high, between);
}

/// (gradient, x, window, stride, padding, dilation, ceil_mode, indices)
void max_pool_backward(NodeLowering& node) {
  const Array gradient = as_images(node.in(0)), winner = as_images(node.in(7));
  const Sizes sizes = node.sizes();
  Pool pool(node, 2, sizes, node.value(0).sizes);
  pool.dilations = node.integers(5, 2);
  check_positions(node, pool);
  const Array index = iota(node.program(), at::kLong, {1, pool.rows * pool.columns}, 1);
  const Array indices = padded(reshape(index, {1, pool.rows, pool.columns}), pool, -1);
  Array total;
  for_each_position(pool, [&](int64_t row, int64_t column) {
    const Array won = compare("EQ", winner, at_position(indices, pool, row, column));
    const Array part = put_back(select(won, gradient, number_like(gradient, 0)), pool, row, column);
    total = total.program == nullptr ? part : total + part;
  });
  node.give(reshape(total, sizes));
}

/// By how many elements each window's sum is divided, `[1, rows, columns]`.
Array divisors(NodeLowering& node, const Pool& pool, at::ScalarType dtype, bool with_padding,
               size_t override) {
  if (!node.is_none(override))
    return filled(node.program(), node.number(override), dtype, {1, 1, 1});
  // Padding counts, but not what `ceil_mode` adds behind it.
  Array ones = filled(node.program(), 1, dtype, {1, pool.rows, pool.columns});
  Sizes low = {0}, high = {0};
  for (size_t d = 0; d < 2; ++d) {
    low.push_back(pool.padding[d]);
    high.push_back(pool.high(d));
  }
  if (with_padding) {
    ones = pad(ones, number_like(ones, 1), {0, pool.padding[0], pool.padding[1]},
               {0, pool.padding[0], pool.padding[1]}, {0, 0, 0});
    for (size_t d = 0; d < 2; ++d) {
      low[d + 1] = 0;
      high[d + 1] -= pool.padding[d];
    }
  }
  const Array all = pad(ones, number_like(ones, 0), low, high, {0, 0, 0});
  return reduce_window(Reduction::kSum, all, {1, pool.window[0], pool.window[1]},
                       {1, pool.strides[0], pool.strides[1]}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0});
}

/// (x, window, stride, padding, ceil_mode, count_include_pad, divisor_override)
void avg_pool(NodeLowering& node) {
  const Array x = node.in(0), images = as_images(x);
  const Pool pool(node, 1, x.sizes, node.sizes());
  const Array total =
      reduce_window(Reduction::kSum, padded(images, pool, 0), {1, pool.window[0], pool.window[1]},
                    {1, pool.strides[0], pool.strides[1]}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0});
  node.give(reshape(total / divisors(node, pool, x.dtype, node.flag(5), 6), node.sizes()));
}

/// (gradient, x, window, stride, padding, ceil_mode, count_include_pad, divisor_override)
void avg_pool_backward(NodeLowering& node) {
  const Array gradient = as_images(node.in(0));
  const Pool pool(node, 2, node.sizes(), node.value(0).sizes);
  const Array part = gradient / divisors(node, pool, gradient.dtype, node.flag(6), 7);
  // Each element gets the parts of the windows that it is in: a sum over windows of the spread parts.
  Sizes low = {0}, high = {0}, between = {0};
  const Sizes size = {pool.rows, pool.columns};
  for (size_t d = 0; d < 2; ++d) {
    low.push_back(pool.window[d] - 1 - pool.padding[d]);
    between.push_back(pool.strides[d] - 1);
    const int64_t spread = (pool.out[d] - 1) * pool.strides[d] + 1;
    high.push_back(size[d] + pool.window[d] - 1 - low.back() - spread);
  }
  const Array all = pad(part, number_like(part, 0), low, high, between);
  const Array total = reduce_window(Reduction::kSum, all, {1, pool.window[0], pool.window[1]},
                                    {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0});
  node.give(reshape(total, node.sizes()));
}

/// `[out, in]`: what each output takes of each input.
Array averages(Program& program, int64_t in, int64_t out, at::ScalarType dtype) {
  const at::Tensor matrix = at::zeros({out, in}, at::kDouble);
  for (int64_t o = 0; o < out; ++o) {
    const int64_t begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
    matrix.select(0, o).slice(0, begin, end).fill_(1.0 / static_cast<double>(end - begin));
  }
  return program.constant(matrix.to(dtype));
}

/// x, `[images, rows, columns]`, with matrices over rows and over columns.
Array mapped(const Array& x, const Array& rows, int64_t of_rows, const Array& columns,
             int64_t of_columns) {
  const Array by_rows = dot(x, rows, {}, {}, {1}, {of_rows});  // [images, columns, rows']
  return dot(by_rows, columns, {}, {}, {1}, {of_columns});
}

void adaptive_avg_pool(NodeLowering& node) {  // (x, sizes)
  const Array x = as_images(node.in(0));
  const Sizes& sizes = node.sizes();
  const Array rows = averages(node.program(), x.size(1), sizes[sizes.size() - 2], x.dtype);
  const Array columns = averages(node.program(), x.size(2), sizes.back(), x.dtype);
  node.give(reshape(mapped(x, rows, 1, columns, 1), sizes));
}

void adaptive_avg_pool_backward(NodeLowering& node) {  // (gradient, x)
  const Array gradient = as_images(node.in(0));
  const Sizes& sizes = node.sizes();
  const Array rows =
      averages(node.program(), sizes[sizes.size() - 2], gradient.size(1), gradient.dtype);
  const Array columns = averages(node.program(), sizes.back(), gradient.size(2), gradient.dtype);
  node.give(reshape(mapped(gradient, rows, 0, columns, 0), sizes));
}

}  // namespace

const Rules& pooling_rules() {
  static const Rules rules = {
      {"aten::_adaptive_avg_pool2d", {adaptive_avg_pool}},
      {"aten::_adaptive_avg_pool2d_backward", {adaptive_avg_pool_backward}},
      {"aten::avg_pool2d", {avg_pool}},
      {"aten::avg_pool2d_backward", {avg_pool_backward}},
      {"aten::max_pool2d_with_indices", {max_pool}},
      {"aten::max_pool2d_with_indices_backward", {max_pool_backward}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
