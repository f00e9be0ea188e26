#pragma once

#include <cstdint>
#include <regex>
#include <span>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::tensor {

/// Which variables Muon updates; Adam has the others.
class STRATA_API MuonVariables {
 public:
  /// @param exclude_layers  Regular expressions, of which none is found in the name.
  /// @throws Error kInvalidArgument: no regular expression.
  MuonVariables(const std::vector<std::string>& exclude_layers, bool exclude_embeddings);

  bool contains(const std::string& name, std::span<const int64_t> sizes) const;

 private:
  std::vector<std::regex> excluded_;
  bool exclude_embeddings_;
};

}  // namespace strata::tensor
