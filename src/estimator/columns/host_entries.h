#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/columns/column_impl.h"

namespace strata::feature_column::detail {

/// A feature's entries, in the memory of the host.
class HostEntries {
 public:
  /// @param values  As Feature::values; floating values are cut to integers.
  HostEntries(const at::Tensor& values, bool is_text);

  int64_t rows() const { return rows_; }
  int64_t most() const { return most_; }
  /// A text without the zero bytes behind it. Valid as long as this object.
  std::string_view text(int64_t row, int64_t entry) const;
  int64_t integer(int64_t row, int64_t entry) const;

 private:
  at::Tensor values_;
  int64_t rows_;
  int64_t most_;
  int64_t width_;  // of a text
};

/// Entries of a row in a feature of these sizes.
int64_t most_entries(const at::Tensor& values, bool is_text);

/// Computes ids on the host; while a step is recorded, as one node of the graph.
/// @param compute  Fills `ids`, `[rows, most]`; it gets the inputs on the host.
using ComputeIds = std::function<void(const std::vector<at::Tensor>& inputs, at::Tensor& ids)>;
at::Tensor ids_on_host(const char* node, const std::vector<at::Tensor>& inputs, int64_t most,
                       ComputeIds compute);

}  // namespace strata::feature_column::detail
