// Pooling over images of two or three dimensions, and the gradients.
//
// A largest element is found position by position of the window: each is a strided slice of the padded image,
// and the first one that is larger than those before wins, as in libtorch. The gradient puts each position's
// part back where the index says that it won. So indices, ties and NaN are libtorch's, and no scatter is needed,
// which TPUs are slow at. Averages with windows that do not divide the image are products with a matrix.
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

/// Windows have fewer positions than this, or the program would be too long.
constexpr int64_t kMostPositions = 256;

/// Windows over the last dimensions, two or three.
struct Pool {
  size_t dimensions;
  Sizes image;
  Sizes window, strides, padding, dilations;
  Sizes out;

  Pool(const NodeLowering& node, size_t first, const Sizes& sizes, const Sizes& result,
       size_t count)
      : dimensions(count),
        image(sizes.end() - static_cast<std::ptrdiff_t>(count), sizes.end()),
        window(node.integers(first, count)),
        strides(node.integers(first + 1, count)),
        padding(node.integers(first + 2, count)),
        dilations(count, 1),
        out(result.end() - static_cast<std::ptrdiff_t>(count), result.end()) {
    if (strides.empty()) strides = window;
  }

  /// Elements after the image, so that the last window fits; with `ceil_mode`, beyond the padding.
  int64_t high(size_t d) const {
    const int64_t end = (out[d] - 1) * strides[d] + (window[d] - 1) * dilations[d] + 1;
    return end - padding[d] - image[d];
  }
  Sizes highs() const {
    Sizes all;
    for (size_t d = 0; d < dimensions; ++d) all.push_back(high(d));
    return all;
  }
};

int64_t product(const Sizes& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

/// Of each image, before what is of its dimensions.
Sizes with_images(int64_t of_images, const Sizes& sizes) {
  Sizes all = {of_images};
  all.insert(all.end(), sizes.begin(), sizes.end());
  return all;
}

/// `[..., rows, columns]` as `[images, rows, columns]`, for two dimensions; or for three.
Array as_images(const Array& x, size_t dimensions) {
  const Sizes image(x.sizes.end() - static_cast<std::ptrdiff_t>(dimensions), x.sizes.end());
  return reshape(x, with_images(x.count() / product(image), image));
}

Array padded(const Array& images, const Pool& pool, double value) {
  return pad(images, number_like(images, value), with_images(0, pool.padding),
             with_images(0, pool.highs()), Sizes(pool.dimensions + 1, 0));
}

/// What each window has at one of its positions.
Array at_position(const Array& padded, const Pool& pool, const Sizes& position) {
  Array part = padded;
  for (size_t d = 0; d < pool.dimensions; ++d) {
    const int64_t begin = position[d] * pool.dilations[d];
    part = slice(part, static_cast<int64_t>(d) + 1, begin,
                 begin + (pool.out[d] - 1) * pool.strides[d] + 1, pool.strides[d]);
  }
  return part;
}

/// In the order of memory.
void for_each_position(const Sizes& window, const std::function<void(const Sizes&)>& call) {
  for (int64_t i = 0; i < product(window); ++i) {
    Sizes position(window.size());
    int64_t rest = i;
    for (size_t d = window.size(); d-- > 0;) {
      position[d] = rest % window[d];
      rest /= window[d];
    }
    call(position);
  }
}

void check_positions(const NodeLowering& node, const Sizes& window) {
  node.require(product(window) <= kMostPositions, "a window of more than 256");
}

/// The places of an image's elements, `[1, ...]`.
Array places(Program& program, const Sizes& image) {
  return reshape(iota(program, at::kLong, {1, product(image)}, 1), with_images(1, image));
}

/// The largest element of each window, and its place.
class Largest {
 public:
  /// @param place  Below zero: beside the image.
  void add(const Array& element, const Array& place) {
    const Array at = broadcast_to(place, element.sizes);
    if (best_.program == nullptr) {
      best_ = element;
      place_ = at;
      return;
    }
    // The first element within the image is better than padding, also if it is minus infinity.
    const Array zero = number_like(at, 0);
    const Array first = both(compare("LT", place_, zero), compare("GE", at, zero));
    const Array better = either(first, either(compare("GT", element, best_), is_nan(element)));
    best_ = select(better, element, best_);
    place_ = select(better, at, place_);
  }
  void give(NodeLowering& node) const {
    node.give(reshape(best_, node.sizes(0)), 0);
    node.give(reshape(place_, node.sizes(0)), 1);
  }

 private:
  Array best_, place_;
};

constexpr double kLeast = -std::numeric_limits<double>::infinity();

/// (x, window, stride, padding, dilation, ceil_mode)
template <size_t kDimensions>
void max_pool(NodeLowering& node) {
  const Array x = node.in(0);
  Pool pool(node, 1, x.sizes, node.sizes(), kDimensions);
  pool.dilations = node.integers(4, kDimensions);
  check_positions(node, pool.window);
  const Array elements = padded(as_images(x, kDimensions), pool, kLeast);
  const Array indices = padded(places(node.program(), pool.image), pool, -1);
  Largest largest;
  for_each_position(pool.window, [&](const Sizes& position) {
    largest.add(at_position(elements, pool, position), at_position(indices, pool, position));
  });
  largest.give(node);
}

/// What windows have at one position, put back to where it is in the image.
Array put_back(const Array& part, const Pool& pool, const Sizes& position) {
  Sizes low = {0}, high = {0}, between = {0};
  for (size_t d = 0; d < pool.dimensions; ++d) {
    low.push_back(position[d] * pool.dilations[d] - pool.padding[d]);
    between.push_back(pool.strides[d] - 1);
    high.push_back(pool.image[d] - low.back() - (pool.out[d] - 1) * pool.strides[d] - 1);
  }
  return pad(part, number_like(part, 0), low, high, between);
}

/// (gradient, x, window, stride, padding, dilation, ceil_mode, indices)
template <size_t kDimensions>
void max_pool_backward(NodeLowering& node) {
  const Array gradient = as_images(node.in(0), kDimensions);
  const Array winner = as_images(node.in(7), kDimensions);
  const Sizes sizes = node.sizes();
  Pool pool(node, 2, sizes, node.value(0).sizes, kDimensions);
  pool.dilations = node.integers(5, kDimensions);
  check_positions(node, pool.window);
  const Array indices = padded(places(node.program(), pool.image), pool, -1);
  Array total;
  for_each_position(pool.window, [&](const Sizes& position) {
    const Array won = compare("EQ", winner, at_position(indices, pool, position));
    const Array part = put_back(select(won, gradient, number_like(gradient, 0)), pool, position);
    total = total.program == nullptr ? part : total + part;
  });
  node.give(reshape(total, sizes));
}

/// The sums of windows of padded images.
Array sums(const Array& padded, const Sizes& window, const Sizes& strides) {
  const Sizes ones(window.size() + 1, 1), zeros(window.size() + 1, 0);
  return reduce_window(Reduction::kSum, padded, with_images(1, window), with_images(1, strides),
                       ones, zeros, zeros);
}

/// By how many elements each window's sum is divided, `[1, rows, columns]`.
Array divisors(NodeLowering& node, const Pool& pool, at::ScalarType dtype, bool with_padding,
               size_t override) {
  if (!node.is_none(override)) {
    return filled(node.program(), node.number(override), dtype, Sizes(pool.dimensions + 1, 1));
  }
  // Padding counts, but not what `ceil_mode` adds behind it.
  const Sizes none(pool.dimensions + 1, 0);
  Array ones = filled(node.program(), 1, dtype, with_images(1, pool.image));
  Sizes low = with_images(0, pool.padding), high = with_images(0, pool.highs());
  if (with_padding) {
    ones = pad(ones, number_like(ones, 1), low, low, none);
    for (size_t d = 1; d <= pool.dimensions; ++d) high[d] -= low[d];
    low = none;
  }
  return sums(pad(ones, number_like(ones, 0), low, high, none), pool.window, pool.strides);
}

/// (x, window, stride, padding, ceil_mode, count_include_pad, divisor_override)
template <size_t kDimensions>
void avg_pool(NodeLowering& node) {
  const Array x = node.in(0);
  const Pool pool(node, 1, x.sizes, node.sizes(), kDimensions);
  const Array total = sums(padded(as_images(x, kDimensions), pool, 0), pool.window, pool.strides);
  node.give(reshape(total / divisors(node, pool, x.dtype, node.flag(5), 6), node.sizes()));
}

/// (gradient, x, window, stride, padding, ceil_mode, count_include_pad, divisor_override)
template <size_t kDimensions>
void avg_pool_backward(NodeLowering& node) {
  const Array gradient = as_images(node.in(0), kDimensions);
  const Pool pool(node, 2, node.sizes(), node.value(0).sizes, kDimensions);
  const Array part = gradient / divisors(node, pool, gradient.dtype, node.flag(6), 7);
  // Each element gets the parts of the windows that it is in: a sum over windows of the spread parts.
  Sizes low = {0}, high = {0}, between = {0};
  for (size_t d = 0; d < kDimensions; ++d) {
    low.push_back(pool.window[d] - 1 - pool.padding[d]);
    between.push_back(pool.strides[d] - 1);
    const int64_t spread = (pool.out[d] - 1) * pool.strides[d] + 1;
    high.push_back(pool.image[d] + pool.window[d] - 1 - low.back() - spread);
  }
  const Array all = pad(part, number_like(part, 0), low, high, between);
  node.give(reshape(sums(all, pool.window, Sizes(kDimensions, 1)), node.sizes()));
}

// --- Windows that need not be of equal sizes

/// Where the window of output `o` begins, and behind its end.
int64_t begin_of(int64_t o, int64_t in, int64_t out) { return o * in / out; }
int64_t end_of(int64_t o, int64_t in, int64_t out) { return ((o + 1) * in + out - 1) / out; }

/// (x, sizes)
template <size_t kDimensions>
void adaptive_max_pool(NodeLowering& node) {
  const Array x = as_images(node.in(0), kDimensions);
  const Sizes& sizes = node.sizes();
  const Sizes image(x.sizes.begin() + 1, x.sizes.end());
  const Sizes out(sizes.end() - static_cast<std::ptrdiff_t>(kDimensions), sizes.end());
  Sizes window;
  for (size_t d = 0; d < kDimensions; ++d) {
    int64_t largest = 0;
    for (int64_t o = 0; o < out[d]; ++o) {
      largest = std::max(largest, end_of(o, image[d], out[d]) - begin_of(o, image[d], out[d]));
    }
    window.push_back(largest);
  }
  check_positions(node, window);
  const Array indices = places(node.program(), image);
  Largest largest;
  for_each_position(window, [&](const Sizes& position) {
    // A window that has no such element takes its last one again, which is not larger than itself.
    Array element = x, place = indices;
    for (size_t d = 0; d < kDimensions; ++d) {
      std::vector<int64_t> rows;
      for (int64_t o = 0; o < out[d]; ++o) {
        rows.push_back(
            std::min(begin_of(o, image[d], out[d]) + position[d], end_of(o, image[d], out[d]) - 1));
      }
      const Array chosen = node.program().constant(at::tensor(rows, at::kLong));
      const auto axis = static_cast<int64_t>(d) + 1;
      for (Array* const each : {&element, &place}) {
        *each = move_axis(take_rows(move_axis(*each, axis, 0), chosen), 0, axis);
      }
    }
    largest.add(element, place);
  });
  largest.give(node);
}

/// (gradient, x, indices)
template <size_t kDimensions>
void adaptive_max_pool_backward(NodeLowering& node) {
  const Sizes& sizes = node.sizes();
  const Array gradient = as_images(node.in(0), kDimensions);
  const Array winner = as_images(node.in(2), kDimensions);
  const Sizes image(sizes.end() - static_cast<std::ptrdiff_t>(kDimensions), sizes.end());
  const int64_t images = gradient.size(0), outputs = gradient.count() / images;
  // Each output's gradient at the place that won; windows may have elements in common.
  const Sizes all = {images, outputs, product(image)};
  const Array of_output = broadcast_to(reshape(gradient, {images, outputs, 1}), all);
  const Array won =
      compare("EQ", broadcast_to(reshape(winner, {images, outputs, 1}), all),
              broadcast_to(reshape(places(node.program(), image), {1, 1, product(image)}), all));
  node.give(reshape(sum(select(won, of_output, number_like(of_output, 0)), {1}), sizes));
}

/// `[out, in]`: what each output takes of each input.
at::Tensor averages(int64_t in, int64_t out) {
  const at::Tensor matrix = at::zeros({out, in}, at::kDouble);
  for (int64_t o = 0; o < out; ++o) {
    const int64_t begin = begin_of(o, in, out), end = end_of(o, in, out);
    matrix.select(0, o).slice(0, begin, end).fill_(1.0 / static_cast<double>(end - begin));
  }
  return matrix;
}

/// (x, sizes)
template <size_t kDimensions>
void adaptive_avg_pool(NodeLowering& node) {
  const Array x = as_images(node.in(0), kDimensions);
  const Sizes& sizes = node.sizes();
  std::vector<at::Tensor> matrices;
  for (size_t d = 0; d < kDimensions; ++d) {
    matrices.push_back(averages(x.sizes[d + 1], sizes[sizes.size() - kDimensions + d]));
  }
  node.give(reshape(mapped(x, matrices), sizes));
}

/// (gradient, x)
template <size_t kDimensions>
void adaptive_avg_pool_backward(NodeLowering& node) {
  const Array gradient = as_images(node.in(0), kDimensions);
  const Sizes& sizes = node.sizes();
  std::vector<at::Tensor> matrices;
  for (size_t d = 0; d < kDimensions; ++d) {
    matrices.push_back(averages(sizes[sizes.size() - kDimensions + d], gradient.sizes[d + 1]).t());
  }
  node.give(reshape(mapped(gradient, matrices), sizes));
}

}  // namespace

const Rules& pooling_rules() {
  static const Rules rules = {
      {"aten::_adaptive_avg_pool2d", {adaptive_avg_pool<2>}},
      {"aten::_adaptive_avg_pool2d_backward", {adaptive_avg_pool_backward<2>}},
      {"aten::_adaptive_avg_pool3d", {adaptive_avg_pool<3>}},
      {"aten::_adaptive_avg_pool3d_backward", {adaptive_avg_pool_backward<3>}},
      {"aten::adaptive_max_pool2d", {adaptive_max_pool<2>}},
      {"aten::adaptive_max_pool2d_backward", {adaptive_max_pool_backward<2>}},
      {"aten::adaptive_max_pool3d", {adaptive_max_pool<3>}},
      {"aten::adaptive_max_pool3d_backward", {adaptive_max_pool_backward<3>}},
      {"aten::avg_pool2d", {avg_pool<2>}},
      {"aten::avg_pool2d_backward", {avg_pool_backward<2>}},
      {"aten::avg_pool3d", {avg_pool<3>}},
      {"aten::avg_pool3d_backward", {avg_pool_backward<3>}},
      {"aten::max_pool2d_with_indices", {max_pool<2>}},
      {"aten::max_pool2d_with_indices_backward", {max_pool_backward<2>}},
      {"aten::max_pool3d_with_indices", {max_pool<3>}},
      {"aten::max_pool3d_with_indices_backward", {max_pool_backward<3>}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
