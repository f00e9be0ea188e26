// Operators that move elements and compute nothing.
#include <algorithm>

#include "graph/stablehlo/rules.h"
#include "graph/stablehlo/strided.h"

namespace strata::graph::stablehlo {
namespace {

void same_elements(NodeLowering& node) { node.give(reshape(node.in(0), node.sizes())); }
void same(NodeLowering& node) { node.give(node.in(0)); }

/// By its strides, in the whole memory: a view may reach beyond the one that it was made of.
void as_strided(NodeLowering& node) { node.give(node.read_by_strides()); }

void view_dtype(NodeLowering& node) { node.refuse("another dtype for the same bytes"); }

void expand(NodeLowering& node) { node.give(broadcast_to(node.in(0), node.sizes())); }

void t(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(x.rank() < 2 ? x : swap_axes(x, 0, 1));
}
void transpose_rule(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(x.rank() == 0 ? x : swap_axes(x, node.axis(1), node.axis(2)));
}
void permute(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(x.rank() == 0 ? x : transpose(x, node.axes(1)));
}

struct Range {
  int64_t axis, begin, end, step;
};

Range range_of_slice(const NodeLowering& node) {
  const int64_t axis = node.axis(1), size = node.value(0).sizes[static_cast<size_t>(axis)];
  const auto place = [&](size_t i, int64_t otherwise) {
    if (node.is_none(i)) return otherwise;
    const int64_t at = node.integer(i);
    return std::clamp(at < 0 ? at + size : at, int64_t{0}, size);
  };
  const int64_t begin = place(2, 0);
  return {axis, begin, std::max(begin, place(3, size)), node.integer(4)};
}

void slice_rule(NodeLowering& node) {
  const Range range = range_of_slice(node);
  node.give(slice(node.in(0), range.axis, range.begin, range.end, range.step));
}

Range range_of_select(const NodeLowering& node) {
  const int64_t axis = node.axis(1), size = node.value(0).sizes[static_cast<size_t>(axis)];
  const int64_t at = node.integer(2) < 0 ? node.integer(2) + size : node.integer(2);
  return {axis, at, at + 1, 1};
}

void select_rule(NodeLowering& node) {
  const Range range = range_of_select(node);
  node.give(reshape(slice(node.in(0), range.axis, range.begin, range.end), node.sizes()));
}

/// `part` in place of a range of `whole`.
Array put_range(const Array& whole, const Array& part, const Range& range) {
  if (range.step == 1) {
    std::vector<Array> parts;
    if (range.begin > 0) parts.push_back(slice(whole, range.axis, 0, range.begin));
    parts.push_back(part);
    if (range.end < whole.size(range.axis)) {
      parts.push_back(slice(whole, range.axis, range.end, whole.size(range.axis)));
    }
    return concatenate(parts, range.axis);
  }
  const Array rows = move_axis(whole, range.axis, 0);
  const Array updates = move_axis(part, range.axis, 0);
  const Array index =
      iota(*whole.program, at::kLong, {updates.size(0)}, 0) * static_cast<double>(range.step) +
      static_cast<double>(range.begin);
  return move_axis(scatter_rows(Scatter::kPut, rows, index, updates), 0, range.axis);
}

Array put_slice(const NodeLowering& view, const Array& whole, const Array& part) {
  return put_range(whole, part, range_of_slice(view));
}
Array put_select(const NodeLowering& view, const Array& whole, const Array& part) {
  const Range range = range_of_select(view);
  return put_range(whole, reshape(part, kept(whole.sizes, {range.axis})), range);
}

/// The gradient of a slice or of a select: zeros around it.
Array zeros_around(const Array& part, const Sizes& sizes, const Range& range) {
  Sizes low(sizes.size(), 0), high = low, between = low;
  const auto axis = static_cast<size_t>(range.axis);
  const int64_t size = part.size(range.axis);
  if (size == 0) return filled(*part.program, 0, part.dtype, sizes);
  low[axis] = range.begin;
  between[axis] = range.step - 1;
  high[axis] = sizes[axis] - range.begin - (size - 1) * range.step - 1;
  return pad(part, number_like(part, 0), low, high, between);
}

void slice_backward(NodeLowering& node) {  // (gradient, sizes, axis, begin, end, step)
  const Sizes sizes = node.integers(1);
  const auto rank = static_cast<int64_t>(sizes.size());
  const int64_t axis = node.integer(2) < 0 ? node.integer(2) + rank : node.integer(2);
  const int64_t size = sizes[static_cast<size_t>(axis)];
  const int64_t begin = node.integer(3) < 0 ? node.integer(3) + size : node.integer(3);
  node.give(zeros_around(node.in(0), sizes,
                         {axis, std::clamp(begin, int64_t{0}, size), 0, node.integer(5)}));
}

void select_backward(NodeLowering& node) {  // (gradient, sizes, axis, index)
  const Sizes sizes = node.integers(1);
  const auto rank = static_cast<int64_t>(sizes.size());
  const int64_t axis = node.integer(2) < 0 ? node.integer(2) + rank : node.integer(2);
  const int64_t size = sizes[static_cast<size_t>(axis)];
  const int64_t at = node.integer(3) < 0 ? node.integer(3) + size : node.integer(3);
  node.give(zeros_around(reshape(node.in(0), kept(sizes, {axis})), sizes, {axis, at, at + 1, 1}));
}

Sizes contiguous_strides(const Sizes& sizes) {
  Sizes strides(sizes.size(), 1);
  for (size_t a = sizes.size(); a-- > 1;) strides[a - 1] = strides[a] * sizes[a];
  return strides;
}

int64_t axis_of(int64_t axis, const Sizes& sizes) {
  return axis < 0 ? axis + static_cast<int64_t>(sizes.size()) : axis;
}

void diagonal_backward(NodeLowering& node) {  // (gradient, sizes, offset, axis, axis)
  const Sizes sizes = node.integers(1);
  const int64_t offset = node.integer(2);
  const auto a = static_cast<size_t>(axis_of(node.integer(3), sizes));
  const auto b = static_cast<size_t>(axis_of(node.integer(4), sizes));
  const Sizes strides = contiguous_strides(sizes);
  Geometry part{.sizes = node.value(0).sizes, .strides = {}};
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d != a && d != b) part.strides.push_back(strides[d]);
  }
  part.strides.push_back(strides[a] + strides[b]);
  part.offset = offset >= 0 ? offset * strides[b] : -offset * strides[a];
  node.give(add_strided(sizes, part, node.in(0)));
}

void unfold_backward(NodeLowering& node) {  // (gradient, sizes, axis, size, step)
  const Sizes sizes = node.integers(1);
  const auto axis = static_cast<size_t>(axis_of(node.integer(2), sizes));
  Geometry part{.sizes = node.value(0).sizes, .strides = contiguous_strides(sizes)};
  part.strides.push_back(part.strides[axis]);
  part.strides[axis] *= node.integer(4);
  node.give(add_strided(sizes, part, node.in(0)));
}

/// Splits into parts as large as the results.
void split(NodeLowering& node) {
  const Array x = node.in(0);
  const int64_t axis = node.axis(2);
  std::vector<Array> parts;
  int64_t begin = 0;
  for (const ValueId id : node.result_list()) {
    node.require(id != kNoValue, "a part that is not known");
    const int64_t size = node.value_of(id).sizes[static_cast<size_t>(axis)];
    parts.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  node.give_list(parts);
}

void unbind(NodeLowering& node) {
  const Array x = node.in(0);
  const int64_t axis = node.axis(1);
  std::vector<Array> parts;
  for (int64_t i = 0; i < x.size(axis); ++i) {
    parts.push_back(reshape(slice(x, axis, i, i + 1), without(x.sizes, {axis})));
  }
  node.give_list(parts);
}

void cat(NodeLowering& node) {
  const auto rank = static_cast<int64_t>(node.sizes().size());
  const int64_t axis = node.integer(1) < 0 ? node.integer(1) + rank : node.integer(1);
  std::vector<Array> parts;
  for (const ValueId id : node.list(0)) {
    const Array part = convert(node.read(id), node.dtype());
    if (part.rank() == rank) parts.push_back(part);  // libtorch leaves out empty ones of one axis
  }
  node.give(concatenate(parts, axis));
}

void stack(NodeLowering& node) {
  const auto rank = static_cast<int64_t>(node.sizes().size());
  const int64_t axis = node.integer(1) < 0 ? node.integer(1) + rank : node.integer(1);
  std::vector<Array> parts;
  for (const ValueId id : node.list(0)) {
    parts.push_back(reshape(convert(node.read(id), node.dtype()), kept(node.sizes(), {axis})));
  }
  node.give(concatenate(parts, axis));
}

void flip(NodeLowering& node) { node.give(reverse(node.in(0), node.axes(1))); }

void roll(NodeLowering& node) {
  Array x = node.in(0);
  const Sizes shifts = node.integers(1);
  const Sizes dims = node.integers(2);
  const bool flat = dims.empty();
  if (flat) x = reshape(x, {x.count()});
  for (size_t i = 0; i < shifts.size() && x.count() > 0; ++i) {
    int64_t axis = flat ? 0 : dims[i];
    if (axis < 0) axis += x.rank();
    const int64_t size = x.size(axis), shift = ((shifts[i] % size) + size) % size;
    if (shift == 0) continue;
    x = concatenate({slice(x, axis, size - shift, size), slice(x, axis, 0, size - shift)}, axis);
  }
  node.give(reshape(x, node.sizes()));
}

void repeat(NodeLowering& node) {
  const Sizes times = node.integers(1);
  const Array x = node.in(0);
  Sizes own(times.size() - x.sizes.size(), 1);
  own.insert(own.end(), x.sizes.begin(), x.sizes.end());
  Sizes spread, axes;
  for (size_t a = 0; a < times.size(); ++a) {
    spread.push_back(times[a]);
    axes.push_back(static_cast<int64_t>(spread.size()));
    spread.push_back(own[a]);
  }
  node.give(reshape(broadcast_in(reshape(x, own), spread, axes), node.sizes()));
}

void constant_pad(NodeLowering& node) {  // sizes from the last axis on: low, high, low, high
  const Array x = node.in(0);
  const Sizes given = node.integers(1);
  Sizes low(x.sizes.size(), 0), high = low;
  for (size_t i = 0; i + 1 < given.size(); i += 2) {
    low[low.size() - 1 - i / 2] = given[i];
    high[high.size() - 1 - i / 2] = given[i + 1];
  }
  node.give(pad(x, node.operand(2, x.dtype), low, high, Sizes(x.sizes.size(), 0)));
}

void triangle(NodeLowering& node, const char* direction) {
  const Array x = node.in(0);
  const Array row = iota(node.program(), at::kLong, x.sizes, x.rank() - 2);
  const Array column = iota(node.program(), at::kLong, x.sizes, x.rank() - 1);
  const Array inside = compare(direction, column, row + static_cast<double>(node.integer(1)));
  node.give(select(inside, x, number_like(x, 0)));
}
void tril(NodeLowering& node) { triangle(node, "LE"); }
void triu(NodeLowering& node) { triangle(node, "GE"); }

}  // namespace

const Rules& shape_rules() {
  static const Rules rules = {
      {"aten::_reshape_alias", {same_elements}},
      {"aten::_unsafe_view", {same_elements}},
      {"aten::alias", {same}},
      {"aten::as_strided", {as_strided}},
      {"aten::cat", {cat}},
      {"aten::constant_pad_nd", {constant_pad}},
      {"aten::detach", {same}},
      {"aten::diagonal", {as_strided}},
      {"aten::diagonal_backward", {diagonal_backward}},
      {"aten::expand", {expand}},
      {"aten::flip", {flip}},
      {"aten::permute", {permute}},
      {"aten::repeat", {repeat}},
      {"aten::roll", {roll}},
      {"aten::select", {select_rule, put_select}},
      {"aten::select_backward", {select_backward}},
      {"aten::slice", {slice_rule, put_slice}},
      {"aten::slice_backward", {slice_backward}},
      {"aten::split", {split}},
      {"aten::split_with_sizes", {split}},
      {"aten::squeeze", {same_elements}},
      {"aten::stack", {stack}},
      {"aten::t", {t}},
      {"aten::transpose", {transpose_rule}},
      {"aten::tril", {tril}},
      {"aten::triu", {triu}},
      {"aten::unbind", {unbind}},
      {"aten::unfold", {as_strided}},
      {"aten::unfold_backward", {unfold_backward}},
      {"aten::unsafe_split", {split}},
      {"aten::unsafe_split_with_sizes", {split}},
      {"aten::unsqueeze", {same_elements}},
      {"aten::view", {same_elements}},
      {"aten::view.dtype", {view_dtype}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
