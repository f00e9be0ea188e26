// Elements chosen by tensors of indices. Indices out of range, errors in libtorch, have no effect, or that of the
// nearest one: a program does not stop.
#include <algorithm>

#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

Array flat_indices(NodeLowering& node, size_t i, int64_t size) {
  const Array index = node.in(i, at::kLong);
  return wrap(reshape(index, {index.count()}), size);
}

void index_select(NodeLowering& node) {  // (x, axis, indices)
  const Array x = node.in(0);
  if (x.rank() == 0) return node.give(x);
  const int64_t axis = node.axis(1);
  const Array rows = take_rows(move_axis(x, axis, 0), flat_indices(node, 2, x.size(axis)));
  node.give(move_axis(rows, 0, axis));
}

void embedding(NodeLowering& node) {  // (weight, indices, ...)
  const Array weight = node.in(0);
  node.give(reshape(take_rows(weight, flat_indices(node, 1, weight.size(0))), node.sizes()));
}

/// (gradient, indices, rows, padding, by frequency)
void embedding_backward(NodeLowering& node) {
  const int64_t rows = node.integer(2), padding = node.integer(3);
  Array index = flat_indices(node, 1, rows);
  Array gradient = reshape(node.in(0), {index.count(), node.sizes()[1]});
  const Array zeros = filled(node.program(), 0, node.dtype(), node.sizes());
  if (node.flag(4)) {
    const Array one = filled(node.program(), 1, node.dtype(), {index.count()});
    const Array none = filled(node.program(), 0, node.dtype(), {rows});
    const Array count = take_rows(scatter_rows(Scatter::kAdd, none, index, one), index);
    gradient = gradient / along(count, gradient.sizes, 0);
  }
  if (padding >= 0) {  // a row out of range is left out
    index = select(compare("EQ", index, number_like(index, static_cast<double>(padding))),
                   number_like(index, static_cast<double>(rows)), index);
  }
  node.give(scatter_rows(Scatter::kAdd, zeros, index, gradient));
}

/// Where in the flat tensor `index` points to, along an axis: its other axes are its own positions.
Array positions_along(const Array& index, const Sizes& sizes, int64_t axis) {
  Program& program = *index.program;
  Array position = filled(program, 0, at::kLong, index.sizes);
  int64_t stride = 1;
  for (auto a = static_cast<int64_t>(sizes.size()) - 1; a >= 0; --a) {
    const Array at = a == axis ? wrap(index, sizes[static_cast<size_t>(a)])
                               : iota(program, at::kLong, index.sizes, a);
    position = position + at * static_cast<double>(stride);
    stride *= sizes[static_cast<size_t>(a)];
  }
  return reshape(position, {position.count()});
}

void gather(NodeLowering& node) {  // (x, axis, index)
  const Array x = node.in(0), index = node.in(2, at::kLong);
  if (x.rank() == 0) return node.give(reshape(x, node.sizes()));
  const Array flat = reshape(x, {x.count()});
  node.give(reshape(take_rows(flat, positions_along(index, x.sizes, node.axis(1))), node.sizes()));
}

void give_scattered(NodeLowering& node, Scatter scatter) {  // (x, axis, index, source or value)
  const Array x = node.in(0), index = node.in(2, at::kLong);
  Array source = node.operand(3, x.dtype);
  node.require(x.rank() > 0 && index.rank() == x.rank(), "no axis");
  if (!node.is_tensor(3)) source = broadcast_to(source, index.sizes);
  for (int64_t a = 0; a < index.rank(); ++a) source = slice(source, a, 0, index.size(a));
  const Array flat = reshape(x, {x.count()});
  const Array written = scatter_rows(scatter, flat, positions_along(index, x.sizes, node.axis(1)),
                                     reshape(source, {source.count()}));
  node.give(reshape(written, x.sizes));
}
void scatter_put(NodeLowering& node) { give_scattered(node, Scatter::kPut); }
void scatter_add(NodeLowering& node) { give_scattered(node, Scatter::kAdd); }

void give_rows_put(NodeLowering& node, Scatter scatter, double alpha) {
  const Array x = node.in(0);
  node.require(x.rank() > 0, "no axis");
  const int64_t axis = node.axis(1);
  Array source = node.operand(3, x.dtype);
  const Array index = flat_indices(node, 2, x.size(axis));
  Sizes sizes = x.sizes;
  sizes[static_cast<size_t>(axis)] = index.count();
  source = broadcast_to(source, sizes);
  if (alpha != 1) source = source * alpha;
  node.give(move_axis(
      scatter_rows(scatter, move_axis(x, axis, 0), index, move_axis(source, axis, 0)), 0, axis));
}
void index_add(NodeLowering& node) { give_rows_put(node, Scatter::kAdd, node.number(4)); }
void index_copy(NodeLowering& node) { give_rows_put(node, Scatter::kPut, 1); }
void index_fill(NodeLowering& node) { give_rows_put(node, Scatter::kPut, 1); }

/// x[i, j, :] and the like: axes with indices first, flat, and where the result's axes are.
struct Indexing {
  Sizes indexed;      // axes of x
  Sizes order;        // x's axes, these first
  Sizes index_sizes;  // all indices broadcast
  Array position;     // of each in the flat indexed axes
  int64_t at = 0;     // the result's axis where the indices' axes are
};

Indexing indexing_of(NodeLowering& node, const Array& x) {
  Indexing made;
  const std::vector<ValueId>& list = node.list(1);
  for (size_t a = 0; a < list.size(); ++a) {
    if (list[a] == kNoValue) continue;
    const Value& index = node.value_of(list[a]);
    node.require(index.dtype == at::kLong || index.dtype == at::kInt,
                 "a mask, so that sizes depend on elements");
    made.indexed.push_back(static_cast<int64_t>(a));
    made.index_sizes = broadcast_sizes(made.index_sizes, index.sizes);
  }
  made.order = made.indexed;
  for (int64_t a = 0; a < x.rank(); ++a) {
    if (std::ranges::find(made.indexed, a) == made.indexed.end()) made.order.push_back(a);
  }
  const bool adjacent =
      made.indexed.back() - made.indexed.front() + 1 == static_cast<int64_t>(made.indexed.size());
  made.at = adjacent ? made.indexed.front() : 0;
  made.position = filled(node.program(), 0, at::kLong, made.index_sizes);
  for (const int64_t axis : made.indexed) {
    const Array index = convert(node.read(list[static_cast<size_t>(axis)]), at::kLong);
    made.position = made.position * static_cast<double>(x.size(axis)) + wrap(index, x.size(axis));
  }
  made.position = reshape(made.position, {made.position.count()});
  return made;
}

/// `[indexed, rest...]`
Array indexed_rows(const Array& x, const Indexing& indexing) {
  const Array ordered = transpose(x, indexing.order);
  Sizes sizes = {1};
  for (size_t i = 0; i < indexing.order.size(); ++i) {
    const int64_t size = x.size(indexing.order[i]);
    if (i < indexing.indexed.size()) {
      sizes[0] *= size;
    } else {
      sizes.push_back(size);
    }
  }
  return reshape(ordered, sizes);
}

/// The order of axes that brings the indices' axes from the result's front to their place, or back.
Sizes axes_of_result(const Indexing& indexing, int64_t rank, bool back) {
  const auto count = static_cast<int64_t>(indexing.index_sizes.size());
  Sizes order;
  if (back) {
    for (int64_t a = 0; a < count; ++a) order.push_back(indexing.at + a);
    for (int64_t a = 0; a < rank; ++a) {
      if (a < indexing.at || a >= indexing.at + count) order.push_back(a);
    }
    return order;
  }
  for (int64_t a = 0; a < indexing.at; ++a) order.push_back(count + a);
  for (int64_t a = 0; a < count; ++a) order.push_back(a);
  for (int64_t a = count + indexing.at; a < rank; ++a) order.push_back(a);
  return order;
}

/// The result's sizes with the indices' axes in front.
Sizes front_sizes(const Indexing& indexing, const Array& rows) {
  Sizes sizes = indexing.index_sizes;
  sizes.insert(sizes.end(), rows.sizes.begin() + 1, rows.sizes.end());
  return sizes;
}

void index(NodeLowering& node) {
  const Array x = node.in(0);
  const Indexing indexing = indexing_of(node, x);
  const Array rows = indexed_rows(x, indexing);
  const Array taken = reshape(take_rows(rows, indexing.position), front_sizes(indexing, rows));
  node.give(transpose(taken, axes_of_result(indexing, taken.rank(), false)));
}

void index_put(NodeLowering& node) {  // (x, indices, values, accumulate)
  const Array x = node.in(0);
  const Indexing indexing = indexing_of(node, x);
  const Array rows = indexed_rows(x, indexing);
  const Sizes front = front_sizes(indexing, rows);
  const auto rank = static_cast<int64_t>(front.size());
  Sizes result;
  for (const int64_t axis : axes_of_result(indexing, rank, false)) {
    result.push_back(front[static_cast<size_t>(axis)]);
  }
  const Array values =
      transpose(broadcast_to(node.in(2, x.dtype), result), axes_of_result(indexing, rank, true));
  Sizes updates = rows.sizes;
  updates[0] = indexing.position.count();
  const Scatter scatter = node.flag(3) ? Scatter::kAdd : Scatter::kPut;
  const Array written = scatter_rows(scatter, rows, indexing.position, reshape(values, updates));
  Sizes ordered, inverse(indexing.order.size());
  for (size_t i = 0; i < indexing.order.size(); ++i) {
    ordered.push_back(x.size(indexing.order[i]));
    inverse[static_cast<size_t>(indexing.order[i])] = static_cast<int64_t>(i);
  }
  node.give(transpose(reshape(written, ordered), inverse));
}

}  // namespace

const Rules& index_rules() {
  static const Rules rules = {
      {"aten::_index_put_impl", {index_put}},
      {"aten::embedding", {embedding}},
      {"aten::embedding_dense_backward", {embedding_backward}},
      {"aten::gather", {gather}},
      {"aten::index", {index}},
      {"aten::index_add", {index_add}},
      {"aten::index_copy", {index_copy}},
      {"aten::index_fill", {index_fill}},
      {"aten::index_put", {index_put}},
      {"aten::index_select", {index_select}},
      {"aten::scatter", {scatter_put}},
      {"aten::scatter_add", {scatter_add}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
