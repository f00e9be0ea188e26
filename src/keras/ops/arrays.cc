#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/broadcast_to.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/dstack.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/hstack.h>
#include <ATen/ops/meshgrid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/vstack.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "keras/ops/arguments.h"
#include "keras/ops/rearrange.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

at::Tensor input_of(C call) { return call.tensor(0, "x"); }

/// Equal parts, or the parts between indices.
Tensors parts_along(C call, int64_t axis, bool uneven) {
  const at::Tensor x = input_of(call);
  const Json& parts = call.option("indices_or_sections");
  if (!parts.is_int()) return x.tensor_split(integers_in(parts), axis);
  const int64_t count = parts.as_int(), size = x.size(axis);
  STRATA_CHECK(count > 0 && (uneven || size % count == 0), kInvalidArgument,
               "[keras] Split: got an axis of size ", size, " for ", count,
               " sections; expected a multiple");
  return x.tensor_split(count, axis);
}

/// The elements that NumPy's padding takes, along one dimension: places from -before to
/// size + after - 1, each moved to where its value is.
std::vector<int64_t> padded_places(int64_t size, int64_t before, int64_t after,
                                   const std::string& mode) {
  std::vector<int64_t> places;
  for (int64_t i = -before; i < size + after; ++i) {
    int64_t at = i;
    if (mode == "edge") {
      at = std::clamp<int64_t>(i, 0, size - 1);
    } else if (mode == "wrap") {
      at = ((i % size) + size) % size;
    } else {
      // "reflect" has a period without the edges twice, "symmetric" with them.
      const int64_t period = mode == "reflect" ? 2 * size - 2 : 2 * size;
      at = period == 0 ? 0 : ((i % period) + period) % period;
      if (at >= size) at = mode == "reflect" ? period - at : period - 1 - at;
    }
    places.push_back(at);
  }
  return places;
}

at::Tensor pad(C call) {
  at::Tensor x = input_of(call);
  const Json& width = call.option("pad_width");
  std::vector<std::pair<int64_t, int64_t>> widths(static_cast<size_t>(x.dim()));
  const auto pair_of = [](const Json& json) -> std::pair<int64_t, int64_t> {
    const std::vector<int64_t> two = integers_in(json);
    return {two.at(0), two.size() > 1 ? two[1] : two[0]};
  };
  const bool nested =
      width.is_array() && !width.as_array().empty() && width.as_array()[0].is_array();
  for (size_t d = 0; d < widths.size(); ++d) {
    const bool one_for_all = !nested || width.as_array().size() == 1;
    widths[d] = pair_of(nested ? width.as_array().at(one_for_all ? 0 : d) : width);
  }
  const std::string mode = call.text("mode", "constant");
  if (mode == "constant") {
    std::vector<int64_t> edges;
    for (auto each = widths.rbegin(); each != widths.rend(); ++each) {
      edges.push_back(each->first);
      edges.push_back(each->second);
    }
    const Json& value = call.argument(1, "constant_values");
    return at::constant_pad_nd(x, edges, value.is_null() ? 0.0 : value.as_double());
  }
  STRATA_CHECK(mode == "reflect" || mode == "symmetric" || mode == "edge" || mode == "wrap",
               kInvalidArgument, "[keras] Pad: got mode '", mode,
               "'; expected 'constant', 'reflect', 'symmetric', 'edge' or 'wrap'");
  for (size_t d = 0; d < widths.size(); ++d) {
    const auto [before, after] = widths[d];
    if (before == 0 && after == 0) continue;
    const auto axis = static_cast<int64_t>(d);
    x = x.index_select(
        axis,
        at::tensor(padded_places(x.size(axis), before, after, mode), at::kLong).to(x.device()));
  }
  return x;
}

Tensors meshgrid(C call) {
  Tensors flat;
  for (const at::Tensor& each : call.all_tensors()) flat.push_back(each.flatten());
  return at::meshgrid(promoted(std::move(flat)), call.text("indexing", "xy"));
}

/// Of a shape in which one size may be -1 or None: the input's.
at::Tensor broadcast_to(C call) {
  const at::Tensor x = input_of(call);
  std::vector<int64_t> shape;
  for (const Json& size : call.option("shape").as_array()) {
    shape.push_back(size.is_null() ? -1 : size.as_int());
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t from = x.dim() - static_cast<int64_t>(shape.size() - i);
    if (shape[i] < 0 && from >= 0) shape[i] = x.size(from);
  }
  return at::broadcast_to(x, shape);
}

at::Tensor roll(C call) {
  const at::Tensor x = input_of(call);
  if (call.option("axis").is_null()) return x.roll(call.integers("shift"), {});
  std::vector<int64_t> shift = call.integers("shift"), axes = call.axes();
  shift.resize(axes.size(), shift.at(0));
  return x.roll(shift, axes);
}

at::Tensor diagflat(C call) { return input_of(call).flatten().diag(call.integer("k", 0)); }

at::Tensor full_like(C call) {
  const at::Tensor x = input_of(call);
  const at::Tensor y = at::empty_like(x, x.options().dtype(dtype_option(call, x.scalar_type())));
  return at::full_like(y, 1) * call.tensor(1, "fill_value").to(y.scalar_type());
}

const OperationRow kArrayRows[] = {
    one(
        "numpy", "Append",
        [](C call) {
          Tensors both = promoted({call.tensor(0, "x1"), call.tensor(1, "x2")});
          if (!call.option("axis").is_null()) return at::cat(both, call.integer("axis", 0));
          for (at::Tensor& each : both) each = each.flatten();
          return at::cat(both, 0);
        },
        "axis"),
    several(
        "numpy", "ArraySplit",
        [](C call) { return parts_along(call, call.integer("axis", 0), true); },
        "indices_or_sections axis"),
    several(
        "numpy", "Split", [](C call) { return parts_along(call, call.integer("axis", 0), false); },
        "indices_or_sections axis"),
    several(
        "numpy", "Vsplit", [](C call) { return parts_along(call, 0, false); },
        "indices_or_sections"),
    several(
        "numpy", "Hsplit",
        [](C call) { return parts_along(call, input_of(call).dim() > 1 ? 1 : 0, false); },
        "indices_or_sections"),
    several(
        "numpy", "Dsplit", [](C call) { return parts_along(call, 2, false); },
        "indices_or_sections"),
    several(
        "core", "Unstack", [](C call) { return input_of(call).unbind(call.integer("axis", 0)); },
        "num axis"),
    one("numpy", "BroadcastTo", broadcast_to, "shape"),
    one(
        "numpy", "Diag", [](C call) { return input_of(call).diag(call.integer("k", 0)); }, "k"),
    one("numpy", "Diagflat", diagflat, "k"),
    one(
        "numpy", "Diagonal",
        [](C call) {
          return input_of(call).diagonal(call.integer("offset", 0), call.integer("axis1", 0),
                                         call.integer("axis2", 1));
        },
        "offset axis1 axis2"),
    one(
        "numpy", "Trace",
        [](C call) {
          const at::Tensor x = input_of(call);
          const at::ScalarType dtype = x.scalar_type() == at::kBool ? at::kInt : x.scalar_type();
          return x
              .diagonal(call.integer("offset", 0), call.integer("axis1", 0),
                        call.integer("axis2", 1))
              .sum(-1, false, dtype);
        },
        "offset axis1 axis2"),
    one("numpy", "Dstack", [](C call) { return at::dstack(promoted(call.tensors(0, "xs"))); }),
    one("numpy", "Hstack", [](C call) { return at::hstack(promoted(call.tensors(0, "xs"))); }),
    one("numpy", "Vstack", [](C call) { return at::vstack(promoted(call.tensors(0, "xs"))); }),
    one("numpy", "Fliplr", [](C call) { return input_of(call).flip({1}); }),
    one("numpy", "Flipud", [](C call) { return input_of(call).flip({0}); }),
    several("numpy", "Meshgrid", meshgrid, "indexing"),
    one("numpy", "Pad", pad, "pad_width mode"),
    one("numpy", "Roll", roll, "shift axis"),
    one(
        "numpy", "Rot90",
        [](C call) {
          const std::vector<int64_t> axes =
              call.option("axes").is_null() ? std::vector<int64_t>{0, 1} : call.integers("axes");
          return call.tensor(0, "array").rot90(call.integer("k", 1), axes);
        },
        "k axes"),
    one(
        "numpy", "Tile", [](C call) { return input_of(call).tile(call.integers("repeats")); },
        "repeats"),
    one(
        "numpy", "Tril", [](C call) { return input_of(call).tril(call.integer("k", 0)); }, "k"),
    one(
        "numpy", "Triu", [](C call) { return input_of(call).triu(call.integer("k", 0)); }, "k"),
    one(
        "numpy", "EmptyLike",
        [](C call) {
          const at::Tensor x = input_of(call);
          return at::full_like(x, 0, x.options().dtype(dtype_option(call, x.scalar_type())));
        },
        "dtype"),
    one("numpy", "FullLike", full_like, "dtype"),
    one("einops", "Rearrange",
        [](C call) {
          std::map<std::string, int64_t> lengths;
          for (const auto& [name, length] : call.named_arguments()) {
            if (length.is_int()) lengths[name] = length.as_int();
          }
          return rearrange(call.tensor(0, "tensor"), call.argument(1, "pattern").as_string(),
                           lengths);
        }),
};

}  // namespace

std::span<const OperationRow> array_operations() { return kArrayRows; }

}  // namespace strata::keras::detail
