#include "graph/onnx/rules.h"

namespace strata::graph::onnx {

Rule find_rule(std::string_view name) {
  const std::string_view base = name.substr(0, name.find('.'));
  for (const Rules* rules : {&elementwise_rules(), &shape_rules(), &reduction_rules(),
                             &layer_rules(), &recurrent_rules()}) {
    for (const std::string_view each : {name, base}) {
      const auto found = rules->find(each);
      if (found != rules->end()) return found->second;
    }
  }
  return nullptr;
}

}  // namespace strata::graph::onnx
