#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/onnx/onnx_model.h"
#include "strata/graph/inference.h"

namespace strata::graph::onnx {

/// What rules ask an export for.
class ExportState {
 public:
  virtual ~ExportState() = default;
  virtual const Graph& graph() const = 0;
  virtual OnnxModel& model() = 0;
  /// The ONNX value that is the tensor now.
  virtual std::string name_of(ValueId id) = 0;
  /// The tensor, if it is known; else undefined.
  virtual at::Tensor known(ValueId id) const = 0;
  virtual Dims sizes_of(ValueId id) const = 0;
  /// A number of a node, or one of a list of them.
  virtual Dim dim_of(size_t node, size_t argument, size_t element) const = 0;
};

/// One node as its rule sees it: arguments and results by position, as in the operator's schema.
class NodeExport {
 public:
  NodeExport(ExportState& state, size_t node)
      : state_(state), index_(node), node_(state.graph().nodes[node]) {}

  OnnxModel& model() { return state_.model(); }
  const Node& node() const { return node_; }

  // --- Tensors among the arguments
  bool is_tensor(size_t i) const {
    return node_.arguments[i].kind == Operand::Kind::kValue &&
           node_.arguments[i].values[0] != kNoValue;
  }
  const std::vector<ValueId>& list(size_t i) const { return node_.arguments[i].values; }
  ValueId id(size_t i) const { return node_.arguments[i].values[0]; }
  const Value& value(size_t i) const { return value_of(id(i)); }
  const Value& value_of(ValueId id) const { return state_.graph().values[static_cast<size_t>(id)]; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(value(i).sizes.size()); }
  Dims sizes(size_t i) const { return state_.sizes_of(id(i)); }
  at::Tensor known(size_t i) const { return is_tensor(i) ? state_.known(id(i)) : at::Tensor(); }
  std::string tensor(size_t i) { return state_.name_of(id(i)); }
  std::string tensor(size_t i, at::ScalarType dtype) { return cast(id(i), dtype); }
  /// An absent one is an absent input.
  std::string tensor_or_none(size_t i) { return is_tensor(i) ? tensor(i) : std::string(); }
  std::string cast(ValueId id, at::ScalarType dtype);
  std::string cast(const std::string& name, at::ScalarType from, at::ScalarType to);
  /// A tensor or a number, as a tensor of that dtype.
  std::string operand(size_t i, at::ScalarType dtype);

  // --- Numbers among the arguments
  bool is_none(size_t i) const {
    const Operand& operand = node_.arguments[i];
    return operand.kind == Operand::Kind::kNumber ? operand.number.isNone() : !is_tensor(i);
  }
  double number(size_t i) const;
  int64_t integer(size_t i) const { return fixed(dim(i)); }
  bool flag(size_t i) const { return node_.arguments[i].number.toBool(); }
  std::string text(size_t i) const { return node_.arguments[i].number.toStringRef(); }
  Dim dim(size_t i) const { return state_.dim_of(index_, i, 0); }
  Dims dims(size_t i) const;
  std::vector<int64_t> integers(size_t i) const;
  /// A dimension of argument `of`, from 0.
  int64_t axis(size_t i, size_t of = 0) const;
  /// A list of them, or one; none: all.
  std::vector<int64_t> axes(size_t i, size_t of = 0) const;

  // --- Results
  const Value& result(size_t i = 0) const { return value_of(node_.results[i].values[0]); }
  Dims result_sizes(size_t i = 0) const { return state_.sizes_of(node_.results[i].values[0]); }
  const std::vector<ValueId>& result_list() const { return node_.results[0].values; }
  Dims sizes_of(ValueId id) const { return state_.sizes_of(id); }
  at::ScalarType dtype(size_t i = 0) const { return result(i).dtype; }

  std::string add(std::string_view op, Names inputs, Attributes attributes = {}) {
    return model().add(op, std::move(inputs), std::move(attributes));
  }
  std::string scalar(double value, at::ScalarType dtype) { return model().scalar(value, dtype); }
  std::string ints(const std::vector<int64_t>& values) { return model().vector(values); }
  std::string reshape(const std::string& name, const Dims& sizes);
  std::string transpose(const std::string& name, std::vector<int64_t> order) {
    return add("Transpose", {name}, {attribute("perm", std::move(order))});
  }

  /// The node's result; those of a list; results that nothing is given for must not be read.
  void give(std::string name, size_t i = 0);
  void give_list(Names names) { given_ = {std::move(names)}; }
  const std::vector<Names>& given() const { return given_; }

  /// @throws Error  kUnimplemented: with the node's name.
  [[noreturn]] void refuse(std::string_view what) const;
  void require(bool holds, std::string_view what) const {
    if (!holds) refuse(what);
  }
  int64_t fixed(const Dim& dim) const {
    require(!dim.varies(), "a number that depends on the number of examples");
    return dim.fixed;
  }

 private:
  ExportState& state_;
  size_t index_;
  const Node& node_;
  std::vector<Names> given_;
};

}  // namespace strata::graph::onnx
