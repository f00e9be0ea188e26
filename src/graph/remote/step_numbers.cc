#include "graph/remote/step_numbers.h"

#include <algorithm>

namespace strata::graph::remote {

std::optional<kernels::MaskedLayer> masked_layer(const std::vector<double>& numbers) {
  constexpr size_t kSettings = 3, kWeights = 4;
  if (numbers.size() < kSettings || (numbers[0] != 1 && numbers[0] != 2)) return std::nullopt;
  const auto states = static_cast<size_t>(numbers[0]);
  const bool flags = std::all_of(numbers.begin() + 1, numbers.end(),
                                 [](double each) { return each == 0 || each == 1; });
  if (!flags || numbers.size() != kSettings + 1 + states + kWeights) return std::nullopt;
  kernels::MaskedLayer layer{
      .options = {.sequence = numbers[1] == 1, .zero_output = numbers[2] == 1},
      .num_states = states,
      .wanted = {}};
  for (size_t i = kSettings; i < numbers.size(); ++i) layer.wanted.push_back(numbers[i] == 1);
  return layer;
}

}  // namespace strata::graph::remote
