// `strata inspect model.onnx`: inputs, outputs, and how many nodes each operator has.
#include <cstdint>
#include <iostream>
#include <map>
#include <string_view>
#include <vector>

#include "graph/onnx/onnx_proto.h"
#include "strata/core/file_system.h"
#include "tools/inspect/inspect.h"

namespace strata::tools {
namespace {

using detail::MessageOf;

// Parts of messages: other writers have fields and forms of them that are of no interest here.
struct SeenNode {
  std::string_view op_type;
};
struct SeenWeight {
  std::string_view name;
};
struct SeenGraph {
  std::vector<SeenNode> nodes;
  std::vector<SeenWeight> weights;
  std::vector<graph::onnx::ValueInfo> inputs;
  std::vector<graph::onnx::ValueInfo> outputs;
};
struct SeenModel {
  int64_t ir_version = 0;
  std::string_view producer;
  SeenGraph graph;
  std::vector<graph::onnx::OperatorSet> operator_sets;
};

void visit_fields(auto& field, MessageOf<SeenNode> auto& node) {
  field(4, "op_type", node.op_type);
}
void visit_fields(auto& field, MessageOf<SeenWeight> auto& weight) {
  field(8, "name", weight.name);
}
void visit_fields(auto& field, MessageOf<SeenGraph> auto& graph) {
  field(1, "node", graph.nodes);
  field(5, "initializer", graph.weights);
  field(11, "input", graph.inputs);
  field(12, "output", graph.outputs);
}
void visit_fields(auto& field, MessageOf<SeenModel> auto& model) {
  field(1, "ir_version", model.ir_version);
  field(2, "producer_name", model.producer);
  field(7, "graph", model.graph);
  field(8, "opset_import", model.operator_sets);
}

bool is_onnx(const InspectPath& path) { return !path.is_folder && path.name().ends_with(".onnx"); }

/// onnx.TensorProto.DataType, as far as it is common.
std::string element_name(int32_t type) {
  static const std::map<int32_t, const char*> names = {
      {1, "float"},  {2, "uint8"}, {3, "int8"},     {5, "int16"},   {6, "int32"},    {7, "int64"},
      {8, "string"}, {9, "bool"},  {10, "float16"}, {11, "double"}, {16, "bfloat16"}};
  const auto found = names.find(type);
  return found == names.end() ? str_cat("type ", type) : found->second;
}

void print_values(const char* title, const std::vector<graph::onnx::ValueInfo>& values) {
  for (const graph::onnx::ValueInfo& value : values) {
    std::cout << "  " << title << ' ' << quoted(value.name) << ": "
              << element_name(value.type.tensor.element) << " [";
    const char* between = "";
    for (const graph::onnx::Dimension& dimension : value.type.tensor.shape.dims) {
      std::cout << between;
      between = ", ";
      if (dimension.value) {
        std::cout << *dimension.value;
      } else {
        std::cout << dimension.parameter.value_or("?");
      }
    }
    std::cout << "]\n";
  }
}

void print_onnx(const InspectPath& path, const InspectOptions&) {
  static constexpr detail::WireText kText{.call = "[strata inspect]", .expected = "an ONNX model"};
  const std::string bytes = read_file(path.path);
  detail::WireReader reader(bytes, bytes, kText);
  SeenModel model;
  read_message(model, reader);
  std::cout << "  IR version " << model.ir_version;
  for (const graph::onnx::OperatorSet& set : model.operator_sets) {
    std::cout << ", opset " << set.version << (set.domain.empty() ? "" : " of ") << set.domain;
  }
  if (!model.producer.empty()) std::cout << ", by " << quoted(model.producer);
  std::cout << '\n';
  print_values("input", model.graph.inputs);
  print_values("output", model.graph.outputs);
  std::map<std::string_view, int64_t> operators;
  for (const SeenNode& node : model.graph.nodes) ++operators[node.op_type];
  std::cout << "  " << counted(static_cast<int64_t>(model.graph.weights.size()), "weight") << ", "
            << counted(static_cast<int64_t>(model.graph.nodes.size()), "node") << ":\n";
  for (const auto& [name, count] : operators) {
    std::cout << "    " << count << ' ' << quoted(name) << '\n';
  }
}

}  // namespace

const InspectKind kInspectOnnx = {.name = "ONNX model", .recognises = is_onnx, .print = print_onnx};

}  // namespace strata::tools
