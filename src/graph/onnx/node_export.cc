#include "graph/onnx/node_export.h"

#include <cstdlib>
#include <numeric>

#include "graph/describe_node.h"
#include "strata/core/error.h"

namespace strata::graph::onnx {

void NodeExport::refuse(std::string_view what) const {
  STRATA_CHECK(false, kUnimplemented, "[onnx] ", state_.graph().name, ": ",
               describe_node(state_.graph(), index_), " has ", what,
               ", which strata has no ONNX for; write this part of the model with other operators");
  std::abort();  // not reached
}

std::string NodeExport::cast(const std::string& name, at::ScalarType from, at::ScalarType to) {
  if (from == to) return name;
  return add("Cast", {name}, {attribute("to", int64_t{data_type_of(to)})});
}

std::string NodeExport::cast(ValueId id, at::ScalarType dtype) {
  return cast(state_.name_of(id), value_of(id).dtype, dtype);
}

std::string NodeExport::operand(size_t i, at::ScalarType dtype) {
  return is_tensor(i) ? tensor(i, dtype) : scalar(number(i), dtype);
}

double NodeExport::number(size_t i) const {
  const c10::IValue& value = node_.arguments[i].number;
  if (value.isBool()) return value.toBool() ? 1 : 0;
  require(value.isInt() || value.isDouble(), str_cat("no number as argument ", i));
  if (value.isInt()) return static_cast<double>(integer(i));
  return value.toDouble();
}

Dims NodeExport::dims(size_t i) const {
  Dims result;
  const size_t count = node_.arguments[i].number.toIntVector().size();
  for (size_t e = 0; e < count; ++e) result.push_back(state_.dim_of(index_, i, e));
  return result;
}

std::vector<int64_t> NodeExport::integers(size_t i) const {
  std::vector<int64_t> result;
  for (const Dim& each : dims(i)) result.push_back(fixed(each));
  return result;
}

int64_t NodeExport::axis(size_t i, size_t of) const {
  const int64_t axis = integer(i);
  return axis < 0 ? axis + rank(of) : axis;
}

std::vector<int64_t> NodeExport::axes(size_t i, size_t of) const {
  const c10::IValue& given = node_.arguments[i].number;
  std::vector<int64_t> axes;
  if (given.isInt()) {
    axes = {given.toInt()};
  } else if (given.isIntList()) {
    axes = given.toIntVector();
  }
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(rank(of)));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = axis < 0 ? axis + rank(of) : axis;
  return axes;
}

std::string NodeExport::reshape(const std::string& name, const Dims& sizes) {
  std::vector<int64_t> shape;
  int64_t varying = 0;
  bool empty = false;
  for (const Dim& size : sizes) {
    varying += size.varies() ? 1 : 0;
    empty = empty || (!size.varies() && size.fixed == 0);
    shape.push_back(size.varies() ? -1 : size.fixed);
  }
  const bool plain = varying == 0 || (varying == 1 && !empty);
  return add("Reshape", {name, plain ? ints(shape) : model().vector(sizes)},
             empty ? Attributes{attribute("allowzero", int64_t{1})} : Attributes{});
}

void NodeExport::give(std::string name, size_t i) {
  if (given_.size() <= i) given_.resize(i + 1);
  given_[i] = {std::move(name)};
}

}  // namespace strata::graph::onnx
