// Whether a graph holds together: before one from outside is run.
#include <ATen/core/dispatch/Dispatcher.h>

#include <string_view>

#include "strata/core/error.h"
#include "strata/graph/graph.h"

namespace strata::graph {
namespace {

using Kind = Operand::Kind;

class Check {
 public:
  explicit Check(const Graph& graph) : graph_(graph), made_(graph.values.size(), false) {}

  void run() {
    check_values();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) check_node(n);
    for (const ValueId id : graph_.inputs) {
      if (id != kNoValue) require(exists(id), "the list of inputs", "a value that does not exist");
    }
    for (const ValueId id : graph_.outputs) {
      if (id != kNoValue) require(ready(id), "the list of outputs", "a value that no node makes");
    }
  }

 private:
  static void require(bool good, const std::string& where, std::string_view what) {
    STRATA_CHECK(good, kInvalidArgument, "[graph] check: ", where, " has ", what,
                 "; the graph was damaged, or written by another version");
  }

  bool exists(ValueId id) const {
    return id >= 0 && static_cast<size_t>(id) < graph_.values.size();
  }
  bool ready(ValueId id) const { return exists(id) && made_[static_cast<size_t>(id)]; }

  void check_values() {
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      const std::string where = str_cat("value %", i);
      require(value.sizes.size() == value.strides.size(), where,
              "unequal numbers of sizes and strides");
      for (const int64_t size : value.sizes) require(size >= 0, where, "a negative size");
      require(exists(value.memory), where, "the memory of a value that does not exist");
      const bool result = value.kind == ValueKind::kResult;
      require(result == (value.node >= 0) && value.node < static_cast<int64_t>(graph_.nodes.size()),
              where, "a node that does not exist");
      if (value.kind != ValueKind::kResult && value.kind != ValueKind::kInput) {
        require(value.tensor.defined(), where, "no tensor");
      }
      made_[i] = !result;
    }
  }

  void check_node(size_t n) {
    const Node& node = graph_.nodes[n];
    const std::string where = str_cat("node ", n, " (", node.name, ")");
    for (const Operand& argument : node.arguments) {
      check_shape(argument, where);
      for (const ValueId id : argument.values) {
        require(id == kNoValue || ready(id), where, "an argument that is not made before it");
      }
    }
    if (!node.host) check_schema(node, where);
    for (const ValueId id : node.written) require(ready(id), where, "a write to an unknown value");
    for (const Operand& result : node.results) {
      check_shape(result, where);
      for (const ValueId id : result.values) {
        if (id == kNoValue) continue;
        require(exists(id), where, "a result that does not exist");
        const Value& value = graph_.values[static_cast<size_t>(id)];
        require(made_[static_cast<size_t>(id)] || value.node == static_cast<int32_t>(n), where,
                "a result that another node makes");
        made_[static_cast<size_t>(id)] = true;
      }
    }
  }

  static void check_shape(const Operand& operand, const std::string& where) {
    require(operand.kind != Kind::kValue || operand.values.size() == 1, where,
            "an operand of one value with another number of them");
    require(operand.kind != Kind::kNumber || operand.values.empty(), where, "values in a number");
  }

  static void check_schema(const Node& node, const std::string& where) {
    const size_t dot = node.name.find('.');
    const auto op = c10::Dispatcher::singleton().findSchema(
        {node.name.substr(0, dot), dot == std::string::npos ? "" : node.name.substr(dot + 1)});
    require(op.has_value(), where, "an operator that this program does not have");
    require(op->schema().arguments().size() == node.arguments.size() &&
                op->schema().returns().size() == node.results.size(),
            where, "other numbers of arguments or results than its operator");
  }

  const Graph& graph_;
  std::vector<bool> made_;  // values that are there before the node that is looked at
};

}  // namespace

void check(const Graph& graph) { Check(graph).run(); }

}  // namespace strata::graph
