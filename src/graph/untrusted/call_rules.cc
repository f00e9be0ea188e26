// Most operators check that no argument makes them read or write beyond their tensors, before they
// compute. For the others there is a rule. Where an operator trusts the elements of a tensor (positions
// of maxima, labels in a backward), the rule demands that they come from the operator that makes or
// has checked them, in the same graph, and that no node writes them.
#include "graph/untrusted/call_rules.h"

#include <c10/util/Exception.h>

#include "graph/untrusted/rule_tables.h"

namespace strata::graph::untrusted {

const Value* CallView::value_of(ValueId id) const {
  return id == kNoValue ? nullptr : &graph_.values[static_cast<size_t>(id)];
}

const Value* CallView::tensor(size_t argument) const {
  return node_.arguments[argument].values.empty() ? nullptr : value_of(id(argument));
}

std::vector<const Value*> CallView::tensors(size_t argument) const {
  std::vector<const Value*> all;
  for (const ValueId id : node_.arguments[argument].values) all.push_back(value_of(id));
  return all;
}

CallRule find_call_rule(std::string_view name) {
  if (name.ends_with(".out") || name.ends_with("_out")) return nullptr;
  static const RuleTable rules = [] {
    RuleTable all;
    for (const RuleTable* table :
         {&attention_rules(), &convolution_rules(), &elementwise_rules(), &image_rules(),
          &index_rules(), &loss_rules(), &normalization_rules(), &pooling_rules(), &product_rules(),
          &recurrent_rules(), &reduction_rules()}) {
      all.insert(table->begin(), table->end());
    }
    return all;
  }();
  if (const auto found = rules.find(name); found != rules.end()) return found->second;
  const auto found = rules.find(name.substr(0, name.find('.')));
  return found == rules.end() ? nullptr : found->second;
}

std::optional<std::vector<std::optional<ExpectedResult>>> apply_rule(CallRule rule,
                                                                     const CallView& call,
                                                                     std::string& why) {
  try {
    return rule(call, why);
  } catch (const c10::Error&) {
    why = "arguments of another overload";
    return std::nullopt;
  }
}

std::string fault_of_sizes(const Graph& graph, size_t node) {
  const CallRule rule = find_call_rule(graph.nodes[node].name);
  std::string why;
  return rule == nullptr || apply_rule(rule, CallView(graph, node), why) ? "" : why;
}

}  // namespace strata::graph::untrusted
