#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::keras {

/// What `fit` returns: each value that the epochs ended with. Source: keras.callbacks.History.
struct STRATA_API History {
  std::vector<int64_t> epoch;  ///< From 0.
  std::map<std::string, std::vector<double>> history;

  /// @throws Error kNotFound: lists the names there are.
  const std::vector<double>& operator[](const std::string& name) const;
};

}  // namespace strata::keras
