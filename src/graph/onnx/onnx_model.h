#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "graph/onnx/onnx_proto.h"
#include "strata/core/file_system.h"

namespace strata::graph::onnx {

/// A number that may grow with the number of examples: fixed + per_example * batch.
struct Dim {
  int64_t fixed = 0;
  int64_t per_example = 0;
  bool varies() const { return per_example != 0; }
  friend bool operator==(const Dim&, const Dim&) = default;
};
using Dims = std::vector<Dim>;

Attribute attribute(const char* name, int64_t value);
Attribute attribute(const char* name, double value);
Attribute attribute(const char* name, const char* value);
Attribute attribute(const char* name, std::vector<int64_t> values);

using Names = std::vector<std::string>;
using Attributes = std::vector<Attribute>;

/// onnx.TensorProto.DataType. @throws Error  kUnimplemented: ONNX has no such dtype.
int32_t data_type_of(at::ScalarType dtype);

/// An ONNX model that is being made: nodes in order, and the values that are known.
class OnnxModel {
 public:
  explicit OnnxModel(std::string name);

  /// A name that nothing has, `wish` or one that begins with it.
  std::string unique(const std::string& wish);

  void add_input(const std::string& name, at::ScalarType dtype, const Dims& sizes);
  void add_output(const std::string& name, at::ScalarType dtype, const Dims& sizes);

  /// Appends a node. @return The names of its outputs, `outputs` of them.
  Names add(std::string_view op, Names inputs, Attributes attributes, size_t outputs);
  std::string add(std::string_view op, Names inputs, Attributes attributes = {}) {
    return add(op, std::move(inputs), std::move(attributes), 1)[0];
  }
  /// Appends `name` = `value`.
  void rename(const std::string& value, const std::string& name);

  /// A weight or another tensor that is known. @param wish  For its name.
  std::string constant(const at::Tensor& tensor, const std::string& wish = "constant");
  /// The same of numbers; equal ones are there once.
  std::string scalar(double value, at::ScalarType dtype);
  std::string scalar(int64_t value);
  std::string vector(const std::vector<int64_t>& values);

  /// A list of int64, a scalar of it, of which some depend on the number of examples.
  std::string vector(const Dims& dims);
  std::string scalar(const Dim& dim);

  /// @throws Error  kUnimplemented: larger than such a file may be.
  void write(const std::string& path) const;

 private:
  struct Weight {
    std::string header;  // the fields of its message before the elements
    at::Tensor tensor;
  };

  /// The constant that `make` adds, or that it added for an equal key before.
  template <typename Make>
  std::string once(const std::string& key, const Make& make);
  /// [1] of int64.
  std::string of_batch(const Dim& dim);

  GraphMessage graph_;  // without its initializers
  std::vector<Weight> weights_;
  std::set<std::string> names_;
  std::map<std::string, std::string> numbers_;  // by dtype, sizes and bytes
  std::map<std::pair<int64_t, int64_t>, std::string> of_batch_;
};

}  // namespace strata::graph::onnx
