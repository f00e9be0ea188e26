#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/stablehlo/program.h"

namespace strata::graph::stablehlo {

/// What a loop has to know of the step that it repeats.
struct Loop {
  int64_t steps = 1;
  std::vector<bool> is_input;  ///< By parameter: each step has its own.
  std::vector<int64_t> next;   ///< By parameter: the result that is its next value; -1: it stays.
  size_t num_stacked =
      0;  ///< The first results, which are kept of each step; of others the last one's.
};

/// The functions of a module in which @main calls `step` several times: its inputs and stacked results have
/// one axis more, in front.
std::string loop_of(const Program& step, const std::vector<Array>& results, const Loop& loop);

}  // namespace strata::graph::stablehlo
