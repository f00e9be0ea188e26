#include "graph/stablehlo/node_lowering.h"

#include <cstdlib>

#include "graph/describe_node.h"
#include "strata/core/error.h"

namespace strata::graph::stablehlo {

void NodeLowering::refuse(std::string_view what) const {
  STRATA_CHECK(false, kUnimplemented, "[stablehlo] ", state_.graph().name, ": ",
               describe_node(state_.graph(), index_), " has ", what,
               ", which strata has no StableHLO for; write this part of the step with other "
               "operators");
  std::abort();  // not reached
}

Array NodeLowering::operand(size_t i, at::ScalarType dtype) {
  if (is_tensor(i)) return in(i, dtype);
  const c10::IValue& value = node_.arguments[i].number;
  if (value.isInt()) return program().scalar(value.toInt(), dtype);
  return program().scalar(number(i), dtype);
}

double NodeLowering::number(size_t i) const {
  const c10::IValue& value = node_.arguments[i].number;
  if (value.isBool()) return value.toBool() ? 1 : 0;
  if (value.isInt()) return static_cast<double>(value.toInt());
  require(value.isDouble(), str_cat("no number as argument ", i));
  return value.toDouble();
}

Sizes NodeLowering::integers(size_t i, size_t count) const {
  const c10::IValue& value = node_.arguments[i].number;
  if (value.isInt()) return Sizes(count, value.toInt());
  Sizes list = value.toIntVector();
  if (list.size() == 1 && count > 1) list.resize(count, list[0]);
  return list;
}

std::vector<bool> NodeLowering::flags(size_t i) const {
  const c10::List<bool> list = node_.arguments[i].number.toBoolList();
  return {list.begin(), list.end()};
}

int64_t NodeLowering::axis(size_t i, size_t of) const {
  const int64_t axis = integer(i);
  return axis < 0 ? axis + rank(of) : axis;
}

Sizes NodeLowering::axes(size_t i, size_t of) const {
  Sizes axes;
  if (!is_none(i)) axes = integers(i);
  if (axes.empty()) axes = all_axes(rank(of));
  if (rank(of) == 0) return {};
  for (int64_t& axis : axes) axis = axis < 0 ? axis + rank(of) : axis;
  return axes;
}

void NodeLowering::give(const Array& array, size_t i) {
  if (given_.size() <= i) given_.resize(i + 1);
  given_[i] = {array};
}

}  // namespace strata::graph::stablehlo
