// Operators that move elements, and those that make tensors from numbers.
#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/onnx/rules.h"

namespace strata::graph::onnx {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

Dim plus(const Dim& a, const Dim& b) {
  return {.fixed = a.fixed + b.fixed, .per_example = a.per_example + b.per_example};
}

void to_sizes_of_result(NodeExport& node) {
  node.give(node.reshape(node.tensor(0), node.result_sizes()));
}

/// What libtorch derives without an operator: rows one behind the other of a tensor that lies so, too.
void as_strided(NodeExport& node) {
  const auto is_plain = [](const Value& value) {
    int64_t stride = 1;
    for (size_t d = value.sizes.size(); d-- > 0;) {
      if (value.sizes[d] != 1 && value.strides[d] != stride) return false;
      stride *= value.sizes[d];
    }
    return true;
  };
  const auto count = [](const Value& value) {
    return std::accumulate(value.sizes.begin(), value.sizes.end(), int64_t{1}, std::multiplies<>());
  };
  const Value &from = node.value(0), &to = node.result();
  node.require(
      is_plain(from) && is_plain(to) && count(from) == count(to) && from.offset == to.offset,
      "strides of its own");
  to_sizes_of_result(node);
}

void permute(NodeExport& node) { node.give(node.transpose(node.tensor(0), node.axes(1))); }

/// `t` has no axes.
void transpose(NodeExport& node) {
  const int64_t rank = node.rank(0);
  if (rank < 2) return node.give(node.tensor(0));
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  const bool all = node.node().arguments.size() == 1;
  std::swap(order[static_cast<size_t>(all ? 0 : node.axis(1))],
            order[static_cast<size_t>(all ? 1 : node.axis(2))]);
  node.give(node.transpose(node.tensor(0), order));
}

void select(NodeExport& node) {
  node.give(node.add("Gather", {node.tensor(0), node.model().scalar(node.dim(2))},
                     {attribute("axis", node.axis(1))}));
}

std::string slice_of(NodeExport& node, int64_t axis, const Dim& from, const Dim& to, int64_t step) {
  return node.add("Slice", {node.tensor(0), node.model().vector(Dims{from}),
                            node.model().vector(Dims{to}), node.ints({axis}), node.ints({step})});
}

void slice(NodeExport& node) {
  const Dim from = node.is_none(2) ? Dim{} : node.dim(2);
  const Dim to = node.is_none(3) ? Dim{.fixed = kEnd} : node.dim(3);
  node.give(slice_of(node, node.axis(1), from, to, node.integer(4)));
}

/// Parts along an axis, whose sizes are those of the results.
void split(NodeExport& node) {
  const auto axis = static_cast<size_t>(node.axis(2));
  const std::vector<ValueId>& parts = node.result_list();
  Names names(parts.size());
  Dim from;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == kNoValue) continue;
    const Dim to = plus(from, node.sizes_of(parts[i])[axis]);
    names[i] = parts.size() == 1 ? node.tensor(0)
                                 : slice_of(node, static_cast<int64_t>(axis), from, to, 1);
    from = to;
  }
  node.give_list(names);
}

void unbind(NodeExport& node) {
  Names names;
  for (size_t i = 0; i < node.result_list().size(); ++i) {
    names.push_back(node.add("Gather",
                             {node.tensor(0), node.model().scalar(static_cast<int64_t>(i))},
                             {attribute("axis", node.axis(1))}));
  }
  node.give_list(names);
}

/// The axis of the result.
int64_t joined_axis(NodeExport& node) {
  const int64_t axis = node.integer(1);
  return axis < 0 ? axis + static_cast<int64_t>(node.result().sizes.size()) : axis;
}

void cat(NodeExport& node) {
  Names parts;
  for (const ValueId id : node.list(0)) {
    const Value& part = node.value_of(id);
    if (part.sizes == std::vector<int64_t>{0}) continue;  // of any rank, in libtorch
    parts.push_back(node.cast(id, node.dtype()));
  }
  node.give(parts.size() == 1 ? parts[0]
                              : node.add("Concat", parts, {attribute("axis", joined_axis(node))}));
}

void stack(NodeExport& node) {
  const int64_t axis = joined_axis(node);
  Names parts;
  for (const ValueId id : node.list(0)) {
    parts.push_back(node.add("Unsqueeze", {node.cast(id, node.dtype()), node.ints({axis})}));
  }
  node.give(node.add("Concat", parts, {attribute("axis", axis)}));
}

std::string expanded(NodeExport& node, const std::string& name) {
  return node.add("Expand", {name, node.model().vector(node.result_sizes())});
}

void expand(NodeExport& node) { node.give(expanded(node, node.tensor(0))); }

void repeat(NodeExport& node) {
  const Dims times = node.dims(1);
  Dims sizes = node.sizes(0);
  std::string x = node.tensor(0);
  if (sizes.size() < times.size()) {
    sizes.insert(sizes.begin(), times.size() - sizes.size(), Dim{.fixed = 1});
    x = node.reshape(x, sizes);
  }
  node.give(node.add("Tile", {x, node.model().vector(times)}));
}

void flip(NodeExport& node) {
  const std::vector<int64_t> axes = node.axes(1);
  if (node.integers(1).empty()) return node.give(node.tensor(0));
  const auto all = [&](int64_t number) {
    return node.ints(std::vector<int64_t>(axes.size(), number));
  };
  node.give(node.add("Slice", {node.tensor(0), all(-1), all(-kEnd), node.ints(axes), all(-1)}));
}

void roll(NodeExport& node) {
  const std::vector<int64_t> shifts = node.integers(1), axes = node.integers(2);
  node.require(shifts.size() == axes.size(), "no axes");
  std::string y = node.tensor(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + node.rank(0) : axes[i];
    const int64_t size = node.fixed(node.sizes(0)[static_cast<size_t>(axis)]);
    if (size == 0) continue;
    const int64_t cut = ((size - shifts[i]) % size + size) % size;
    const auto part = [&](int64_t from, int64_t to) {
      return node.add("Slice", {y, node.ints({from}), node.ints({to}), node.ints({axis})});
    };
    y = node.add("Concat", {part(cut, kEnd), part(0, cut)}, {attribute("axis", axis)});
  }
  node.give(y);
}

void index_select(NodeExport& node) {
  node.give(
      node.add("Gather", {node.tensor(0), node.tensor(2)}, {attribute("axis", node.axis(1))}));
}

void gather(NodeExport& node) {
  node.give(node.add("GatherElements", {node.tensor(0), node.tensor(2)},
                     {attribute("axis", node.axis(1))}));
}

void embedding(NodeExport& node) {
  node.give(node.add("Gather", {node.tensor(0), node.tensor(1)}, {attribute("axis", int64_t{0})}));
}

/// libtorch begins with the last axis.
std::string padded(NodeExport& node, const char* mode, const std::string& value) {
  const std::vector<int64_t> given = node.integers(1);
  const auto rank = static_cast<size_t>(node.rank(0));
  std::vector<int64_t> pads(2 * rank);
  for (size_t i = 0; i < given.size() / 2; ++i) {
    pads[rank - 1 - i] = given[2 * i];
    pads[2 * rank - 1 - i] = given[2 * i + 1];
  }
  return node.add("Pad", {node.tensor(0), node.ints(pads), value}, {attribute("mode", mode)});
}

void pad_constant(NodeExport& node) {
  node.give(padded(node, "constant", node.scalar(node.number(2), node.dtype())));
}
void pad_reflection(NodeExport& node) { node.give(padded(node, "reflect", {})); }
void pad_replication(NodeExport& node) { node.give(padded(node, "edge", {})); }

void fill_with(NodeExport& node, double value) {
  node.give(expanded(node, node.scalar(value, node.dtype())));
}
void zeros(NodeExport& node) { fill_with(node, 0); }
void ones(NodeExport& node) { fill_with(node, 1); }
void full(NodeExport& node) { fill_with(node, node.number(1)); }
void new_full(NodeExport& node) { fill_with(node, node.number(2)); }
void scalar_tensor(NodeExport& node) { fill_with(node, node.number(0)); }

void fill(NodeExport& node) { node.give(expanded(node, node.operand(1, node.dtype()))); }

void copy(NodeExport& node) { node.give(expanded(node, node.tensor(1, node.dtype()))); }

/// Of integers, whose bounds depend on the number of examples; others are known.
void arange(NodeExport& node) {
  const size_t numbers = node.node().name == "aten::arange" ? 1 : 2;
  const bool has_step = node.node().name == "aten::arange.start_step";
  const auto bound = [&](const Dim& dim) { return node.model().scalar(dim); };
  const std::string y = node.add(
      "Range", {numbers == 1 ? bound({}) : bound(node.dim(0)), bound(node.dim(numbers - 1)),
                bound(has_step ? node.dim(2) : Dim{.fixed = 1})});
  node.give(node.cast(y, at::kLong, node.dtype()));
}

void triangle(NodeExport& node, int64_t upper) {
  node.give(node.add("Trilu", {node.tensor(0), node.model().scalar(node.integer(1))},
                     {attribute("upper", upper)}));
}
void tril(NodeExport& node) { triangle(node, 0); }
void triu(NodeExport& node) { triangle(node, 1); }

void cumsum(NodeExport& node) {
  node.give(node.add("CumSum", {node.tensor(0, node.dtype()), node.model().scalar(node.axis(1))}));
}

void pixel_shuffle(NodeExport& node) {
  node.give(node.add("DepthToSpace", {node.tensor(0)},
                     {attribute("blocksize", node.integer(1)), attribute("mode", "CRD")}));
}

void resize(NodeExport& node, const char* mode, bool align_corners) {
  const bool nearest = mode == std::string_view("nearest");
  const char* const coordinates = nearest         ? "asymmetric"
                                  : align_corners ? "align_corners"
                                                  : "half_pixel";
  Attributes attributes = {attribute("mode", mode),
                           attribute("coordinate_transformation_mode", coordinates)};
  if (nearest) attributes.push_back(attribute("nearest_mode", "floor"));
  if (mode == std::string_view("cubic")) attributes.push_back(attribute("cubic_coeff_a", -0.75));
  node.give(node.add("Resize", {node.tensor(0), "", "", node.model().vector(node.result_sizes())},
                     attributes));
}
void upsample_nearest(NodeExport& node) { resize(node, "nearest", false); }
void upsample_linear(NodeExport& node) { resize(node, "linear", node.flag(2)); }
void upsample_cubic(NodeExport& node) { resize(node, "cubic", node.flag(2)); }

}  // namespace

const Rules& shape_rules() {
  static const Rules rules = {{"aten::_reshape_alias", to_sizes_of_result},
                              {"aten::_unsafe_view", to_sizes_of_result},
                              {"aten::arange", arange},
                              {"aten::as_strided", as_strided},
                              {"aten::cat", cat},
                              {"aten::constant_pad_nd", pad_constant},
                              {"aten::copy", copy},
                              {"aten::cumsum", cumsum},
                              {"aten::embedding", embedding},
                              {"aten::empty", zeros},
                              {"aten::empty_like", zeros},
                              {"aten::empty_strided", zeros},
                              {"aten::expand", expand},
                              {"aten::fill", fill},
                              {"aten::flip", flip},
                              {"aten::full", full},
                              {"aten::full_like", full},
                              {"aten::gather", gather},
                              {"aten::index_select", index_select},
                              {"aten::new_empty", zeros},
                              {"aten::new_full", new_full},
                              {"aten::new_ones", ones},
                              {"aten::new_zeros", zeros},
                              {"aten::ones", ones},
                              {"aten::ones_like", ones},
                              {"aten::permute", permute},
                              {"aten::pixel_shuffle", pixel_shuffle},
                              {"aten::reflection_pad1d", pad_reflection},
                              {"aten::reflection_pad2d", pad_reflection},
                              {"aten::reflection_pad3d", pad_reflection},
                              {"aten::repeat", repeat},
                              {"aten::replication_pad1d", pad_replication},
                              {"aten::replication_pad2d", pad_replication},
                              {"aten::replication_pad3d", pad_replication},
                              {"aten::reshape", to_sizes_of_result},
                              {"aten::roll", roll},
                              {"aten::scalar_tensor", scalar_tensor},
                              {"aten::select", select},
                              {"aten::slice", slice},
                              {"aten::split", split},
                              {"aten::split_with_sizes", split},
                              {"aten::squeeze", to_sizes_of_result},
                              {"aten::stack", stack},
                              {"aten::t", transpose},
                              {"aten::transpose", transpose},
                              {"aten::tril", tril},
                              {"aten::triu", triu},
                              {"aten::unbind", unbind},
                              {"aten::unsafe_split", split},
                              {"aten::unsafe_split_with_sizes", split},
                              {"aten::unsqueeze", to_sizes_of_result},
                              {"aten::upsample_bicubic2d", upsample_cubic},
                              {"aten::upsample_bilinear2d", upsample_linear},
                              {"aten::upsample_linear1d", upsample_linear},
                              {"aten::upsample_nearest1d", upsample_nearest},
                              {"aten::upsample_nearest2d", upsample_nearest},
                              {"aten::upsample_nearest3d", upsample_nearest},
                              {"aten::view", to_sizes_of_result},
                              {"aten::zero", zeros},
                              {"aten::zeros", zeros},
                              {"aten::zeros_like", zeros}};
  return rules;
}

}  // namespace strata::graph::onnx
