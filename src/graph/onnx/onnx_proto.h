#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/proto_message.h"

/// The messages of an ONNX file, as many as strata writes. The contract is proto/onnx/onnx.proto.
namespace strata::graph::onnx {

using detail::MessageOf;

/// onnx.AttributeProto.AttributeType
enum class AttributeType { kFloat = 1, kInt = 2, kString = 3, kInts = 7 };

struct Attribute {
  std::string name;
  std::optional<float> f = {};
  std::optional<int64_t> i = {};
  std::optional<std::string> s = {};
  std::vector<int64_t> ints = {};
  AttributeType type = {};
};

struct NodeMessage {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::string name;
  std::string op_type;
  std::vector<Attribute> attributes;
};

struct TensorMessage {
  std::vector<int64_t> dims;
  int32_t data_type = 0;
  std::string name;
  std::string raw_data;
};

struct Dimension {
  std::optional<int64_t> value = {};
  std::optional<std::string> parameter = {};
};

struct ShapeMessage {
  std::vector<Dimension> dims;
};

struct TensorType {
  int32_t element = 0;
  ShapeMessage shape;
};

struct TypeMessage {
  TensorType tensor;
};

struct ValueInfo {
  std::string name;
  TypeMessage type;
};

struct GraphMessage {
  std::vector<NodeMessage> nodes;
  std::string name;
  std::vector<TensorMessage> initializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
};

struct OperatorSet {
  std::string domain;
  int64_t version = 0;
};

struct ModelMessage {
  int64_t ir_version = 0;
  std::string producer;
  std::optional<GraphMessage> graph = {};
  std::vector<OperatorSet> operator_sets;
};

void visit_fields(auto& field, MessageOf<Attribute> auto& attribute) {
  field(1, "name", attribute.name);
  field(2, "f", attribute.f);
  field(3, "i", attribute.i);
  field.bytes(4, "s", attribute.s);
  field(8, "ints", attribute.ints);
  field(20, "type", attribute.type);
}

void visit_fields(auto& field, MessageOf<NodeMessage> auto& node) {
  field(1, "input", node.inputs);
  field(2, "output", node.outputs);
  field(3, "name", node.name);
  field(4, "op_type", node.op_type);
  field(5, "attribute", node.attributes);
}

void visit_fields(auto& field, MessageOf<TensorMessage> auto& tensor) {
  field(1, "dims", tensor.dims);
  field(2, "data_type", tensor.data_type);
  field(8, "name", tensor.name);
  field.bytes(9, "raw_data", tensor.raw_data);
}

void visit_fields(auto& field, MessageOf<Dimension> auto& dimension) {
  field(1, "dim_value", dimension.value);
  field(2, "dim_param", dimension.parameter);
}

void visit_fields(auto& field, MessageOf<ShapeMessage> auto& shape) { field(1, "dim", shape.dims); }

void visit_fields(auto& field, MessageOf<TensorType> auto& type) {
  field(1, "elem_type", type.element);
  field(2, "shape", type.shape);
}

void visit_fields(auto& field, MessageOf<TypeMessage> auto& type) {
  field(1, "tensor_type", type.tensor);
}

void visit_fields(auto& field, MessageOf<ValueInfo> auto& value) {
  field(1, "name", value.name);
  field(2, "type", value.type);
}

void visit_fields(auto& field, MessageOf<GraphMessage> auto& graph) {
  field(1, "node", graph.nodes);
  field(2, "name", graph.name);
  field(5, "initializer", graph.initializers);
  field(11, "input", graph.inputs);
  field(12, "output", graph.outputs);
}

void visit_fields(auto& field, MessageOf<OperatorSet> auto& set) {
  field(1, "domain", set.domain);
  field(2, "version", set.version);
}

void visit_fields(auto& field, MessageOf<ModelMessage> auto& model) {
  field(1, "ir_version", model.ir_version);
  field(2, "producer_name", model.producer);
  field(7, "graph", model.graph);
  field(8, "opset_import", model.operator_sets);
}

}  // namespace strata::graph::onnx
