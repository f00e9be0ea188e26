// Which variables LARS and Muon leave out of what they do to whole variables.
#include <algorithm>
#include <string>

#include "strata/optim/optimizers.h"
#include "tensor/muon_variables.h"

namespace strata::optimizers {

std::function<bool(const Variable&)> LARSOptions::leaves_out() const {
  if (skip_list.empty()) return {};
  return [parts = skip_list](const Variable& variable) {
    return std::ranges::any_of(parts, [&](const std::string& part) {
      return variable.name().find(part) != std::string::npos;
    });
  };
}

std::function<bool(const Variable&)> MuonOptions::leaves_out() const {
  return [matrices =
              tensor::MuonVariables(exclude_layers, exclude_embeddings)](const Variable& variable) {
    const at::IntArrayRef sizes = variable.sizes();
    return !matrices.contains(variable.name(), {sizes.data(), sizes.size()});
  };
}

}  // namespace strata::optimizers
