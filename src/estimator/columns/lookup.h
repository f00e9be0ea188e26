#pragma once

#include <optional>
#include <string>

#include "estimator/columns/column_impl.h"

namespace strata::feature_column::detail {

struct Lookup {
  const std::string& column;  ///< For errors.
  const Combiner& combiner;
  std::optional<double> max_norm = {};
};

/// The rows of `table` `[buckets, width]` that a row's entries choose, combined: `[rows, width]`.
/// The table's gradient is sparse, and has the rows of valid ids alone.
/// @throws Error kOutOfRange: ids beyond the table.
at::Tensor look_up(const at::Tensor& table, const Entries& entries, const Lookup& how);

}  // namespace strata::feature_column::detail
