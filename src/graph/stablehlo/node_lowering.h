#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/stablehlo/operations.h"
#include "strata/graph/graph.h"

namespace strata::graph::stablehlo {

/// What rules ask a lowering for.
class LoweringState {
 public:
  virtual ~LoweringState() = default;
  virtual const Graph& graph() const = 0;
  virtual Program& program() = 0;
  virtual int64_t num_replicas() const = 0;
  /// The tensor as it is now.
  virtual Array read(ValueId id) = 0;
  /// A view, from the whole memory that it is in.
  virtual Array read_by_strides(ValueId id) = 0;
  /// Uniformly distributed bits, others each time. @param dtype  UInt32 or UInt64.
  virtual Array random_bits(at::ScalarType dtype, const Sizes& sizes) = 0;
};

/// One node as its rule sees it: arguments and results by position, as in the operator's schema.
class NodeLowering {
 public:
  NodeLowering(LoweringState& state, size_t node)
      : state_(state), index_(node), node_(state.graph().nodes[node]) {}

  Program& program() { return state_.program(); }
  int64_t num_replicas() const { return state_.num_replicas(); }
  const Node& node() const { return node_; }
  size_t num_arguments() const { return node_.arguments.size(); }

  // --- Tensors among the arguments
  bool is_tensor(size_t i) const {
    return i < node_.arguments.size() && node_.arguments[i].kind == Operand::Kind::kValue &&
           node_.arguments[i].values[0] != kNoValue;
  }
  ValueId id(size_t i) const { return node_.arguments[i].values[0]; }
  const Value& value(size_t i) const { return value_of(id(i)); }
  const Value& value_of(ValueId id) const { return state_.graph().values[static_cast<size_t>(id)]; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(value(i).sizes.size()); }
  Array in(size_t i) { return state_.read(id(i)); }
  Array in(size_t i, at::ScalarType dtype) { return convert(in(i), dtype); }
  const std::vector<ValueId>& list(size_t i) const { return node_.arguments[i].values; }
  Array read(ValueId id) { return state_.read(id); }
  /// A tensor or a number, as an array of that dtype.
  Array operand(size_t i, at::ScalarType dtype);

  // --- Numbers among the arguments
  bool is_none(size_t i) const {
    if (i >= node_.arguments.size()) return true;
    const Operand& operand = node_.arguments[i];
    return operand.kind == Operand::Kind::kNumber ? operand.number.isNone() : !is_tensor(i);
  }
  double number(size_t i) const;
  int64_t integer(size_t i) const { return node_.arguments[i].number.toInt(); }
  bool flag(size_t i) const { return node_.arguments[i].number.toBool(); }
  std::string text(size_t i) const { return node_.arguments[i].number.toStringRef(); }
  /// A list, or one number for `count` times the same.
  Sizes integers(size_t i, size_t count = 1) const;
  std::vector<bool> flags(size_t i) const;
  /// A dimension of argument `of`, from 0.
  int64_t axis(size_t i, size_t of = 0) const;
  /// A list of them, or one; none: all.
  Sizes axes(size_t i, size_t of = 0) const;

  // --- Results
  const std::vector<ValueId>& result_list() const { return node_.results[0].values; }
  bool wants(size_t i) const {
    return i < node_.results.size() && node_.results[i].values[0] != kNoValue;
  }
  const Value& result(size_t i = 0) const { return value_of(node_.results[i].values[0]); }
  const Sizes& sizes(size_t i = 0) const { return result(i).sizes; }
  at::ScalarType dtype(size_t i = 0) const { return result(i).dtype; }
  /// The first result, a view, by its strides.
  Array read_by_strides() { return state_.read_by_strides(node_.results[0].values[0]); }
  Array random_bits(at::ScalarType dtype, const Sizes& sizes) {
    return state_.random_bits(dtype, sizes);
  }

  /// The node's result; those of a list. What nothing is given for must not be read.
  void give(const Array& array, size_t i = 0);
  void give_list(std::vector<Array> arrays) { given_ = {std::move(arrays)}; }
  const std::vector<std::vector<Array>>& given() const { return given_; }
  /// A write of an argument that is none of the results.
  void write(size_t argument, const Array& array) { write_to(id(argument), array); }
  void write_to(ValueId id, const Array& array) { writes_.emplace_back(id, array); }
  const std::vector<std::pair<ValueId, Array>>& writes() const { return writes_; }

  /// @throws Error  kUnimplemented: with the node's name.
  [[noreturn]] void refuse(std::string_view what) const;
  void require(bool holds, std::string_view what) const {
    if (!holds) refuse(what);
  }

 private:
  LoweringState& state_;
  size_t index_;
  const Node& node_;
  std::vector<std::vector<Array>> given_;
  std::vector<std::pair<ValueId, Array>> writes_;
};

/// What sums and the like of such numbers are computed in, as libtorch does.
inline at::ScalarType accumulated_in(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype;
}

}  // namespace strata::graph::stablehlo
