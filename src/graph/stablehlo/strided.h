#pragma once

#include <vector>

#include "graph/stablehlo/program.h"
#include "strata/graph/graph.h"

namespace strata::graph::stablehlo {

/// Where the elements of a tensor are in its memory, in elements.
struct Geometry {
  Sizes sizes;
  Sizes strides;
  int64_t offset = 0;

  friend bool operator==(const Geometry&, const Geometry&) = default;
};

inline Geometry geometry_of(const Value& value) {
  return {.sizes = value.sizes, .strides = value.strides, .offset = value.offset};
}

/// Each element from the first to the last is one of the tensor's, in some order of its axes.
bool is_dense(const Geometry& geometry);

/// All elements from the first to the last that one of `parts` has.
Geometry span_of(const std::vector<Geometry>& parts);

/// A part of a memory by its strides alone, whichever operators have made it. The general way, by a gather
/// of single elements, unless the part is contiguous.
/// @param base  The memory, all of it, as it is in `whole`, which is dense.
Array read_strided(const Array& base, const Geometry& whole, const Geometry& part);

/// The memory after a write of `value` to the part.
Array write_strided(const Array& base, const Geometry& whole, const Geometry& part,
                    const Array& value);

/// Zeros of `sizes`, contiguous, with `value` added where the part is: the gradient of reading it. Parts may
/// overlap.
Array add_strided(const Sizes& sizes, const Geometry& part, const Array& value);

}  // namespace strata::graph::stablehlo
