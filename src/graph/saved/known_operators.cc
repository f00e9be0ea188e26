// Which nodes saved graphs have. A file from elsewhere must not make this program read other files, or
// memory: operators that take addresses, files, or sizes without a check are not among them.
#include "graph/saved/known_operators.h"

#include <set>
#include <string_view>

#include "graph/onnx/rules.h"
#include "graph/untrusted/call_types.h"

namespace strata::graph::saved {
namespace {

bool is_known(std::string_view name) {
  // It trusts its sizes and strides.
  static const std::set<std::string_view> unchecked = {"aten::_reshape_alias"};
  std::string plain(name.substr(0, name.find('.')));
  if (unchecked.contains(plain)) return false;
  if (plain.size() > 1 && plain.back() == '_') plain.pop_back();  // the same in place
  return onnx::find_rule(name) != nullptr || onnx::find_rule(plain) != nullptr ||
         onnx::find_rule(plain + std::string(name.substr(std::min(name.find('.'), name.size())))) !=
             nullptr;
}

}  // namespace

std::string fault_of_node(const Node& node) {
  if (node.host || !is_known(node.name)) return "is no operator that saved graphs may have";
  return untrusted::fault_of_call(node);
}

}  // namespace strata::graph::saved
