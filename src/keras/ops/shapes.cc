#include <ATen/ops/cat.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/movedim.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <numeric>

#include "keras/ops/arguments.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

// --- x[index] ---

/// One part of an index: {"class_name": "__slice__", ...}, a number, null, or "...".
enum class Part { kNumber, kSlice, kEllipsis, kNewAxis };

Part part_of(const Json& json) {
  if (json.is_null()) return Part::kNewAxis;
  if (json.is_int()) return Part::kNumber;
  const ObjectJson object = parse_object(json, "an index");
  if (object.class_name == "__slice__") return Part::kSlice;
  STRATA_CHECK(object.class_name == "__ellipsis__", kUnimplemented, "[keras] GetItem: got ",
               json.dump(), " as an index; expected numbers, slices, ... and None");
  return Part::kEllipsis;
}

struct Range {
  int64_t start;
  int64_t stop;
  int64_t step;
};

/// Python's slice.indices.
Range range_of(const Json& json, int64_t length) {
  const Json& slice = json.at("config");
  const auto bound = [&](const char* name, int64_t otherwise) {
    const Json* value = slice.find(name);
    if (value == nullptr || value->is_null()) return otherwise;
    const int64_t at = value->as_int() < 0 ? value->as_int() + length : value->as_int();
    return std::clamp<int64_t>(at, 0, length);
  };
  const Json* step = slice.find("step");
  Range range{.start = bound("start", 0),
              .stop = bound("stop", length),
              .step = step == nullptr || step->is_null() ? 1 : step->as_int()};
  STRATA_CHECK(range.step > 0, kUnimplemented, "[keras] GetItem: got step ", range.step,
               "; expected a positive one");
  range.stop = std::max(range.start, range.stop);
  return range;
}

/// The parts with one slice of everything for each axis of "...".
std::vector<Json> parts_of(C call, size_t ndim) {
  const Json& key = call.argument(1, "key");
  std::vector<Json> parts = key.is_array() ? key.as_array() : std::vector<Json>{key};
  const auto consumes = [](const Json& part) {
    const Part kind = part_of(part);
    return kind == Part::kNumber || kind == Part::kSlice;
  };
  const auto needed = static_cast<size_t>(std::ranges::count_if(parts, consumes));
  STRATA_CHECK(needed <= ndim, kInvalidArgument, "[keras] GetItem: got ", needed,
               " indices for a tensor of ", ndim, " dimensions");
  auto ellipsis = std::ranges::find_if(
      parts, [](const Json& part) { return part_of(part) == Part::kEllipsis; });
  const auto at = static_cast<size_t>(ellipsis - parts.begin());
  if (ellipsis != parts.end()) parts.erase(ellipsis);
  Json everything = Json::object();
  everything.set("class_name", "__slice__").set("config", Json::object());
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(at), ndim - needed, everything);
  return parts;
}

at::Tensor get_item(C call) {
  at::Tensor x = call.tensor(0, "x");
  int64_t axis = 0;
  for (const Json& part : parts_of(call, static_cast<size_t>(x.dim()))) {
    switch (part_of(part)) {
      case Part::kNumber:
        x = x.select(axis, part.as_int());
        break;
      case Part::kNewAxis:
        x = x.unsqueeze(axis++);
        break;
      default: {
        const Range range = range_of(part, x.size(axis));
        x = x.slice(axis++, range.start, range.stop, range.step);
      }
    }
  }
  return x;
}

Shape get_item_shape(const std::vector<Shape>& inputs, C call) {
  const Shape& input = inputs.at(0);
  Shape shape;
  size_t axis = 0;
  for (const Json& part : parts_of(call, input.size())) {
    const Part kind = part_of(part);
    if (kind == Part::kNewAxis) {
      shape.push_back(1);
      continue;
    }
    const int64_t size = input[axis++];
    if (kind == Part::kNumber) {
      const int64_t at = part.as_int() < 0 ? part.as_int() + size : part.as_int();
      STRATA_CHECK(size == kNone || (at >= 0 && at < size), kOutOfRange,
                   "[keras] GetItem: got index ", part.as_int(), " for an axis of size ", size);
      continue;
    }
    if (size == kNone) {
      shape.push_back(kNone);
      continue;
    }
    const Range range = range_of(part, size);
    shape.push_back((range.stop - range.start + range.step - 1) / range.step);
  }
  return shape;
}

// --- others ---

std::vector<int64_t> reshape_sizes(C call) {
  std::vector<int64_t> sizes;
  const Json& given = call.option("newshape");
  if (given.is_int()) return {given.as_int()};
  for (const Json& size : given.as_array()) sizes.push_back(size.is_null() ? -1 : size.as_int());
  return sizes;
}

Shape reshape_shape(const std::vector<Shape>& inputs, C call) {
  Shape shape = reshape_sizes(call);
  const Shape& input = inputs.at(0);
  const auto open = std::ranges::find(shape, -1);
  if (open == shape.end() || std::ranges::count(input, kNone) > 0) return shape;  // -1 is kNone
  const int64_t all = std::accumulate(input.begin(), input.end(), int64_t{1}, std::multiplies<>());
  int64_t known = 1;
  for (const int64_t size : shape) known *= size == -1 ? 1 : size;
  STRATA_CHECK(known > 0 && all % known == 0, kInvalidArgument, "[keras] Reshape: got shape ",
               to_string(input), " for ", to_string(shape), "; sizes do not divide");
  *open = all / known;
  return shape;
}

std::vector<int64_t> transpose_axes(C call, size_t ndim) {
  std::vector<int64_t> axes = call.integers("axes");
  if (axes.empty()) {
    axes.resize(ndim);
    std::iota(axes.rbegin(), axes.rend(), 0);
  }
  return axes;
}

Shape transpose_shape(const std::vector<Shape>& inputs, C call) {
  Shape shape;
  const Shape& input = inputs.at(0);
  for (const int64_t axis : transpose_axes(call, input.size())) {
    shape.push_back(
        input.at(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(input.size()) : axis)));
  }
  return shape;
}

Shape expand_dims_shape(const std::vector<Shape>& inputs, C call) {
  Shape shape = inputs.at(0);
  for (int64_t axis : call.axes()) {
    if (axis < 0) axis += static_cast<int64_t>(shape.size()) + 1;
    STRATA_CHECK(axis >= 0 && axis <= static_cast<int64_t>(shape.size()), kInvalidArgument,
                 "[keras] ExpandDims: got axis ", axis, " for shape ", to_string(shape));
    shape.insert(shape.begin() + axis, 1);
  }
  return shape;
}

/// The axes to go, rising.
std::vector<int64_t> squeeze_axes(C call, at::IntArrayRef shape) {
  std::vector<int64_t> axes = call.axes();
  const auto ndim = static_cast<int64_t>(shape.size());
  if (call.option("axis").is_null()) {
    for (int64_t axis = 0; axis < ndim; ++axis) {
      if (shape[static_cast<size_t>(axis)] == 1) axes.push_back(axis);
    }
  }
  for (int64_t& axis : axes) {
    if (axis < 0) axis += ndim;
    STRATA_CHECK(axis >= 0 && axis < ndim && shape[static_cast<size_t>(axis)] == 1,
                 kInvalidArgument, "[keras] Squeeze: axis ", axis, " of shape ",
                 to_string(shape.vec()), " is not of size 1");
  }
  std::ranges::sort(axes);
  return axes;
}

at::Tensor squeeze(C call) {
  at::Tensor x = call.tensor(0, "x");
  const std::vector<int64_t> axes = squeeze_axes(call, x.sizes());
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) x = x.squeeze(*axis);
  return x;
}

Shape squeeze_shape(const std::vector<Shape>& inputs, C call) {
  Shape shape = inputs.at(0);
  const std::vector<int64_t> axes = squeeze_axes(call, shape);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) shape.erase(shape.begin() + *axis);
  return shape;
}

using enum OutputDtype;

const OperationRow kShapeRows[] = {
    {.name = "GetItem",
     .module = "numpy",
     .dtype = kPromoted,
     .compute = get_item,
     .shape = get_item_shape},
    {.name = "Concatenate",
     .module = "numpy",
     .dtype = kPromoted,
     .compute =
         [](C call) { return at::cat(promoted(call.tensors(0, "xs")), call.integer("axis", 0)); },
     .options = "axis"},
    {.name = "Stack",
     .module = "numpy",
     .dtype = kPromoted,
     .compute =
         [](C call) { return at::stack(promoted(call.tensors(0, "x")), call.integer("axis", 0)); },
     .options = "axis"},
    {.name = "Reshape",
     .module = "numpy",
     .dtype = kPromoted,
     .compute = [](C call) { return call.tensor(0, "x").reshape(reshape_sizes(call)); },
     .shape = reshape_shape,
     .options = "newshape"},
    {.name = "Transpose",
     .module = "numpy",
     .dtype = kPromoted,
     .compute =
         [](C call) {
           const at::Tensor x = call.tensor(0, "x");
           return x.permute(transpose_axes(call, static_cast<size_t>(x.dim())));
         },
     .shape = transpose_shape,
     .options = "axes"},
    {.name = "Swapaxes",
     .module = "numpy",
     .dtype = kPromoted,
     .compute =
         [](C call) {
           return call.tensor(0, "x").transpose(call.integer("axis1", 0), call.integer("axis2", 0));
         },
     .options = "axis1 axis2"},
    {.name = "Moveaxis",
     .module = "numpy",
     .dtype = kPromoted,
     .compute =
         [](C call) {
           return at::movedim(call.tensor(0, "x"), call.integers("source"),
                              call.integers("destination"));
         },
     .options = "source destination"},
    {.name = "ExpandDims",
     .module = "numpy",
     .dtype = kPromoted,
     .compute =
         [](C call) {
           at::Tensor x = call.tensor(0, "x");
           for (const int64_t axis : call.axes()) x = x.unsqueeze(axis);
           return x;
         },
     .shape = expand_dims_shape,
     .options = "axis"},
    {.name = "Squeeze",
     .module = "numpy",
     .dtype = kPromoted,
     .compute = squeeze,
     .shape = squeeze_shape,
     .options = "axis"},
    {.name = "Flip",
     .module = "numpy",
     .dtype = kPromoted,
     .compute =
         [](C call) {
           const at::Tensor x = call.tensor(0, "x");
           std::vector<int64_t> axes = call.axes();
           if (axes.empty()) {
             axes.resize(static_cast<size_t>(x.dim()));
             std::iota(axes.begin(), axes.end(), 0);
           }
           return at::flip(x, axes);
         },
     .options = "axis"},
    {.name = "Repeat",
     .module = "numpy",
     .dtype = kPromoted,
     .compute =
         [](C call) {
           const at::Tensor x = call.tensor(0, "x");
           const bool flat = call.option("axis").is_null();
           const at::Tensor from = flat ? x.flatten() : x;
           const int64_t axis = flat ? 0 : call.integer("axis", 0);
           const std::vector<int64_t> repeats = call.integers("repeats");
           if (repeats.size() == 1) return at::repeat_interleave(from, repeats[0], axis);
           return at::repeat_interleave(
               from, at::tensor(repeats, at::TensorOptions().dtype(at::kLong).device(x.device())),
               axis);
         },
     .options = "repeats axis"},
    {.name = "Ravel",
     .module = "numpy",
     .dtype = kPromoted,
     .compute = [](C call) { return call.tensor(0, "x").flatten(); }},
    {.name = "ZerosLike",
     .module = "numpy",
     .dtype = OutputDtype::kOption,
     .compute =
         [](C call) {
           const at::Tensor x = call.tensor(0, "x");
           return at::zeros_like(x, x.options().dtype(dtype_option(call, x.scalar_type())));
         },
     .elementwise = true,
     .options = "dtype"},
    {.name = "OnesLike",
     .module = "numpy",
     .dtype = OutputDtype::kOption,
     .compute =
         [](C call) {
           const at::Tensor x = call.tensor(0, "x");
           return at::ones_like(x, x.options().dtype(dtype_option(call, x.scalar_type())));
         },
     .elementwise = true,
     .options = "dtype"},
};

}  // namespace

std::span<const OperationRow> shape_operations() { return kShapeRows; }

}  // namespace strata::keras::detail
