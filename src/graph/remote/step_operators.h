#pragma once

#include <string_view>

namespace strata::graph::remote {

/// How a step may have the operator `name` ("aten::add.Tensor").
enum class Admission {
  kRefused,
  kByMeta,  ///< Its kernel for the meta device checks arguments and tells results.
  kByRule,  ///< `untrusted::find_call_rule` has it.
  kZeroed,  ///< As kByMeta; its results have memory as it comes, which the server clears.
};
Admission admission_of(std::string_view name);

}  // namespace strata::graph::remote
