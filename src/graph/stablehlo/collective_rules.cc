// Where replicas meet: one program runs on all of them.
#include <string>

#include "graph/stablehlo/rules.h"
#include "strata/core/str_cat.h"

namespace strata::graph::stablehlo {
namespace {

std::string all_replicas(const NodeLowering& node) {
  std::string group;
  for (int64_t r = 0; r < node.num_replicas(); ++r) group += str_cat(r == 0 ? "" : ", ", r);
  return str_cat("replica_groups = dense<[[", group, "]]> : tensor<1x", node.num_replicas(),
                 "xi64>");
}

/// strata::all_gather([value], [axis])
void all_gather(NodeLowering& node) {
  const std::vector<double> numbers = node.node().arguments[1].number.toDoubleVector();
  const Value& result = node.value_of(node.result_list()[0]);
  const Array x = node.read(node.list(0)[0]);
  node.require(numbers.size() == 1 && numbers[0] >= 0 && numbers[0] < static_cast<double>(x.rank()),
               "another axis");
  node.give_list({node.program().emit(
      str_cat("\"stablehlo.all_gather\"(", x.name,
              ") {all_gather_dim = ", static_cast<int64_t>(numbers[0]), " : i64, ",
              all_replicas(node), "} : (", type_of(x), ") -> ", type_of(x.dtype, result.sizes)),
      x.dtype, result.sizes)});
}

/// strata::all_reduce([value], [operation]), with the numbers of collective's ReduceOp: 0 sum, 1 mean, 2 min,
/// 3 max.
void all_reduce(NodeLowering& node) {
  static constexpr const char* kOperators[] = {"stablehlo.add", "stablehlo.add",
                                               "stablehlo.minimum", "stablehlo.maximum"};
  constexpr int64_t kMean = 1;
  const std::vector<double> numbers = node.node().arguments[1].number.toDoubleVector();
  node.require(numbers.size() == 1 && numbers[0] >= 0 && numbers[0] < 4, "another operation");
  const auto operation = static_cast<int64_t>(numbers[0]);
  const Value& result = node.value_of(node.result_list()[0]);
  const Array x = convert(node.read(node.list(0)[0]), result.dtype);
  Program& program = node.program();
  const std::string a = program.unique(), b = program.unique(), c = program.unique();
  const std::string type = type_of(x.dtype, {});
  const Array total = program.emit(
      str_cat("\"stablehlo.all_reduce\"(", x.name, ") ({\n    ^bb0(", a, ": ", type, ", ", b, ": ",
              type, "):\n      ", c, " = ", kOperators[operation], " ", a, ", ", b, " : ", type,
              "\n      stablehlo.return ", c, " : ", type, "\n    }) {", all_replicas(node),
              "} : (", type_of(x), ") -> ", type_of(x)),
      x.dtype, x.sizes);
  node.give_list({operation == kMean ? total / static_cast<double>(node.num_replicas()) : total});
}

/// Labels and words out of range are not looked for.
void unchecked(NodeLowering&) {}

}  // namespace

const Rules& collective_rules() {
  static const Rules rules = {
      {"strata::all_gather", {all_gather}},
      {"strata::all_reduce", {all_reduce}},
      {"strata::check_labels", {unchecked}},
      {"strata::check_tokens", {unchecked}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
