#include "graph/stablehlo/strided.h"

#include <algorithm>
#include <numeric>

#include "graph/stablehlo/operations.h"
#include "strata/core/error.h"

namespace strata::graph::stablehlo {
namespace {

/// Axes with more than one element, the slowest first.
std::vector<size_t> axes_by_stride(const Geometry& geometry) {
  std::vector<size_t> axes;
  for (size_t a = 0; a < geometry.sizes.size(); ++a) {
    if (geometry.sizes[a] != 1) axes.push_back(a);
  }
  std::ranges::stable_sort(
      axes, [&](size_t a, size_t b) { return geometry.strides[a] > geometry.strides[b]; });
  return axes;
}

int64_t count_of(const Geometry& geometry) {
  return std::accumulate(geometry.sizes.begin(), geometry.sizes.end(), int64_t{1},
                         std::multiplies<>());
}

/// All axes in the order of memory.
Sizes memory_order(const Geometry& geometry) {
  Sizes order;
  for (size_t a = 0; a < geometry.sizes.size(); ++a) {
    if (geometry.sizes[a] == 1) order.push_back(static_cast<int64_t>(a));
  }
  for (const size_t a : axes_by_stride(geometry)) order.push_back(static_cast<int64_t>(a));
  return order;
}

Array to_flat(const Array& x, const Geometry& geometry) {
  STRATA_DCHECK(is_dense(geometry));
  return reshape(transpose(x, memory_order(geometry)), {x.count()});
}

Array from_flat(const Array& flat, const Geometry& geometry) {
  const Sizes order = memory_order(geometry);
  Sizes sizes, inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sizes.push_back(geometry.sizes[static_cast<size_t>(order[i])]);
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return transpose(reshape(flat, sizes), inverse);
}

/// Where in the flat memory each element of the part is.
Array positions(Program& program, const Geometry& whole, const Geometry& part) {
  Array index =
      filled(program, static_cast<double>(part.offset - whole.offset), at::kLong, part.sizes);
  for (size_t a = 0; a < part.sizes.size(); ++a) {
    if (part.sizes[a] == 1 || part.strides[a] == 0) continue;
    index = index + iota(program, at::kLong, part.sizes, static_cast<int64_t>(a)) *
                        static_cast<double>(part.strides[a]);
  }
  return reshape(index, {count_of(part)});
}

}  // namespace

bool is_dense(const Geometry& geometry) {
  const std::vector<size_t> axes = axes_by_stride(geometry);
  int64_t expected = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (geometry.sizes[*axis] == 0) return true;
    if (geometry.strides[*axis] != expected) return false;
    expected *= geometry.sizes[*axis];
  }
  return true;
}

Geometry span_of(const std::vector<Geometry>& parts) {
  int64_t begin = parts[0].offset, end = parts[0].offset;
  for (const Geometry& part : parts) {
    if (count_of(part) == 0) continue;
    int64_t last = part.offset;
    for (size_t a = 0; a < part.sizes.size(); ++a) last += (part.sizes[a] - 1) * part.strides[a];
    begin = std::min(begin, part.offset);
    end = std::max(end, last + 1);
  }
  return {.sizes = {end - begin}, .strides = {1}, .offset = begin};
}

Array read_strided(const Array& base, const Geometry& whole, const Geometry& part) {
  if (whole == part) return base;
  const Array flat = to_flat(base, whole);
  const int64_t begin = part.offset - whole.offset;
  if (is_dense(part)) {
    return from_flat(slice(flat, 0, begin, begin + count_of(part)), part);
  }
  return reshape(take_rows(flat, positions(*base.program, whole, part)), part.sizes);
}

Array write_strided(const Array& base, const Geometry& whole, const Geometry& part,
                    const Array& value) {
  if (whole == part) return value;
  const Array flat = to_flat(base, whole);
  const int64_t begin = part.offset - whole.offset;
  if (is_dense(part)) {
    const int64_t end = begin + count_of(part);
    std::vector<Array> parts;
    if (begin > 0) parts.push_back(slice(flat, 0, 0, begin));
    parts.push_back(to_flat(value, part));
    if (end < flat.size(0)) parts.push_back(slice(flat, 0, end, flat.size(0)));
    return from_flat(concatenate(parts, 0), whole);
  }
  const Array written = scatter_rows(Scatter::kPut, flat, positions(*base.program, whole, part),
                                     reshape(value, {count_of(part)}));
  return from_flat(written, whole);
}

Array add_strided(const Sizes& sizes, const Geometry& part, const Array& value) {
  const Array zeros = reshape(filled(*value.program, 0, value.dtype, sizes),
                              {count_of({.sizes = sizes, .strides = {}})});
  const Array total = scatter_rows(Scatter::kAdd, zeros, positions(*value.program, {}, part),
                                   reshape(value, {count_of(part)}));
  return reshape(total, sizes);
}

}  // namespace strata::graph::stablehlo
