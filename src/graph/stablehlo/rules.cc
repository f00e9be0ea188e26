#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {

const Rule* find_rule(std::string_view name) {
  const std::string_view base = name.substr(0, name.find('.'));
  for (const std::string_view each : {name, base}) {
    for (const Rules* rules :
         {&elementwise_rules(), &activation_rules(), &shape_rules(), &creation_rules(),
          &reduction_rules(), &product_rules(), &index_rules(), &convolution_rules(),
          &normalization_rules(), &pooling_rules(), &resizing_rules(), &loss_rules(),
          &random_rules(), &collective_rules(), &update_rules()}) {
      const auto found = rules->find(each);
      if (found != rules->end()) return &found->second;
    }
  }
  return nullptr;
}

}  // namespace strata::graph::stablehlo
