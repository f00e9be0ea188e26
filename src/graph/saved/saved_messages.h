#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/proto_message.h"

/// The messages of a saved graph. The contract is proto/strata/saved_graph.proto.
namespace strata::graph::saved {

using detail::MessageOf;

inline constexpr std::string_view kMagic = "STRATAGR";
inline constexpr uint64_t kVersion = 1;
inline constexpr uint64_t kChecksumBytes = 4;

struct SavedNumber {
  enum List : uint64_t { kNoList, kIntegers, kReals, kBooleans };
  std::optional<int64_t> integer = {};
  std::optional<double> real = {};
  std::optional<bool> boolean = {};
  std::optional<std::string> text = {};
  uint64_t list = kNoList;
  std::vector<int64_t> integers = {};
  std::vector<double> reals = {};
  bool cpu = false;
};

struct SavedOperand {
  uint64_t kind = 0;
  std::vector<int64_t> values = {};
  std::optional<SavedNumber> number = {};
};

struct SavedNode {
  std::string name;
  std::vector<SavedOperand> arguments = {};
  std::vector<SavedOperand> results = {};
  std::vector<int64_t> written = {};
};

struct SavedValue {
  uint64_t kind = 0;
  uint64_t dtype = 0;
  std::vector<int64_t> sizes = {};
  std::vector<int64_t> strides = {};
  int64_t offset = 0;
  int64_t memory = 0;
  int64_t node = 0;
  bool stored = false;
};

struct SavedTerm {
  uint64_t part = 0;
  int64_t index = 0;
  int64_t argument = 0;
  int64_t element = 0;
  int64_t per_example = 0;
};

struct SavedGraph {
  uint64_t version = 0;
  std::string name;
  std::vector<SavedValue> values = {};
  std::vector<SavedNode> nodes = {};
  std::vector<int64_t> inputs = {};
  std::vector<int64_t> outputs = {};
  int64_t batch = 0;
  std::vector<SavedTerm> terms = {};
};

void visit_fields(auto& field, MessageOf<SavedNumber> auto& number) {
  field(1, "integer", number.integer);
  field(2, "real", number.real);
  field(3, "boolean", number.boolean);
  field(4, "text", number.text);
  field(5, "list", number.list);
  field(6, "integers", number.integers);
  field(7, "reals", number.reals);
  field(8, "cpu", number.cpu);
}

void visit_fields(auto& field, MessageOf<SavedOperand> auto& operand) {
  field(1, "kind", operand.kind);
  field(2, "values", operand.values);
  field(3, "number", operand.number);
}

void visit_fields(auto& field, MessageOf<SavedNode> auto& node) {
  field(1, "name", node.name);
  field(2, "arguments", node.arguments);
  field(3, "results", node.results);
  field(4, "written", node.written);
}

void visit_fields(auto& field, MessageOf<SavedValue> auto& value) {
  field(1, "kind", value.kind);
  field(2, "dtype", value.dtype);
  field(3, "sizes", value.sizes);
  field(4, "strides", value.strides);
  field(5, "offset", value.offset);
  field(6, "memory", value.memory);
  field(7, "node", value.node);
  field(8, "stored", value.stored);
}

void visit_fields(auto& field, MessageOf<SavedTerm> auto& term) {
  field(1, "part", term.part);
  field(2, "index", term.index);
  field(3, "argument", term.argument);
  field(4, "element", term.element);
  field(5, "per_example", term.per_example);
}

void visit_fields(auto& field, MessageOf<SavedGraph> auto& graph) {
  field(1, "version", graph.version);
  field(2, "name", graph.name);
  field(3, "values", graph.values);
  field(4, "nodes", graph.nodes);
  field(5, "inputs", graph.inputs);
  field(6, "outputs", graph.outputs);
  field(7, "batch", graph.batch);
  field(8, "terms", graph.terms);
}

}  // namespace strata::graph::saved
