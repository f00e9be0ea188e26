#include "graph/onnx/onnx_model.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <limits>
#include <span>

#include "core/atomic_file.h"
#include "strata/core/error.h"
#include "strata/graph/onnx.h"

namespace strata::graph::onnx {
namespace {

constexpr int64_t kIrVersion = 8;
/// Of a message in Protocol Buffers: the size is an int.
constexpr uint64_t kMaxFileBytes = std::numeric_limits<int32_t>::max();
constexpr uint32_t kGraphField = 7;        // of ModelProto
constexpr uint32_t kInitializerField = 5;  // of GraphProto
constexpr uint32_t kRawDataField = 9;      // of TensorProto

ShapeMessage shape_of(const Dims& sizes) {
  ShapeMessage shape;
  for (const Dim& size : sizes) {
    Dimension& dimension = shape.dims.emplace_back();
    if (!size.varies()) {
      dimension.value = size.fixed;
    } else if (size == Dim{.fixed = 0, .per_example = 1}) {
      dimension.parameter = "batch";
    } else {
      dimension.parameter =
          str_cat(size.per_example, "*batch", size.fixed < 0 ? "" : "+", size.fixed);
    }
  }
  return shape;
}

ValueInfo value_info(const std::string& name, at::ScalarType dtype, const Dims& sizes) {
  return {.name = name,
          .type = {.tensor = {.element = data_type_of(dtype), .shape = shape_of(sizes)}}};
}

/// A field of bytes without the bytes.
std::string head_of(uint32_t field, uint64_t size) {
  std::string head;
  detail::put_key(field, detail::WireType::kBytes, head);
  detail::put_varint(size, head);
  return head;
}

void append(WritableFile& file, std::string_view bytes) {
  file.append(std::as_bytes(std::span(bytes)));
}

}  // namespace

Attribute attribute(const char* name, int64_t value) {
  return {.name = name, .i = value, .type = AttributeType::kInt};
}
Attribute attribute(const char* name, double value) {
  return {.name = name, .f = static_cast<float>(value), .type = AttributeType::kFloat};
}
Attribute attribute(const char* name, const char* value) {
  return {.name = name, .s = value, .type = AttributeType::kString};
}
Attribute attribute(const char* name, std::vector<int64_t> values) {
  return {.name = name, .ints = std::move(values), .type = AttributeType::kInts};
}

int32_t data_type_of(at::ScalarType dtype) {
  static const std::map<at::ScalarType, int32_t> types = {
      {at::kFloat, 1}, {at::kByte, 2}, {at::kChar, 3},  {at::kShort, 5},   {at::kInt, 6},
      {at::kLong, 7},  {at::kBool, 9}, {at::kHalf, 10}, {at::kDouble, 11}, {at::kBFloat16, 16}};
  const auto found = types.find(dtype);
  STRATA_CHECK(found != types.end(), kUnimplemented, "[onnx] got a tensor of ", dtype,
               "; expected float, double, half, bfloat16, bool, or an integer");
  return found->second;
}

OnnxModel::OnnxModel(std::string name) { graph_.name = std::move(name); }

std::string OnnxModel::unique(const std::string& wish) {
  std::string name = wish;
  for (size_t i = 1; !names_.insert(name).second; ++i) name = str_cat(wish, "_", i);
  return name;
}

void OnnxModel::add_input(const std::string& name, at::ScalarType dtype, const Dims& sizes) {
  graph_.inputs.push_back(value_info(name, dtype, sizes));
}

void OnnxModel::add_output(const std::string& name, at::ScalarType dtype, const Dims& sizes) {
  graph_.outputs.push_back(value_info(name, dtype, sizes));
}

Names OnnxModel::add(std::string_view op, Names inputs, Attributes attributes, size_t outputs) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  NodeMessage node{.inputs = std::move(inputs),
                   .outputs = {},
                   .name = str_cat(op, "#", graph_.nodes.size()),
                   .op_type = std::string(op),
                   .attributes = std::move(attributes)};
  for (size_t i = 0; i < outputs; ++i) {
    node.outputs.push_back(unique(str_cat(op, ":", graph_.nodes.size())));
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

void OnnxModel::rename(const std::string& value, const std::string& name) {
  graph_.nodes.push_back({.inputs = {value},
                          .outputs = {name},
                          .name = str_cat("Identity#", graph_.nodes.size()),
                          .op_type = "Identity",
                          .attributes = {}});
}

std::string OnnxModel::constant(const at::Tensor& tensor, const std::string& wish) {
  const at::Tensor value = tensor.detach().contiguous();
  TensorMessage message{.dims = value.sizes().vec(),
                        .data_type = data_type_of(value.scalar_type()),
                        .name = unique(wish),
                        .raw_data = {}};
  Weight& weight = weights_.emplace_back();
  weight.tensor = value;
  detail::write_message(message, weight.header);
  return message.name;
}

template <typename Make>
std::string OnnxModel::once(const std::string& key, const Make& make) {
  std::string& name = numbers_[key];
  if (name.empty()) name = make();
  return name;
}

std::string OnnxModel::scalar(double value, at::ScalarType dtype) {
  const at::Scalar number = c10::isIntegralType(dtype, /*includeBool=*/true)
                                ? at::Scalar(static_cast<int64_t>(value))
                                : at::Scalar(value);
  return once(str_cat("scalar ", dtype, " ", std::bit_cast<uint64_t>(value)),
              [&] { return constant(at::full({}, number, at::dtype(dtype)), "number"); });
}

std::string OnnxModel::scalar(int64_t value) {
  return once(str_cat("integer ", value),
              [&] { return constant(at::full({}, value, at::dtype(at::kLong)), "number"); });
}

std::string OnnxModel::vector(const std::vector<int64_t>& values) {
  return once(str_cat("vector ", at::IntArrayRef(values)), [&] {
    const at::Tensor tensor =
        at::empty({static_cast<int64_t>(values.size())}, at::dtype(at::kLong));
    std::ranges::copy(values, tensor.mutable_data_ptr<int64_t>());
    return constant(tensor, "numbers");
  });
}

std::string OnnxModel::of_batch(const Dim& dim) {
  const std::pair<int64_t, int64_t> key(dim.fixed, dim.per_example);
  const auto found = of_batch_.find(key);
  if (found != of_batch_.end()) return found->second;
  std::string name;
  if (dim.fixed != 0) {
    name = add("Add", {of_batch({.fixed = 0, .per_example = dim.per_example}),
                       vector(std::vector<int64_t>{dim.fixed})});
  } else if (dim.per_example != 1) {
    name = add("Mul", {of_batch({.fixed = 0, .per_example = 1}),
                       vector(std::vector<int64_t>{dim.per_example})});
  } else {
    const std::string shape = add("Shape", {graph_.inputs.at(0).name});
    name = add("Gather", {shape, vector(std::vector<int64_t>{0})}, {attribute("axis", int64_t{0})});
  }
  return of_batch_[key] = name;
}

std::string OnnxModel::vector(const Dims& dims) {
  Names parts;
  std::vector<int64_t> fixed;
  const auto flush = [&] {
    if (!fixed.empty()) parts.push_back(vector(fixed));
    fixed.clear();
  };
  for (const Dim& dim : dims) {
    if (dim.varies()) {
      flush();
      parts.push_back(of_batch(dim));
    } else {
      fixed.push_back(dim.fixed);
    }
  }
  if (parts.empty()) return vector(fixed);
  flush();
  return parts.size() == 1 ? parts[0] : add("Concat", parts, {attribute("axis", int64_t{0})});
}

std::string OnnxModel::scalar(const Dim& dim) {
  if (!dim.varies()) return scalar(dim.fixed);
  return add("Squeeze", {of_batch(dim), vector(std::vector<int64_t>{0})});
}

/// Weights are written from where they are: a file of messages within messages would be copied for each.
void OnnxModel::write(const std::string& path) const {
  std::string graph;
  detail::write_message(graph_, graph);
  std::vector<std::string> heads;
  uint64_t graph_size = graph.size();
  for (const Weight& weight : weights_) {
    const std::string data = head_of(kRawDataField, weight.tensor.nbytes());
    const uint64_t size = weight.header.size() + data.size() + weight.tensor.nbytes();
    heads.push_back(head_of(kInitializerField, size) + weight.header + data);
    graph_size += heads.back().size() + weight.tensor.nbytes();
  }
  STRATA_CHECK(graph_size < kMaxFileBytes - 1024, kUnimplemented, "[onnx] ", path,
               ": got a model of ", graph_size,
               " bytes; expected less than 2 GiB, which is what a message may have, and "
               "strata writes no weights to other files; export it in half precision or in parts");
  const ModelMessage model{.ir_version = kIrVersion,
                           .producer = "strata",
                           .graph = {},
                           .operator_sets = {{.domain = "", .version = kOnnxOpset}}};
  detail::write_atomically(path, [&](WritableFile& file) {
    std::string head;
    detail::write_message(model, head);
    append(file, head + head_of(kGraphField, graph_size) + graph);
    for (size_t i = 0; i < weights_.size(); ++i) {
      append(file, heads[i]);
      file.append({static_cast<const std::byte*>(weights_[i].tensor.const_data_ptr()),
                   weights_[i].tensor.nbytes()});
    }
  });
}

}  // namespace strata::graph::onnx
