#include <ATen/TensorOperators.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/unique_dim.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "keras/ops/arguments.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

/// Negative ones count from the end.
at::Tensor places_of(const at::Tensor& index, int64_t size) {
  const at::Tensor wide = index.to(at::kLong);
  return at::where(wide < 0, wide + size, wide);
}

/// An argument that is an array of whole numbers, as a tensor of x's device.
at::Tensor index_argument(C call, size_t i, const char* name, const at::Tensor& x) {
  const Json& json = call.argument(i, name);
  const bool plain = json.is_array() && (json.as_array().empty() || json.as_array()[0].is_int());
  if (!plain) return call.tensor(i, name);
  return at::tensor(integers_in(json), at::kLong).to(x.device());
}

at::Tensor take(C call) {
  at::Tensor x = call.tensor(0, "x");
  const at::Tensor index = index_argument(call, 1, "indices", x);
  const bool flat = call.option("axis").is_null();
  if (flat) x = x.flatten();
  const int64_t axis = flat ? 0 : positive_axis(call.integer("axis", 0), x.dim());
  std::vector<int64_t> shape = x.sizes().vec();
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, index.sizes().begin(), index.sizes().end());
  return x.index_select(axis, places_of(index, x.size(axis)).flatten()).reshape(shape);
}

at::Tensor take_along_axis(C call) {
  at::Tensor x = call.tensor(0, "x"), index = call.tensor(1, "indices");
  if (call.option("axis").is_null()) {
    return x.flatten().take_along_dim(places_of(index.flatten(), x.numel()), 0);
  }
  const int64_t axis = call.integer("axis", 0);
  return x.take_along_dim(places_of(index, x.size(axis)), axis);
}

at::Tensor where(C call) {
  const at::Tensor condition = call.tensor(0, "condition").to(at::kBool);
  return at::where(condition, call.tensor(1, "x1"), call.tensor(2, "x2"));
}

at::Tensor select(C call) {
  const Tensors conditions = call.tensors(0, "condlist"), choices = call.tensors(1, "choicelist");
  const Json& otherwise = call.argument(2, "default");
  at::Tensor y = otherwise.is_null() ? at::zeros({}, choices.at(0).options())
                                     : call.tensor(2, "default").to(choices.at(0).scalar_type());
  for (size_t i = choices.size(); i-- > 0;) {
    y = at::where(conditions.at(i).to(at::kBool), choices[i], y);
  }
  return y;
}

/// A tensor of index tuples as one index for each of the first dimensions.
c10::List<std::optional<at::Tensor>> columns(const at::Tensor& indices, at::IntArrayRef shape) {
  c10::List<std::optional<at::Tensor>> list;
  for (int64_t d = 0; d < indices.size(-1); ++d) {
    list.push_back(places_of(indices.select(-1, d), shape[static_cast<size_t>(d)]));
  }
  return list;
}

at::Tensor scatter(C call) {
  const at::Tensor indices = call.tensor(0, "indices"), values = call.tensor(1, "values");
  const std::vector<int64_t> shape = integers_in(call.option("shape"));
  return at::index_put(at::zeros(shape, values.options()), columns(indices, shape), values, true);
}

at::Tensor scatter_update(C call) {
  const at::Tensor x = call.tensor(0, "inputs"), indices = call.tensor(1, "indices");
  const at::Tensor updates = call.tensor(2, "updates").to(x.scalar_type());
  const std::string reduction = call.text("reduction", "set");
  if (reduction == "set" || reduction == "add") {
    return at::index_put(x, columns(indices, x.sizes()), updates, reduction == "add");
  }
  // The first dimensions as one.
  const int64_t depth = indices.size(-1);
  int64_t rows = 1, row = 1;
  at::Tensor place = at::zeros({1}, x.options().dtype(at::kLong));
  for (int64_t d = 0; d < x.dim(); ++d) (d < depth ? rows : row) *= x.size(d);
  for (int64_t d = 0; d < depth; ++d) {
    place = place * x.size(d) + places_of(indices.select(-1, d), x.size(d)).flatten();
  }
  const at::Tensor source = updates.reshape({-1, row});
  const std::string how = reduction == "max" ? "amax" : reduction == "min" ? "amin" : "prod";
  return x.reshape({rows, row})
      .scatter_reduce(0, place.unsqueeze(1).expand_as(source), source, how)
      .reshape(x.sizes());
}

/// Where a part of `x` begins, so that it lies inside: one place for each dimension, as tensors, so
/// that a step can be recorded.
Tensors part_places(C call, const at::Tensor& x, at::IntArrayRef shape) {
  const at::Tensor start = index_argument(call, 1, "start_indices", x).to(at::kLong);
  Tensors places;
  for (int64_t d = 0; d < x.dim(); ++d) {
    const int64_t size = shape[static_cast<size_t>(d)];
    const at::Tensor from = places_of(start.select(0, d), x.size(d)).clamp(0, x.size(d) - size);
    places.push_back(at::arange(size, from.options()) + from);
  }
  return places;
}

at::Tensor slice(C call) {
  at::Tensor x = call.tensor(0, "inputs");
  std::vector<int64_t> shape = integers_in(call.option("shape"));
  const Json& starts = call.argument(1, "start_indices");
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (shape[d] == -1) {  // the rest
      shape[d] = x.size(dim) - (starts.is_array() ? starts.as_array().at(d).as_int() : 0);
    }
  }
  const Tensors places = part_places(call, x, shape);
  for (int64_t d = 0; d < x.dim(); ++d) x = x.index_select(d, places[static_cast<size_t>(d)]);
  return x;
}

at::Tensor slice_update(C call) {
  const at::Tensor x = call.tensor(0, "inputs");
  const at::Tensor updates = call.tensor(2, "updates").to(x.scalar_type());
  c10::List<std::optional<at::Tensor>> list;
  const Tensors places = part_places(call, x, updates.sizes());
  for (size_t d = 0; d < places.size(); ++d) {
    std::vector<int64_t> shape(places.size(), 1);
    shape[d] = -1;
    list.push_back(places[d].reshape(shape));
  }
  return at::index_put(x, list, updates, false);
}

/// Rows with the same segment number as one.
at::Tensor segments(C call, const char* how) {
  const at::Tensor data = call.tensor(0, "data");
  const at::Tensor ids = call.tensor(1, "segment_ids").to(at::kLong);
  const Json& given = call.option("num_segments");
  const int64_t count =
      given.is_null() ? (ids.numel() == 0 ? 0 : ids.max().item<int64_t>() + 1) : given.as_int();
  std::vector<int64_t> shape = data.sizes().vec();
  shape.at(0) = count;
  const std::string_view name(how);
  const bool floating = data.is_floating_point();
  const double infinity = std::numeric_limits<double>::infinity();
  at::Scalar empty = name == "prod" ? 1 : 0;
  if (name == "amax" || name == "amin") {
    const double sign = name == "amax" ? -1 : 1;
    empty = floating ? at::Scalar(sign * infinity)
                     : at::Scalar(data.scalar_type() == at::kLong
                                      ? (sign < 0 ? std::numeric_limits<int64_t>::min()
                                                  : std::numeric_limits<int64_t>::max())
                                      : (sign < 0 ? std::numeric_limits<int32_t>::min()
                                                  : std::numeric_limits<int32_t>::max()));
  }
  std::vector<int64_t> ones(static_cast<size_t>(data.dim()), 1);
  ones[0] = ids.size(0);
  return at::full(shape, empty, data.options())
      .scatter_reduce(0, ids.reshape(ones).expand_as(data), data, name);
}

Tensors nonzero(C call) {
  Tensors places;
  for (const at::Tensor& each : call.tensor(0, "x").nonzero().unbind(1)) {
    places.push_back(each.to(at::kInt));
  }
  return places;
}

Tensors unravel_index(C call) {
  const std::vector<int64_t> shape = integers_in(call.option("shape"));
  const at::Tensor given = call.tensor(0, "indices");
  int64_t all = 1;
  for (const int64_t size : shape) all *= size;
  at::Tensor index = places_of(given, all);
  Tensors places(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    places[d] = index.remainder(shape[d]).to(given.scalar_type());
    index = index.floor_divide(shape[d]);
  }
  return places;
}

Tensors unique(C call) {
  at::Tensor x = call.tensor(0, "x");
  const bool flat = call.option("axis").is_null();
  if (flat) x = x.flatten();
  const int64_t axis = flat ? 0 : positive_axis(call.integer("axis", 0), x.dim());
  auto [values, inverse, counts] =
      x.dim() == 1 ? at::_unique2(x, true, true, true) : at::unique_dim(x, axis, true, true, true);
  const int64_t found = values.size(axis);
  // The first place of each value: of all places, the smallest.
  at::Tensor first = at::full({found}, x.size(axis), inverse.options())
                         .scatter_reduce(0, inverse.flatten(),
                                         at::arange(x.size(axis), inverse.options()), "amin");
  if (!call.option("size").is_null()) {
    const int64_t size = call.integer("size", 0);
    if (size < found) {
      values = values.narrow(axis, 0, size);
      first = first.narrow(0, 0, size);
      counts = counts.narrow(0, 0, size);
    } else if (size > found) {
      std::vector<int64_t> shape = values.sizes().vec();
      shape[static_cast<size_t>(axis)] = size;
      at::Tensor filled;
      if (call.option("fill_value").is_null()) {
        filled = values.narrow(axis, 0, 1).expand(shape).clone();
      } else {
        filled = at::full(shape, call.number("fill_value", 0), values.options());
      }
      filled.narrow(axis, 0, found).copy_(values);
      values = filled;
      const auto longer = [&](const at::Tensor& t, const at::Tensor& with) {
        const at::Tensor y = at::zeros({size}, t.options()) + with;
        y.narrow(0, 0, found).copy_(t);
        return y;
      };
      first = longer(first, first.narrow(0, 0, 1));
      counts = longer(counts, at::zeros({1}, counts.options()));
    }
  }
  Tensors all = {values};
  if (call.flag("return_index")) all.push_back(first.to(at::kInt));
  if (call.flag("return_inverse")) all.push_back(inverse.to(at::kInt));
  if (call.flag("return_counts")) all.push_back(counts.to(at::kInt));
  return all;
}

/// Zeros with a 1 (or a weight) in the place that a number names; none of them outside.
at::Tensor one_hot_of(const at::Tensor& index, int64_t classes, at::ScalarType dtype) {
  return (index.unsqueeze(-1) == at::arange(classes, index.options())).to(dtype);
}

at::Tensor one_hot(C call) {
  const at::Tensor y = one_hot_of(call.tensor(0, "x").to(at::kLong), call.integer("num_classes", 0),
                                  dtype_option(call, at::kFloat));
  const int64_t axis = call.integer("axis", -1);
  return axis == -1 ? y : y.movedim(-1, axis);
}

at::Tensor multi_hot(C call) {
  const at::Tensor x = call.tensor(0, "inputs").to(at::kLong);
  at::Tensor y = one_hot_of(x, call.integer("num_classes", 0), dtype_option(call, at::kFloat));
  const int64_t axis = call.integer("axis", -1);
  if (axis != -1) y = y.movedim(-1, axis);
  return y.amax(x.dim() > 1 ? 1 : 0);
}

at::Tensor bincount(C call) {
  const at::Tensor x = call.tensor(0, "x").to(at::kLong);
  const int64_t least = call.integer("minlength", 0);
  const int64_t length = std::max<int64_t>(least, x.numel() == 0 ? 0 : x.max().item<int64_t>() + 1);
  at::Tensor weights;
  if (const Json& json = call.option("weights"); !json.is_null()) {
    std::vector<double> values;
    from_config(json, values);
    weights = at::tensor(values, at::kFloat).to(x.device());
  }
  const at::Tensor hot =
      one_hot_of(x, length, weights.defined() ? weights.scalar_type() : at::kInt);
  const at::Tensor y = weights.defined() ? hot * weights.unsqueeze(-1) : hot;
  return y.sum(-2, false, y.scalar_type());
}

const OperationRow kIndexRows[] = {
    one("numpy", "Take", take, "axis"),
    one("numpy", "TakeAlongAxis", take_along_axis, "axis"),
    one("numpy", "Where", where),
    one("numpy", "Select", select),
    one("core", "Scatter", scatter, "shape"),
    one("core", "ScatterUpdate", scatter_update, "reduction"),
    one("core", "Slice", slice, "shape"),
    one("core", "SliceUpdate", slice_update),
    one(
        "math", "SegmentSum", [](C call) { return segments(call, "sum"); }, "num_segments sorted"),
    one(
        "math", "SegmentProd", [](C call) { return segments(call, "prod"); },
        "num_segments sorted"),
    one(
        "math", "SegmentMax", [](C call) { return segments(call, "amax"); }, "num_segments sorted"),
    one(
        "math", "SegmentMin", [](C call) { return segments(call, "amin"); }, "num_segments sorted"),
    {.name = "Nonzero",
     .module = "numpy",
     .dtype = OutputDtype::kTried,
     .compute = nullptr,
     .compute_all = nonzero,
     .free_sizes = true},
    several("numpy", "UnravelIndex", unravel_index, "shape"),
    {.name = "Unique",
     .module = "numpy",
     .dtype = OutputDtype::kTried,
     .compute = nullptr,
     .options = "sorted return_index return_inverse return_counts axis size fill_value",
     .compute_all = unique,
     .free_sizes = true},
    one("nn", "OneHot", one_hot, "num_classes axis dtype sparse"),
    one("nn", "MultiHot", multi_hot, "num_classes axis dtype sparse"),
    {.name = "Bincount",
     .module = "numpy",
     .dtype = OutputDtype::kTried,
     .compute = bincount,
     .options = "weights minlength sparse",
     .free_sizes = true},
};

}  // namespace

std::span<const OperationRow> index_operations() { return kIndexRows; }

}  // namespace strata::keras::detail
