#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::keras {

/// The result of `fit`: each value at the epochs' ends. Source: keras.callbacks.History.
struct STRATA_API History {
  std::vector<int64_t> epoch;  ///< From 0.
  std::map<std::string, std::vector<double>> history;

  /// @throws Error kNotFound: lists the known names.
  const std::vector<double>& operator[](const std::string& name) const;
};

}  // namespace strata::keras
